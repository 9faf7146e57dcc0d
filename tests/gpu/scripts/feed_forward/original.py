"""The feed-forward network with Apex AMP, before its migration."""

import torch
from apex import amp
from network import build_model, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(1)
    model = build_model(args).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    criterion = nn.CrossEntropyLoss()
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
