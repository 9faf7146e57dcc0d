"""A U-Net that segments bright blobs; 7.7 million parameters with 32 channels at the top and four levels below."""

from __future__ import annotations

import argparse

import torch
from torch import nn


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=256, help="height and width of an image, a multiple of 2**LEVELS")
    parser.add_argument("--channels", type=int, default=32, help="at the top; each level below has twice as many")
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-2)
    return parser.parse_args(argv)


def two_convolutions(inputs, outputs):
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """From images (batch, 3, size, size) to logits (batch, 1, size, size)."""

    def __init__(self, channels, levels):
        super().__init__()
        widths = [channels * 2**level for level in range(levels + 1)]
        self.down = nn.ModuleList(two_convolutions(*pair) for pair in zip([3, *widths], widths, strict=False))
        self.up = nn.ModuleList()
        self.merge = nn.ModuleList()
        for width in reversed(widths[:-1]):
            self.up.append(nn.ConvTranspose2d(2 * width, width, 2, stride=2))
            self.merge.append(two_convolutions(2 * width, width))
        self.head = nn.Conv2d(channels, 1, 1)

    def forward(self, images):
        features = self.down[0](images)
        skipped = []
        for block in self.down[1:]:
            skipped.append(features)
            features = block(nn.functional.max_pool2d(features, 2))
        for up, merge in zip(self.up, self.merge, strict=True):
            features = merge(torch.cat([skipped.pop(), up(features)], dim=1))
        return self.head(features)


def build_model(args):
    return UNet(args.channels, args.levels)


def dice_loss(logits, masks):
    """1 - Dice coefficient of the whole batch; 1 is added to both sides, for masks that are empty."""
    probabilities = torch.sigmoid(logits.float())
    return 1 - (2 * (probabilities * masks).sum() + 1) / (probabilities.sum() + masks.sum() + 1)


def make_batches(args):
    """Noisy images (batch, 3, size, size) and masks (batch, 1, size, size) of their blobs, made on the GPU."""
    for _ in range(args.steps):
        coarse = torch.randn(args.batch_size, 1, args.size // 8, args.size // 8, device="cuda")
        blobs = nn.functional.interpolate(coarse, scale_factor=8, mode="bilinear", align_corners=False)
        noise = torch.randn(args.batch_size, 3, args.size, args.size, device="cuda")
        yield blobs + 0.5 * noise, (blobs > 0.3).float()
