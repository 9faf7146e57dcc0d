"""The U-Net with native AMP, as one writes it by hand."""

import torch
from network import build_model, dice_loss, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(2)
    model = build_model(args).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    for images, masks in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(images)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
