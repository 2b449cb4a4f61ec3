#!/usr/bin/env python3
"""Train the letter model of letters.rly on licence texts and write its weights.

    pip install numpy
    python train.py [--epochs N] [--seed N] [--out weights.npz]

The texts are those that every Debian system has in /usr/share/common-licenses; GPL-2 is kept
back as the test.  The arrays in the file that is written have the names of the parameters of
letters.rly.  Takes about five minutes on one core.
"""
import argparse
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = "/usr/share/common-licenses"
TRAIN = ["GPL-3", "LGPL-2.1", "GFDL-1.3", "MPL-2.0", "Apache-2.0", "Artistic"]
TEST = "GPL-2"
LETTERS, HIDDEN = 128, 96
STREAMS, STEPS = 32, 48         # texts read side by side, letters between two updates


def letters_of(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        return np.frombuffer(f.read(), np.uint8).astype(np.int64) & 127


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def start(rng):
    def uniform(shape, fan_in):
        return rng.uniform(-1, 1, shape).astype(np.float32) * np.float32(fan_in ** -0.5)
    bias = np.zeros(4 * HIDDEN, np.float32)
    bias[HIDDEN:2 * HIDDEN] = 1             # remember, at first
    return {"letter_weight": uniform((LETTERS, 4 * HIDDEN), HIDDEN), "state_weight": uniform((4 * HIDDEN, HIDDEN), HIDDEN),
            "state_bias": bias, "out_weight": uniform((LETTERS, HIDDEN), HIDDEN), "out_bias": np.zeros(LETTERS, np.float32)}


def forward(w, xs, h, c):
    """xs [steps, streams]; -> what the backward pass needs, the logits, the last state."""
    kept, logits = [], []
    for x in xs:
        g = w["letter_weight"][x] + h @ w["state_weight"].T + w["state_bias"]
        i, f, u, o = np.split(g, 4, axis=1)
        i, f, u, o = sigmoid(i), sigmoid(f), np.tanh(u), sigmoid(o)
        before = h, c
        c = f * c + i * u
        t = np.tanh(c)
        h = o * t
        kept.append((x, before, i, f, u, o, t, h))
        logits.append(h @ w["out_weight"].T + w["out_bias"])
    return kept, np.array(logits), h, c


def loss_and_slope(logits, ys):
    """Mean nats a letter, and its derivative by the logits."""
    z = logits - logits.max(axis=2, keepdims=True)
    p = np.exp(z)
    p /= p.sum(axis=2, keepdims=True)
    rows = np.arange(ys.size)
    flat = p.reshape(-1, LETTERS)
    loss = -np.log(flat[rows, ys.reshape(-1)] + 1e-12).mean()
    flat[rows, ys.reshape(-1)] -= 1
    return loss, p / ys.size


def backward(w, kept, slope):
    grad = {k: np.zeros_like(v) for k, v in w.items()}
    dh, dc = 0, 0
    for (x, (h0, c0), i, f, u, o, t, h), d in zip(reversed(kept), reversed(slope)):
        grad["out_weight"] += d.T @ h
        grad["out_bias"] += d.sum(axis=0)
        dh = dh + d @ w["out_weight"]
        dc = dc + dh * o * (1 - t * t)
        dg = np.concatenate([dc * u * i * (1 - i), dc * c0 * f * (1 - f), dc * i * (1 - u * u),
                             dh * t * o * (1 - o)], axis=1)
        np.add.at(grad["letter_weight"], x, dg)
        grad["state_weight"] += dg.T @ h0
        grad["state_bias"] += dg.sum(axis=0)
        dh, dc = dg @ w["state_weight"], dc * f
    return grad


class Adam:
    """D. Kingma, J. Ba 2014, on gradients whose norm is bounded."""

    def __init__(self, w):
        self.m = {k: np.zeros_like(v) for k, v in w.items()}
        self.v = {k: np.zeros_like(v) for k, v in w.items()}
        self.t = 0

    def step(self, w, grad, rate):
        self.t += 1
        norm = np.sqrt(sum((g * g).sum() for g in grad.values()))
        for k, g in grad.items():
            g = g * min(1, 1 / norm)
            self.m[k] += 0.1 * (g - self.m[k])
            self.v[k] += 0.001 * (g * g - self.v[k])
            m, v = self.m[k] / (1 - 0.9 ** self.t), self.v[k] / (1 - 0.999 ** self.t)
            w[k] -= (rate * m / (np.sqrt(v) + 1e-8)).astype(np.float32)


def test(w):
    text = letters_of(TEST)
    zero = np.zeros((1, HIDDEN), np.float32)
    _, logits, _, _ = forward(w, text[:-1, None], zero, zero)
    return loss_and_slope(logits, text[1:, None])[0] / np.log(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "weights.npz"))
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    text = np.concatenate([letters_of(name) for name in TRAIN])
    n = len(text) // STREAMS
    w = start(rng)
    adam, updates = Adam(w), args.epochs * ((n - 1) // STEPS)
    for epoch in range(args.epochs):
        # Every epoch cuts the text elsewhere.
        streams = np.roll(text, rng.integers(len(text)))[:n * STREAMS].reshape(STREAMS, n).T
        h = c = np.zeros((STREAMS, HIDDEN), np.float32)
        total = 0
        for at in range(0, n - 1 - STEPS, STEPS):
            kept, logits, h, c = forward(w, streams[at:at + STEPS], h, c)
            loss, slope = loss_and_slope(logits, streams[at + 1:at + STEPS + 1])
            total += loss * STEPS
            adam.step(w, backward(w, kept, slope), 4e-3 * (1 - adam.t / updates) + 1e-5)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}: {total / n / np.log(2):.3f} bits a letter", flush=True)
    np.savez_compressed(args.out, **w)
    print(f"{test(w):.3f} bits a letter on {TEST}; {sum(v.size for v in w.values())} weights in {args.out}")


if __name__ == "__main__":
    main()
