"""The feed-forward network in float32."""

import torch
from network import build_model, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(1)
    model = build_model(args).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
