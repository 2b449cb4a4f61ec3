#!/usr/bin/env python3
"""Train the classifier of digits.rly and write its weights.

    pip install numpy torch
    python train.py [--epochs N] [--seed N] [--out weights.npz]

The first 1,347 images of digits.npz are the training set, the other 450 the
test set, which is only looked at once, at the end.  The arrays in the file
that is written have the names of the parameters of @main in digits.rly.
Takes about a minute on one core.
"""
import argparse
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = 1347                      # images before this one train, the rest test
BATCH = 64


class Classifier(nn.Module):
    """The network of digits.rly, layer by layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.conv3 = nn.Conv2d(16, 32, 3, padding=1)
        self.dense1 = nn.Linear(32 * 2 * 2, 64)
        self.dense2 = nn.Linear(64, 10)

    def forward(self, x, drop=0.0):
        x = functional.relu(self.conv1(x))
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv3(x)), 2)
        x = functional.dropout(x.flatten(1), drop, training=drop > 0)
        x = functional.dropout(functional.relu(self.dense1(x)), drop, training=drop > 0)
        return self.dense2(x)


def load():
    """The images as float32 [n, 1, 8, 8] in 0 to 1, and the labels."""
    with np.load(os.path.join(HERE, "digits.npz")) as data:
        images = torch.from_numpy(data["images"].astype(np.float32) / 16).unsqueeze(1)
        labels = torch.from_numpy(data["labels"].astype(np.int64))
    return images, labels


def distort(images, rng):
    """Every image turned, sheared, scaled and shifted a little, each by its own amount."""
    n = len(images)

    def draw(width):
        return (torch.rand(n, generator=rng) * 2 - 1) * width

    turn, shear, grow_x, grow_y = draw(0.2), draw(0.15), 1 + draw(0.12), 1 + draw(0.12)
    cos, sin = torch.cos(turn), torch.sin(turn)
    rows = [torch.stack([cos * grow_x, -sin + shear, draw(0.25)], dim=1),
            torch.stack([sin, cos * grow_y, draw(0.25)], dim=1)]
    grid = functional.affine_grid(torch.stack(rows, dim=1), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def train(model, images, labels, epochs, rng):
    """Adam with a learning rate that falls along a cosine, on freshly distorted images."""
    steps = epochs * ((len(images) + BATCH - 1) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for epoch in range(epochs):
        total = 0.0
        for index in torch.randperm(len(images), generator=rng).split(BATCH):
            scores = model(distort(images[index], rng), drop=0.1)
            loss = functional.cross_entropy(scores, labels[index], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(index)
        if (epoch + 1) % 20 == 0:
            print(f"epoch {epoch + 1:3}: loss {total / len(images):.4f}", flush=True)


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "weights.npz"))
    args = parser.parse_args()

    torch.set_num_threads(1)      # the order of sums, and so the result, must not vary
    torch.manual_seed(args.seed)
    rng = torch.Generator().manual_seed(args.seed)
    images, labels = load()
    model = Classifier()
    train(model, images[:TRAIN], labels[:TRAIN], args.epochs, rng)

    weights = {name.replace(".", "_"): value.detach().numpy()
               for name, value in model.named_parameters()}
    np.savez_compressed(args.out, **weights)
    print(f"accuracy: {accuracy(model, images[:TRAIN], labels[:TRAIN]):.4f} on the training set, "
          f"{accuracy(model, images[TRAIN:], labels[TRAIN:]):.4f} on the test set")
    print(f"{sum(w.size for w in weights.values())} weights in {args.out}")


if __name__ == "__main__":
    main()
