#!/usr/bin/env python3
"""Checks the results of the benchmark's workloads, without peers and without judging time.

    answers.py --relay BINARY [--engine interp|jit] [--raise] [NAME...]

answers.json lists, for each engine, the workloads that run; each of them must run again and be
right. --raise tries all and adds those that run now.
"""
import argparse
import json
import os
import subprocess
import sys

import peers

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "answers.json")


def load(name):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)


def ask(args, name):
    """-> the result line, or a text that says why there is none"""
    command = [args.relay, "bench", name, "--bench", HERE, "--threads", "1", "--seconds", "0",
               "--runs", "1", "--exec", args.engine, "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=args.timeout)
    except subprocess.TimeoutExpired:
        return "no answer in %g s" % args.timeout
    for line in reversed(done.stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    tail = (done.stderr or done.stdout).strip().splitlines()
    if done.returncode < 0 or done.returncode in (70, 99):
        return "CRASH: status %d: %s" % (done.returncode, tail[-1] if tail else "")
    return "status %d: %s" % (done.returncode, tail[0] if tail else "")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("--engine", default="interp")
    ap.add_argument("--timeout", type=float, default=60)
    ap.add_argument("--raise", dest="raise_list", action="store_true")
    ap.add_argument("--all", action="store_true", help="also those that are not known to run")
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    manifest, expected = load("manifest.json"), load("expected.json")
    known = load("answers.json") if os.path.exists(LIST) else {}
    must = set(known.get(args.engine, []))
    names = args.names or (sorted(manifest) if args.all or args.raise_list else sorted(must))
    bad, right = 0, set()
    for name in names:
        got = ask(args, name)
        if isinstance(got, str):
            wrong = name in must or got.startswith("CRASH")
            print("%-28s %s%s" % (name, "FAILED: " if wrong else "does not run: ", got))
        else:
            err, ok = peers.check(got["out"], expected[name], manifest[name]["tolerance"])
            wrong = not ok
            print("%-28s %s, error %.3g" % (name, "right" if ok else "WRONG", err))
            if ok:
                right.add(name)
        bad += wrong
    if args.raise_list:
        known[args.engine] = sorted(must | right)
        with open(LIST, "w") as f:
            json.dump(known, f, indent=1, sort_keys=True)
            f.write("\n")
    print("%d workloads, %d right, %d bad" % (len(names), len(right), bad))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
