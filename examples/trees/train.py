#!/usr/bin/env python3
"""Train the tree network of trees.rly and write its weights.

    pip install numpy
    python prototypes.py && python train.py [--epochs N] [--seed N] [--out weights.npz]

The arrays in the file that is written have the names of the parameters of @main in trees.rly.
Takes about a minute on one core.
"""
import argparse
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS, WIDTH, HEADERS = 199, 32, 7


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def load(path):
    """[(nodes, header, test)]; a node is (word, the numbers of its children), children first."""
    data = np.load(path)
    out = []
    for i, header in enumerate(data["header"]):
        lo, hi = data["first"][i], data["first"][i + 1]
        words, counts = data["words"][lo:hi], data["children"][lo:hi]
        nodes, stack = [], []
        for k in range(hi - lo - 1, -1, -1):
            below = [stack.pop() for _ in range(counts[k])]
            stack.append(len(nodes))
            nodes.append((words[k], below))
        out.append((nodes, header, data["test"][i]))
    return out


def start(rng):
    def uniform(shape, fan_in):
        return rng.uniform(-1, 1, shape) * fan_in ** -0.5
    w = {"embedding": uniform((WORDS, WIDTH), 4), "gate_weight": uniform((3 * WIDTH, 2 * WIDTH), 2 * WIDTH),
         "gate_bias": np.zeros(3 * WIDTH), "forget_weight": uniform((WIDTH, 2 * WIDTH), 2 * WIDTH),
         "forget_bias": np.ones(WIDTH), "out_weight": uniform((HEADERS, WIDTH), WIDTH), "out_bias": np.zeros(HEADERS)}
    return w


def forward(w, nodes):
    """The states of all nodes, children first (K. Tai, R. Socher, C. Manning 2015)."""
    kept = []
    for word, below in nodes:
        x = w["embedding"][word]
        hs = np.array([kept[k][0] for k in below]).reshape(-1, WIDTH)
        cs = np.array([kept[k][1] for k in below]).reshape(-1, WIDTH)
        z = np.concatenate([x, hs.sum(axis=0)])
        i, o, u = np.split(w["gate_weight"] @ z + w["gate_bias"], 3)
        i, o, u = sigmoid(i), sigmoid(o), np.tanh(u)
        zf = np.concatenate([np.tile(x, (len(below), 1)), hs], axis=1)
        f = sigmoid(zf @ w["forget_weight"].T + w["forget_bias"])
        c = i * u + (f * cs).sum(axis=0)
        t = np.tanh(c)
        kept.append((o * t, c, i, o, u, z, zf, f, cs, t))
    return kept


def backward(w, grad, nodes, kept, dh_root):
    dh = np.zeros((len(nodes), WIDTH))
    dc = np.zeros((len(nodes), WIDTH))
    dh[-1] = dh_root
    for n in range(len(nodes) - 1, -1, -1):
        word, below = nodes[n]
        _, _, i, o, u, z, zf, f, cs, t = kept[n]
        d = dc[n] + dh[n] * o * (1 - t * t)
        g = np.concatenate([d * u * i * (1 - i), dh[n] * t * o * (1 - o), d * i * (1 - u * u)])
        grad["gate_weight"] += np.outer(g, z)
        grad["gate_bias"] += g
        dz = g @ w["gate_weight"]
        gf = d * cs * f * (1 - f)
        grad["forget_weight"] += gf.T @ zf
        grad["forget_bias"] += gf.sum(axis=0)
        dzf = gf @ w["forget_weight"]
        grad["embedding"][word] += dz[:WIDTH] + dzf[:, :WIDTH].sum(axis=0)
        for k, child in enumerate(below):
            dh[child] += dz[WIDTH:] + dzf[k, WIDTH:]
            dc[child] += d * f[k]


def scores(w, kept):
    z = w["out_weight"] @ kept[-1][0] + w["out_bias"]
    p = np.exp(z - z.max())
    return p / p.sum()


def accuracy(w, trees):
    return np.mean([scores(w, forward(w, nodes)).argmax() == header for nodes, header, _ in trees])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="prototypes.npz")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=os.path.join(HERE, "weights.npz"))
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    trees = load(args.data)
    train, test = [t for t in trees if not t[2]], [t for t in trees if t[2]]
    w = start(rng)
    m, v = ({k: np.zeros_like(x) for k, x in w.items()} for _ in range(2))
    batch, step = 16, 0
    for epoch in range(args.epochs):
        total, rate = 0, 4e-3 * (1 - epoch / args.epochs)
        for some in np.array_split(rng.permutation(len(train)), len(train) // batch):
            grad = {k: 1e-3 * x for k, x in w.items()}
            for index in some:
                nodes, header, _ = train[index]
                kept = forward(w, nodes)
                p = scores(w, kept)
                total -= np.log(p[header] + 1e-12)
                p[header] -= 1
                p /= len(some)
                grad["out_weight"] += np.outer(p, kept[-1][0])
                grad["out_bias"] += p
                backward(w, grad, nodes, kept, p @ w["out_weight"])
            step += 1
            for k, g in grad.items():                # Adam: D. Kingma, J. Ba 2014
                m[k] += 0.1 * (g - m[k])
                v[k] += 0.001 * (g * g - v[k])
                w[k] -= rate * (m[k] / (1 - 0.9 ** step)) / (np.sqrt(v[k] / (1 - 0.999 ** step)) + 1e-8)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}: {total / len(train):.3f} nats a tree", flush=True)
    w = {k: x.astype(np.float32) for k, x in w.items()}
    np.savez_compressed(args.out, **w)
    print(f"accuracy: {accuracy(w, train):.3f} on the training set, {accuracy(w, test):.3f} on the test set")


if __name__ == "__main__":
    main()
