#!/usr/bin/env python3
"""Kinds of functional programs beside the same in OCaml: kinds.py --relay BINARY [NAME...]

Trees with nested patterns over tuples, lists of pairs, streams as closures, mutual recursion, records that are updated in a loop. Prints both
times and the ratio: above 1, ours is faster."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = {"trees": 20000, "pairs": 100000, "streams": 200000, "mutual": 70, "records": 500000}
HERE = pathlib.Path(__file__).parent / "kinds"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("names", nargs="*", default=list(SIZES))
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "kinds.ml").write_text((HERE / "kinds.ml").read_text())
        subprocess.run(["ocamlopt", "-o", "kinds", "kinds.ml"], check=True, cwd=folder, stderr=subprocess.DEVNULL)
        for name in args.names:
            program, data = pathlib.Path(folder, "main.rly"), pathlib.Path(folder, "args.json")
            program.write_text((HERE / "kinds.rly").read_text()
                               + f"def @main(%n: int32) -> int32 {{ @{name}(%n) }}\n")
            data.write_text(json.dumps([SIZES[name]]))
            value, theirs = subprocess.check_output([f"{folder}/kinds", name, str(SIZES[name])], text=True).split()
            same = subprocess.check_output([args.relay, "run", str(program), "--args", str(data)], text=True)
            assert same.strip() == value, (name, same, value)
            line = subprocess.check_output([args.relay, "bench", str(program), "--args", str(data), "--seconds", "0.5"],
                                           text=True)
            ours = float(re.search(r"min +([0-9.]+) ms", line).group(1))
            print(f"{name:10} ours {ours:8.3f} ms   OCaml {float(theirs):8.3f} ms   ratio {float(theirs) / ours:5.2f}")


if __name__ == "__main__":
    sys.exit(main())
