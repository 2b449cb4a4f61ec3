"""Times workloads on one core, as two copies at once on a core each, and with two threads: what threads gain beside what the machine has.

    cores.py [--relay build/release/relay] --bench FOLDER [--rounds 5] [--seconds 0.3] [--bar 0.85] WORKLOAD...

prints for each workload the time on one core in ms, the gain of two copies (how much more they do together than one alone), the gain of two
threads, and the second over the first, and ends with 1 when a ratio lies below the bar. Copies share caches and memory as threads do, so
they say what can be gained at most where cores are not all real. The three take turns, and of each the least time of all rounds counts.
"""
import argparse
import json
import math
import os
import subprocess
import sys


def start(args, name, threads, cores):
    command = [args.relay, "bench", name, "--bench", args.bench, "--threads", str(threads), "--seconds", str(args.seconds), "--runs", "3",
               "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, cores))


def finish(process):
    out = process.communicate()[0].decode().splitlines()
    lines = [json.loads(line) for line in out if line.startswith("{")]
    if process.returncode or not lines or "min_ms" not in lines[-1]:
        sys.exit("cores.py: `%s` failed" % " ".join(process.args))
    return lines[-1]["min_ms"]


def measure(args, name, cores):
    one, copies, threads = math.inf, [math.inf, math.inf], math.inf
    for _ in range(args.rounds):
        one = min(one, finish(start(args, name, 1, {cores[0]})))
        both = [start(args, name, 1, {c}) for c in cores]
        copies = [min(a, finish(p)) for a, p in zip(copies, both)]
        threads = min(threads, finish(start(args, name, 2, set(cores))))
    return one, sum(one / c for c in copies), one / threads


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", default="build/release/relay")
    ap.add_argument("--bench", required=True, help="the folder of manifest.json")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.3)
    ap.add_argument("--bar", type=float, default=0.85)
    ap.add_argument("names", nargs="+")
    args = ap.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("cores.py: there is one core only")
    below = 0
    print("%-24s %10s %8s %8s %7s" % ("workload", "one ms", "copies", "threads", "ratio"))
    for name in args.names:
        one, copies, threads = measure(args, name, cores)
        below += threads / copies < args.bar
        print("%-24s %10.4g %8.2f %8.2f %7.2f%s" % (name, one, copies, threads, threads / copies, "  below" if threads / copies < args.bar else ""),
              flush=True)
    sys.exit(below > 0)


if __name__ == "__main__":
    main()
