#!/usr/bin/env python3
"""What a step of training costs beside the loss alone: a row for each network.

    tests/bench/training.py --relay build/release/relay [--bench tests/bench] [--rounds N] [--keep FOLDER] [NAME…]

forward     the loss of a batch, whose weights are arguments, as in training
step        the loss and its derivative by every weight (`value_and_grad`)
ratio       the one over the other, each the least of all rounds
compiled    what the first step needs besides: passes and machine code, none of it kept in files

One thread. The exit status is 1 where a step takes more than 3.5 times its forward or is compiled in more than half a second."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

DIGITS = """#[version = "0.0.5"]

def @main(%x: Tensor[(64, 1, 8, 8), float32], %w1: Tensor[(8, 1, 3, 3), float32], %b1: Tensor[(8), float32],
          %w2: Tensor[(16, 8, 3, 3), float32], %b2: Tensor[(16), float32], %w3: Tensor[(32, 16, 3, 3), float32],
          %b3: Tensor[(32), float32], %w4: Tensor[(64, 128), float32], %b4: Tensor[(64), float32],
          %w5: Tensor[(10, 64), float32], %b5: Tensor[(10), float32]) {
  %0 = nn.relu(nn.bias_add(nn.conv2d(%x, %w1, padding=[1, 1], channels=8, kernel_size=[3, 3]), %b1));
  %1 = nn.relu(nn.bias_add(nn.conv2d(%0, %w2, padding=[1, 1], channels=16, kernel_size=[3, 3]), %b2));
  %2 = nn.max_pool2d(%1, pool_size=[2, 2], strides=[2, 2]);
  %3 = nn.relu(nn.bias_add(nn.conv2d(%2, %w3, padding=[1, 1], channels=32, kernel_size=[3, 3]), %b3));
  %4 = nn.max_pool2d(%3, pool_size=[2, 2], strides=[2, 2]);
  %5 = nn.relu(nn.bias_add(nn.dense(nn.batch_flatten(%4), %w4, units=64), %b4));
  nn.bias_add(nn.dense(%5, %w5, units=10), %b5)
}
"""

# Where the program stands, what stands for its batch of one, which parameters are no weights, and what of its result is its score.
NETWORKS = {
    "digits": (None, None, ["x"], "%r"),
    "lstm": ("lstm_64x128", None, ["xs", "h0", "c0"], "%r.0"),
    "lstm_wide": ("lstm_32x512", None, ["xs", "h0", "c0"], "%r.0"),
    "bert_base_block": ("bert_base_block", None, None, "%r"),
    "bert_tiny": ("bert_tiny", None, None, "%r"),
    "resnet18": ("resnet18", ("(1, 3, 224, 224)", "(4, 3, 224, 224)"), None, "%r"),
}


def programs(folder, name):
    """The loss alone and the step, as texts."""
    file, batch, data, score = NETWORKS[name]
    text = DIGITS
    if file:
        with open(os.path.join(folder, "programs", file + ".rly")) as stream:
            text = stream.read()
    if batch:
        text = text.replace(*batch)
    if data is None:
        with open(os.path.join(folder, "manifest.json")) as stream:
            data = [p["name"] for p in json.load(stream)[file]["params"] if p["role"] == "input"]
    at = text.index("def @main(")
    head = text[at + len("def @main("):]
    params = re.findall(r"%(\w+): (Tensor\[\([^)]*\), \w+\])", head[:head.index("{")])
    listed = lambda which: ", ".join("%%%s: %s" % p for p in which)
    weights = [p for p in params if p[0] not in data]
    body = text.replace("def @main(", "def @scores(") + "\n"
    call = "  let %%r = @scores(%s);\n  mean(%s * %s)\n" % (", ".join("%" + n for n, _ in params), score, score)
    forward = body + "def @main(%s) {\n%s}\n" % (listed(params), call)
    step = body + "def @main(%s) {\n  value_and_grad(fn (%s) {\n  %s  })(%s)\n}\n" % (
        listed(params), listed(weights), call.replace("\n", "\n  ")[:-2], ", ".join("%" + n for n, _ in weights))
    return forward, step


def bench(relay, path, seconds):
    command = [relay, "bench", path, "--random", "1", "--threads", "1", "--seconds", str(seconds), "--runs", "3", "--json", "--no-cache"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    told = json.loads(run.stdout.splitlines()[-1])
    return told["min_ms"], told["compile_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relay", default="build/release/relay")
    parser.add_argument("--bench", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--keep", help="a folder for the programs")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    slow = False
    with tempfile.TemporaryDirectory() as room:
        room = args.keep or room
        for name in args.names or NETWORKS:
            paths = [os.path.join(room, name + end) for end in ("_forward.rly", "_step.rly")]
            for path, text in zip(paths, programs(args.bench, name)):
                with open(path, "w") as stream:
                    stream.write(text)
            rounds = [[bench(args.relay, path, args.seconds) for path in paths] for _ in range(args.rounds)]
            forward, step = (min(r[i][0] for r in rounds) for i in range(2))
            compiled = min(r[1][1] - r[1][0] for r in rounds)  # the first call is a step as well
            slow |= step > 3.5 * forward or compiled > 500
            print("%-16s forward %9.3f ms  step %9.3f ms  ratio %5.2f  compiled %5.0f ms" % (name, forward, step, step / forward, compiled),
                  flush=True)
    return slow


if __name__ == "__main__":
    sys.exit(main())
