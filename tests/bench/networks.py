#!/usr/bin/env python3
"""What of the optimiser's work arrives in the code of networks: a row for each.

    tests/bench/networks.py --relay build/release/relay [--bench tests/bench] [NAME…]

kernels           calls of kernels in a run, and how many there are after equal ones share one
time              the least of the runs that were made
bytes a call      what a run asks the allocator for besides its result (whose memory may be that of the run before), once it has run
                  before: what describes the result; all else was planned when code was made
batch norms       that are left
packings a call   copies of weights into another layout, made in a run; what is laid out when code is made does not count

The exit status is 1 where a network allocates, normalises or packs in a run."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

NAMES = ["resnet18", "mobilenet_v2", "vgg16", "bert_tiny", "bert_base_block"]

# Counts what is asked for; at the end it is told through a file.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
static atomic_ullong asked;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t n) { asked += n; return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { asked += n * size; return __libc_calloc(n, size); }
void *realloc(void *at, size_t n) { asked += n; return __libc_realloc(at, n); }
void *aligned_alloc(size_t align, size_t n) { asked += n; return __libc_memalign(align, n); }
int posix_memalign(void **at, size_t align, size_t n) { asked += n; *at = __libc_memalign(align, n); return *at ? 0 : 12; }
__attribute__((destructor)) static void tell(void)
{
    FILE *f = fopen(getenv("ASKED"), "w");
    if (f) { fprintf(f, "%llu", (unsigned long long)asked); fclose(f); }
}
"""


def bench(relay, folder, name, runs, **env):
    command = [relay, "bench", name, "--bench", folder, "--seconds", "0", "--runs", str(runs), "--json"]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])


def bytes_a_call(relay, folder, name, room):
    source, library, told = (os.path.join(room, n) for n in ("counter.c", "counter.so", "asked"))
    with open(source, "w") as file:
        file.write(COUNTER)
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
    asked = []
    for runs in (5, 45):
        bench(relay, folder, name, runs, LD_PRELOAD=library, ASKED=told)
        with open(told) as file:
            asked.append(int(file.read()))
    return (asked[1] - asked[0]) / 40


def lowered(relay, folder, name, room):
    """The optimised program, with weights that are known."""
    program, params = os.path.join(folder, "programs", name + ".rly"), os.path.join(room, "weights.npz")
    with open(os.path.join(folder, "manifest.json")) as file:
        inputs = json.load(file)[name]["params"]
    weights = {i["name"]: np.full(i["shape"], 0.5, i["dtype"]) for i in inputs if i["role"] != "input"}
    np.savez(params, **weights)
    run = subprocess.run([relay, "compile", "--emit", "lowered", "--params", params, program], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    # Loops follow, and what they come from.
    return run.stdout.split("\n}\n", 1)[0]


def packings(text):
    """Calls of which every argument is a constant."""
    known, count = set(), 0
    for name, value in re.findall(r"^ *let (%\w+) = (.*);$", text, re.M):
        call = re.fullmatch(r"%\w+\((.*)\)", value)
        known |= {name} if value.startswith("meta[") else set()
        count += bool(call) and all(arg in known for arg in call.group(1).split(", "))
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relay", default="build/release/relay")
    parser.add_argument("--bench", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("names", nargs="*", default=NAMES)
    args = parser.parse_args()
    bad = 0
    print(f"{'network':16} {'kernels':>8} {'shared':>7} {'ms':>8} {'bytes a call':>13} {'batch norms':>12} {'packings a call':>16}")
    for name in args.names or NAMES:
        with tempfile.TemporaryDirectory() as room:
            told = bench(args.relay, args.bench, name, 5)
            size = bytes_a_call(args.relay, args.bench, name, room)
            text = lowered(args.relay, args.bench, name, room)
        norms = len(re.findall(r"nn\.batch_norm\(", text))
        result = 4 * told["out"]["size"]
        packed, size = packings(text), size - result * (size >= result)
        bad |= norms > 0 or packed > 0 or size > 512
        print(f"{name:16} {told['kernel_calls']:8} {told['kernels']:7} {told['min_ms']:8.2f} {size:13.0f} {norms:12} {packed:16}",
              flush=True)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
