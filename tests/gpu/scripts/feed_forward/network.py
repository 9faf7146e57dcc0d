"""A feed-forward network that classifies points around random centers: too small to gain from half precision."""

from __future__ import annotations

import argparse

import torch
from torch import nn


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args(argv)


def build_model(args):
    return nn.Sequential(
        nn.Linear(args.features, args.hidden),
        nn.ReLU(),
        nn.Linear(args.hidden, args.hidden),
        nn.ReLU(),
        nn.Linear(args.hidden, args.classes),
    )


def make_batches(args):
    """Points (batch, features) and their classes (batch,), made on the GPU; the classes overlap, so the loss stays."""
    centers = 0.05 * torch.randn(args.classes, args.features, device="cuda")
    for _ in range(args.steps):
        targets = torch.randint(args.classes, (args.batch_size,), device="cuda")
        yield centers[targets] + torch.randn(args.batch_size, args.features, device="cuda"), targets
