"""The U-Net with Apex AMP, before its migration."""

import torch
from apex import amp
from network import build_model, dice_loss, make_batches, parse_args
from torch import nn


def train(args, batches):
    torch.manual_seed(2)
    model = build_model(args).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    for images, masks in batches:
        logits = model(images)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, masks) + dice_loss(logits, masks)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        nn.utils.clip_grad_value_(amp.master_params(optimizer), 0.1)
        optimizer.step()


if __name__ == "__main__":
    args = parse_args()
    train(args, make_batches(args))
