#!/usr/bin/env python3
"""Holds a group of the corpus to its bars: what passed before must pass again, each check of each program.

    bars.py --relay BINARY [--engine interp|jit] [--raise] [GROUP...]

bars.json has, for each engine and group, how many of each check pass and, as `failing`, those that do not: no other may fail, however
many are new. --raise writes the numbers that are higher now and forgets failures that are mended; a bar is never lowered. Without a group:
all groups.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BARS = os.path.join(HERE, "bars.json")
# What does not depend on the engine is judged once, with the evaluator.
CHECKS = {"interp": "fmt,check,type,run,opt,value,error", "jit": "run,value"}


def load():
    if not os.path.exists(BARS):
        return {}
    with open(BARS) as f:
        return json.load(f)


def save(bars):
    with open(BARS, "w") as f:
        json.dump(bars, f, indent=1, sort_keys=True)
        f.write("\n")


def run(args, group):
    """-> {check: [passed, total]}, the failures {name of the check: how}, and what crashed"""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "out.json")
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "run.py"), "--relay", args.relay, "--exec", args.engine,
             "--checks", CHECKS[args.engine], "--glob", group + "/*", "--json", out,
             "--timeout", str(args.timeout)], stdout=subprocess.PIPE, text=True)
        if not os.path.exists(out):
            sys.exit(done.stdout + "run.py ended with %d" % done.returncode)
        with open(out) as f:
            result = json.load(f)
    checks, failures = {}, {}
    for name, rows in sorted(result["results"].items()):
        for row in rows:
            n = checks.setdefault(row["check"], [0, 0])
            n[0] += row["ok"]
            n[1] += 1
            if not row["ok"]:
                failures["%s %s: %s" % (row["check"], name, row["label"])] = row["how"].split("\n")[0][:140] or "differs"
    return checks, failures, result["crashes"]


def judge(args, group, bars):
    """True when no check of the group is below its bar"""
    known = bars.setdefault(args.engine, {}).setdefault(group, {})
    checks, failures, crashes = run(args, group)
    expected = set(known.get("failing", failures))
    new = sorted(set(failures) - expected)
    good = not new
    for check in sorted(set(known) - set(checks) - {"failing"}):
        good = False
        print("%s: nothing of `%s` was run" % (group, check))
    for check, (passed, total) in sorted(checks.items()):
        bar = known.get(check, 0)
        mark = "BELOW" if passed < bar else "above" if passed > bar else ""
        print("%-10s %-7s %-6s %4d of %4d, bar %4d  %s" % (group, args.engine, check, passed, total, bar, mark))
        good = good and passed >= bar
        if args.raise_bars and passed > bar:
            known[check] = passed
    for name in new:
        print("passed before: %s: %s" % (name, failures[name]))
    if args.raise_bars:
        known["failing"] = sorted(expected & set(failures))
    for crash in crashes:
        print("crash or timeout: %s %s: %s" % tuple(crash))
    if args.verbose:
        print("\n".join("%s: %s" % failure for failure in sorted(failures.items())))
    return good


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("--engine", default="interp", choices=sorted(CHECKS))
    ap.add_argument("--raise", dest="raise_bars", action="store_true")
    ap.add_argument("--timeout", type=float, default=20)
    ap.add_argument("--verbose", action="store_true", help="print every failure")
    ap.add_argument("groups", nargs="*")
    args = ap.parse_args()
    bars = load()
    groups = args.groups or sorted(os.listdir(os.path.join(HERE, "cases")))
    good = True
    for group in groups:
        good = judge(args, group, bars) and good
    if args.raise_bars:
        save(bars)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
