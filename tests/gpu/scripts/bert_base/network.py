"""A transformer encoder of BERT-base's size that restores masked tokens; 110 million parameters."""

from __future__ import annotations

import argparse

import torch
from torch import nn

MASKED = 0.15  # of the tokens of a sequence


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=128, help="tokens in a sequence")
    parser.add_argument("--vocabulary", type=int, default=30522)
    parser.add_argument("--positions", type=int, default=512, help="the longest sequence")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--warm-up", type=int, default=100, help="steps until the full learning rate")
    return parser.parse_args(argv)


class Attention(nn.Module):
    """Attention of all tokens to all, written out: in the years of Apex torch had no function for it."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        batch, length, width = tokens.shape
        mixed = self.mix(tokens).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, width of a head)
        scores = torch.matmul(query, key.transpose(-1, -2)) / (width // self.heads) ** 0.5
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """Attention and two dense layers, each with a residual and a norm after it."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        tokens = self.norms[0](tokens + self.dropout(self.attention(tokens)))
        return self.norms[1](tokens + self.dropout(self.dense(tokens)))


class Encoder(nn.Module):
    """From token numbers (batch, length) and places in the flattened batch to logits (places, vocabulary)."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width)
        self.positions = nn.Embedding(args.positions, args.width)
        self.norm = nn.LayerNorm(args.width)
        self.dropout = nn.Dropout(args.dropout)
        self.layers = nn.Sequential(*(Layer(args.width, args.heads, args.dropout) for _ in range(args.layers)))
        self.transform = nn.Sequential(nn.Linear(args.width, args.width), nn.GELU(), nn.LayerNorm(args.width))
        self.head = nn.Linear(args.width, args.vocabulary)
        self.head.weight = self.tokens.weight
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, numbers, places):
        positions = torch.arange(numbers.shape[1], device=numbers.device)
        tokens = self.dropout(self.norm(self.tokens(numbers) + self.positions(positions)))
        return self.head(self.transform(self.layers(tokens).flatten(0, 1)[places]))


def build_model(args):
    return Encoder(args)


def make_batches(args):
    """Token numbers (batch, length) with some masked by 0, the masked places, and what stood there; on the GPU."""
    total = args.batch_size * args.length
    for _ in range(args.steps):
        numbers = torch.randint(1, args.vocabulary, (total,), device="cuda")
        places = torch.randperm(total, device="cuda")[: int(MASKED * total)]
        targets = numbers[places]
        numbers[places] = 0
        yield numbers.view(args.batch_size, args.length), places, targets
