#!/usr/bin/env python3
"""Kinds of functional programs beside the same in OCaml: kinds.py --relay BINARY [NAME...]

Trees with nested patterns over tuples, lists of pairs, streams as closures, mutual recursion, records that are updated in a loop; a priority
queue, an interpreter of terms, a code by weights, a table of what is known, matrices as lists, a reader of expressions, a zipper, trees of any
degree, continuations, numerals as functions; the union of sorted lists, a machine with a stack, a queue of two lists,
permutations; balanced trees and tries, combinators of parsers, types by unification, a knight's tours, statements with an environment,
shortest ways, a sort by any order, folds over Options and tuples, planets, references, runs, a game of life, symbols that are derived,
large numbers, expressions by derivatives, a state that is handed on by closures, primes as a stream, a deque; formulas, streams that are merged,
a memory in a balanced tree, a reader by precedence, a machine with variables, texts of nested data, shapes, a state in a monad, a binomial heap,
queens on all boards. Prints both times and the ratio: above 1, ours is faster. The exit status is 1 when one is below the bar. With `--bytecode`
the evaluator is timed beside OCaml's bytecode."""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SIZES = {
    "kinds": {"trees": 20000, "pairs": 100000, "streams": 200000, "mutual": 70, "records": 500000},
    "programs": {"queue": 5000, "lambda": 20, "huffman": 20000, "memo": 40, "matrix": 30, "tokeniser": 20000, "zipper": 100000,
                 "rose": 7, "cps": 14, "church": 150},
    "more": {"union": 2000, "machine": 20000, "rounds": 20000, "permute": 7},
    "strangers": {"avl": 5000, "trie": 3000, "parsers": 2000, "types": 120, "knight": 9, "pairing": 5000, "interp": 10000, "dijkstra": 300,
                  "sorts": 5000, "folds": 14, "bodies": 3000, "refs": 100000, "texts": 10000, "life": 20, "takes": 24, "symbols": 9,
                  "bignum": 800, "regex": 5000, "quicks": 3000, "monad": 13, "primes": 300, "deque": 20000},
    "others": {"logic": 8, "lazies": 10000, "memos": 1500, "pratt": 4000, "vm": 3000, "jsons": 13, "shapes": 9, "states": 20, "binomial": 3000,
               "boards": 8},
}
NATIVE = ["ocamlopt", "-O3", "-I", "+unix", "unix.cmxa"]
BYTECODE = ["ocamlc", "-I", "+unix", "unix.cma"]
HERE = pathlib.Path(__file__).parent / "kinds"


def value_of(relay, folder, source, name, size):
    """Writes the program, and gives its value, which is the same on both engines."""
    program, data = pathlib.Path(folder, "main.rly"), pathlib.Path(folder, "args.json")
    program.write_text((HERE / f"{source}.rly").read_text() + f"def @main(%n: int32) -> int32 {{ @{name}(%n) }}\n")
    data.write_text(json.dumps([size]))
    jit, interp = (subprocess.check_output([relay, "run", str(program), "--args", str(data), "--exec", engine], text=True).strip()
                   for engine in ("jit", "interp"))
    assert jit == interp, (name, jit, interp)
    return jit


def time_one(relay, folder, source, name, size, engine):
    """The least times in ms, ours and OCaml's, whose value is the same."""
    ours = value_of(relay, folder, source, name, size)
    value, theirs = subprocess.check_output([f"{folder}/{source}", name, str(size)], text=True).split()
    assert ours == value, (name, ours, value)
    line = subprocess.check_output([relay, "bench", f"{folder}/main.rly", "--args", f"{folder}/args.json", "--seconds", "0.5",
                                    "--exec", engine], text=True)
    return float(re.search(r"min +([0-9.]+) ms", line).group(1)), float(theirs)


def compile_others(folder, source, compiler):
    pathlib.Path(folder, f"{source}.ml").write_text((HERE / f"{source}.ml").read_text())
    subprocess.run([*compiler, f"{source}.ml"], check=True, cwd=folder, stderr=subprocess.DEVNULL)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("--bar", type=float, default=0.0, help="the least ratio of each")
    ap.add_argument("--bytecode", action="store_true", help="the evaluator beside OCaml's bytecode")
    ap.add_argument("--values", action="store_true", help="time nothing: both engines give the same values")
    ap.add_argument("names", nargs="*")
    args = ap.parse_args()
    below = 0
    engine, compiler = ("interp", BYTECODE) if args.bytecode else ("jit", NATIVE)
    with tempfile.TemporaryDirectory() as folder:
        for source, sizes in SIZES.items():
            if not args.values:
                compile_others(folder, source, [*compiler, "-o", source])
            for name, size in sizes.items():
                if args.names and name not in args.names:
                    continue
                if args.values:
                    value_of(args.relay, folder, source, name, size)
                    continue
                ours, theirs = time_one(args.relay, folder, source, name, size, engine)
                below += theirs < args.bar * ours
                print(f"{name:10} ours {ours:8.3f} ms   OCaml {theirs:8.3f} ms   ratio {theirs / ours:5.2f}", flush=True)
    return int(below > 0)


if __name__ == "__main__":
    sys.exit(main())
