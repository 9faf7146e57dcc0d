"""The feed-forward network with native AMP, as one writes it by hand."""

import torch
from network import build_model, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(1)
    model = build_model(args).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss()
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = criterion(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
