"""The transformer encoder with native AMP, as one writes it by hand."""

import torch
from network import build_model, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(3)
    model = build_model(args).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cuda")
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warm_up))
    for numbers, places, targets in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(numbers, places), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
