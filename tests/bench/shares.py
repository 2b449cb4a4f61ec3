"""What kernels reach of what one core of this machine can do, measured in the same process: `:schedule` of each.

    shares.py [--relay build/release/relay] [--rounds 3] [--bar 0.8] [--bar-memory 0.85] [PART OF A NAME...]

prints for each convolution of ResNet-18, by its sums and not by fast transforms, the time, the share of the peak that multiply-adds in registers
reach, and how often the network has it, then the share of all of them together; and for what moves memory the share of a copy of as many
bytes. Of the rounds the best counts, of the kernel and of the machine. Ends with 1 when a share lies below its bar.
"""
import argparse
import os
import re
import subprocess
import sys

# How often the network has it, channels in and out, the side of the data, the window and its step.
CONVOLUTIONS = [(1, 3, 64, 224, 7, 2), (4, 64, 64, 56, 3, 1), (1, 64, 128, 56, 3, 2), (1, 64, 128, 56, 1, 2), (3, 128, 128, 28, 3, 1),
                (1, 128, 256, 28, 3, 2), (1, 128, 256, 28, 1, 2), (3, 256, 256, 14, 3, 1), (1, 256, 512, 14, 3, 2), (1, 256, 512, 14, 1, 2),
                (3, 512, 512, 7, 3, 1)]
MEMORY = [("add", "%a + %b"), ("transpose_add", "transpose(%a, axes=[1, 0]) + %b")]
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1}


def scripts():
    for count, c, o, side, window, step in CONVOLUTIONS:
        p = window // 2
        text = f"""let %w = full(0.01f, shape=[{o}, {c}, {window}, {window}], dtype="float32");
let %x = full(0.5f, shape=[1, {c}, {side}, {side}], dtype="float32");
let %f = fn (%x: Tensor[(1, {c}, {side}, {side}), float32]) {{
  nn.conv2d(%x, %w, strides=[{step}, {step}], padding=[{p}, {p}, {p}, {p}], channels={o}, kernel_size=[{window}, {window}])
}};
:schedule %f(%x) direct
"""
        yield f"conv{window}x{window}s{step}_{c}_{o}_{side}", count, text
    for name, computed in MEMORY:
        square = 'full(0.5f, shape=[1024, 1024], dtype="float32")'
        yield name, 0, f"let %a = {square};\nlet %b = {square};\n:schedule {computed}\n"


def seconds(line):
    number, unit = re.search(r"([\d.]+) (\S+)", line).groups()
    return float(number) * UNITS[unit]


def measure(relay, text):
    ran = subprocess.run([relay], input=text, capture_output=True, text=True)
    lines = {line.split()[0]: line for line in ran.stdout.splitlines() if line.startswith(("bound", "measured"))}
    if ran.returncode or len(lines) != 2:
        sys.exit(f"shares.py: no figures: {ran.stdout[-400:]} {ran.stderr[-400:]}")
    return seconds(lines["bound"]), seconds(lines["measured"])


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--relay", default="build/release/relay")
    parse.add_argument("--rounds", type=int, default=3)
    parse.add_argument("--bar", type=float, default=0.8)
    parse.add_argument("--bar-memory", type=float, default=0.85)
    parse.add_argument("names", nargs="*")
    options = parse.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    below, bounds, times = 0, 0, 0

    def show(name, bound, took, bar, more=""):
        print(f"{name:22} {took * 1e3:9.4f} ms  {bound / took:5.2f} of {bound * 1e3:.4f}{more}{'  below' if bound / took < bar else ''}", flush=True)
        return bound / took < bar

    for name, count, text in scripts():
        if options.names and not any(n in name for n in options.names):
            continue
        bound, took = (min(x) for x in zip(*(measure(options.relay, text) for _ in range(options.rounds))))
        bounds, times = bounds + count * bound, times + count * took
        below += show(name, bound, took, options.bar if count else options.bar_memory, f"  {count} times" if count else "")
    if times:
        below += show("all convolutions", bounds, times, options.bar)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
