#!/usr/bin/env python3
"""Peak memory of a long list, beside the same in OCaml: memory.py --relay BINARY [--cells N]

Both build a list of N numbers, map it and fold it, in a process of their own. OCaml's program is compiled by `ocamlopt`; without it only
ours is shown. The exit status is 1 when ours takes more."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

RELAY = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
def @build(%%i: int32, %%n: int32, %%acc: List[int32]) -> List[int32] {
  if (equal(%%i, %%n)) { %%acc } else { @build(add(%%i, 1), %%n, Cons(%%i, %%acc)) }
}
def @turn(%%xs: List[int32], %%acc: List[int32]) -> List[int32] {
  match (%%xs) { Cons(%%x, %%rest) => @turn(%%rest, Cons(add(%%x, 1), %%acc)), Nil => %%acc }
}
def @sum(%%xs: List[int32], %%acc: int32) -> int32 {
  match (%%xs) { Cons(%%x, %%rest) => @sum(%%rest, mod(add(%%acc, %%x), 1000003)), Nil => %%acc }
}
def @main() -> int32 { @sum(@turn(@build(0, %d, Nil), Nil), 0) }
"""

OCAML = """let rec build i n acc = if i = n then acc else build (i + 1) n (i :: acc)
let rec turn xs acc = match xs with x :: rest -> turn rest ((x + 1) :: acc) | [] -> acc
let rec sum xs acc = match xs with x :: rest -> sum rest ((acc + x) mod 1000003) | [] -> acc
let () = print_int (sum (turn (build 0 %d []) []) 0)
"""


def peak(command):
    """Mebibytes that the process had at most, and what it printed."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    out = child.stdout.read().strip()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{command[0]} ended with status {child.returncode}")
    return usage.ru_maxrss / 1024, out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("--cells", type=int, default=10**7)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "list.rly")
        program.write_text(RELAY % args.cells)
        ours, value = peak([args.relay, "run", str(program)])
        print(f"relay  {ours:8.1f} MiB  {ours * 2**20 / args.cells:5.1f} bytes a cell")
        if not shutil.which("ocamlopt"):
            return 0
        source = pathlib.Path(folder, "list.ml")
        source.write_text(OCAML % args.cells)
        subprocess.run(["ocamlopt", "-O3", "-o", f"{folder}/list", str(source)], check=True,
                       stderr=subprocess.DEVNULL)
        theirs, same = peak([f"{folder}/list"])
        print(f"OCaml  {theirs:8.1f} MiB  {theirs * 2**20 / args.cells:5.1f} bytes a cell")
        assert value == same, (value, same)
        return int(ours > theirs)


if __name__ == "__main__":
    sys.exit(main())
