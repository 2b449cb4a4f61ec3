#!/usr/bin/env python3
"""What work on lists and trees allocates: allocations.py --relay build/asan/relay [--exec interp,jit] [NAME...]

In a build with the address sanitizer each object of a program is an allocation of its own, and the sanitizer counts them. A program runs with
and without the work, for N and for 2N elements, so that what else the process allocates cancels. Prints for the work on N elements the cells
it made and their bytes. A cell that compiled code makes of one that died is no allocation; the evaluator gives the one back and takes the
other, which the figures of a release build's memory do not show."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HEAD = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil }
type Colour { Red, Black }
type Tree { Leaf, Node(Colour, Tree, int32, Tree) }
def @numbers(%i: int32, %seed: int32, %acc: List[int32]) -> List[int32] {
  if (%i == 0) { %acc } else {
    let %next = mod(%seed * 1103 + 12345, 1000003);
    @numbers(%i - 1, %next, Cons(%next, %acc))
  }
}
def @sum(%xs: List[int32], %acc: int32) -> int32 {
  match (%xs) { Cons(%x, %rest) => @sum(%rest, mod(%acc + %x, 1000003)), Nil => %acc }
}
def @reverse(%xs: List[int32], %acc: List[int32]) -> List[int32] {
  match (%xs) { Cons(%x, %rest) => @reverse(%rest, Cons(%x, %acc)), Nil => %acc }
}
def @twice(%xs: List[int32]) -> List[int32] {
  match (%xs) { Cons(%x, %rest) => Cons(%x * 2, @twice(%rest)), Nil => Nil }
}
def @insert(%x: int32, %xs: List[int32]) -> List[int32] {
  match (%xs) {
    Cons(%y, %rest) => if (%y < %x) { Cons(%y, @insert(%x, %rest)) } else { Cons(%x, Cons(%y, %rest)) },
    Nil => Cons(%x, Nil),
  }
}
def @sort(%xs: List[int32], %acc: List[int32]) -> List[int32] {
  match (%xs) { Cons(%x, %rest) => @sort(%rest, @insert(%x, %acc)), Nil => %acc }
}
def @balance(%c: Colour, %l: Tree, %x: int32, %r: Tree) -> Tree {
  match ((%c, %l, %x, %r)) {
    (Black, Node(Red, Node(Red, %a, %p, %b), %q, %d), %s, %e) => Node(Red, Node(Black, %a, %p, %b), %q, Node(Black, %d, %s, %e)),
    (Black, Node(Red, %a, %p, Node(Red, %b, %q, %d)), %s, %e) => Node(Red, Node(Black, %a, %p, %b), %q, Node(Black, %d, %s, %e)),
    (Black, %a, %p, Node(Red, Node(Red, %b, %q, %d), %s, %e)) => Node(Red, Node(Black, %a, %p, %b), %q, Node(Black, %d, %s, %e)),
    (Black, %a, %p, Node(Red, %b, %q, Node(Red, %d, %s, %e))) => Node(Red, Node(Black, %a, %p, %b), %q, Node(Black, %d, %s, %e)),
    (%k, %a, %p, %b) => Node(%k, %a, %p, %b),
  }
}
def @into(%x: int32, %t: Tree) -> Tree {
  match (%t) {
    Leaf => Node(Red, Leaf, %x, Leaf),
    Node(%c, %l, %y, %r) => {
      if (%x < %y) { @balance(%c, @into(%x, %l), %y, %r) } else {
        if (%y < %x) { @balance(%c, %l, %y, @into(%x, %r)) } else { Node(%c, %l, %y, %r) }
      }
    },
  }
}
def @tree(%xs: List[int32], %t: Tree) -> Tree {
  match (%xs) {
    Nil => %t,
    Cons(%x, %rest) => match? (@into(%x, %t)) { Node(_, %l, %y, %r) => @tree(%rest, Node(Black, %l, %y, %r)) },
  }
}
def @split(%xs: List[int32], %p: int32) -> (List[int32], List[int32]) {
  match (%xs) {
    Nil => (Nil, Nil),
    Cons(%x, %rest) => { let %q = @split(%rest, %p); if (%x < %p) { (Cons(%x, %q.0), %q.1) } else { (%q.0, Cons(%x, %q.1)) } },
  }
}
def @range(%xs: List[int32], %s: (int32, int32)) -> (int32, int32) {
  match (%xs) { Nil => %s, Cons(%x, %rest) => @range(%rest, (if (%x < %s.0) { %x } else { %s.0 }, if (%x > %s.1) { %x } else { %s.1 })) }
}
def @divmod(%a: int32, %b: int32) -> (int32, int32) {
  if (%a < %b) { (0, %a) } else { let %q = @divmod(%a - %b, %b); (%q.0 + 1, %q.1) }
}
def @divided(%xs: List[int32], %acc: int32) -> int32 {
  match (%xs) { Nil => %acc, Cons(%x, %rest) => { let %q = @divmod(mod(%x, 97), 7); @divided(%rest, mod(%acc + %q.0 * 3 + %q.1, 1000003)) } }
}
def @size(%t: Tree) -> int32 { match (%t) { Leaf => 0, Node(_, %l, _, %r) => @size(%l) + 1 + @size(%r) } }
"""
# The size, the bytes of a cell, what is computed of %xs, and the same without the work.
WORK = {
    "reversal": (20000, 24, "@sum(@reverse(%xs, Nil), 0)", "@sum(%xs, 0)"),
    "map": (20000, 24, "@sum(@twice(%xs), 0)", "@sum(%xs, 0)"),
    "insertion sort": (300, 24, "@sum(@sort(%xs, Nil), 0)", "@sum(%xs, 0)"),
    "red-black tree": (2000, 40, "@size(@tree(%xs, Leaf))", "@sum(%xs, 0)"),
    "split in two": (20000, 24, "let %q = @split(%xs, 500000); @sum(%q.0, @sum(%q.1, 0))", "@sum(%xs, 0)"),
    "state as a tuple": (20000, 24, "let %s = @range(%xs, (1000000, 0)); %s.1 - %s.0", "@sum(%xs, 0)"),
    "divmod": (2000, 24, "@divided(%xs, 0)", "@sum(%xs, 0)"),
}


def allocations(relay, engine, folder, n, expression):
    program = pathlib.Path(folder, "main.rly")
    program.write_text(HEAD + f"def @main() -> int32 {{ let %xs = @numbers({n}, 42, Nil); {expression} }}\n")
    env = dict(os.environ, ASAN_OPTIONS="atexit=1:detect_leaks=0")
    done = subprocess.run([relay, "run", str(program), "--exec", engine, "--no-cache"], env=env,
                          capture_output=True, text=True)
    found = re.search(r"malloced .* by (\d+) calls", done.stderr)
    if done.returncode or not found:
        sys.exit(f"{relay} has no figures: is it a build with the address sanitizer?\n{done.stderr[:600]}")
    return int(found.group(1))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--relay", required=True)
    ap.add_argument("--exec", default="interp,jit")
    ap.add_argument("names", nargs="*", default=list(WORK))
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in args.names:
            n, size, work, without = WORK[name]
            for engine in args.exec.split(","):
                count = [allocations(args.relay, engine, folder, k, e) for e in (work, without) for k in (n, 2 * n)]
                cells = (count[1] - count[0]) - (count[3] - count[2])
                print(f"{name:15} {engine:7} from {n} to {2 * n} elements: {cells:9} cells {cells * size:11} bytes")


if __name__ == "__main__":
    sys.exit(main())
