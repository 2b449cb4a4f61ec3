"""Programs with faults as people make them: the checker explains them, and the server answers whatever is asked while they are edited.

    mutated_test.py [COUNT [SEED]]"""
import os
import random
import re
import subprocess
import sys
import tempfile

from client import RELAY, Document, Server
from mutated import Mutator

with open(RELAY, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
AT_PLACES = ["hover", "completion", "definition", "references", "documentHighlight", "prepareRename", "signatureHelp"]
OF_ALL = ["documentSymbol", "semanticTokens/full", "codeLens", "inlayHint", "codeAction", "formatting", "rename", "diagnostic"]
PIECES = ["", "%x", "@f", "(", ")", "{", "}", "int32", "float32", "1", '"', " ", "match", "let %a = ", "grad(", "fn (%x: int32) { %x }", "_",
          "Cons(%a, ", "Nil => ", "Tensor[(2), float32]"]


def checks(mutator, count, folder):
    """Some at a time, each a file of its own; False when one ends the checker."""
    paths = [os.path.join(folder, f"{i}.rly") for i in range(20)]
    right = True
    for _ in range(0, count, len(paths)):
        for path in paths:
            with open(path, "w") as f:
                f.write(mutator.program())
        for path in paths:
            done = subprocess.run([RELAY, "check", "--explain", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=60)
            if done.returncode in (0, 1, 3) and b"E0901" not in done.stderr and b"runtime error" not in done.stderr:
                continue
            right = False
            with open(path) as f:
                print(f"`check` ends with {done.returncode}: {done.stderr[-300:]}\n{f.read()}", flush=True)
    return right


def edits(mutator, seed):
    """A document that is edited; False when the server ends."""
    rng, server = random.Random(seed), Server()
    parts = [re.sub(r"#\[version[^\]]*\]", "", mutator.program((0, 0, 0, 1, 2, 4))) for _ in range(rng.randrange(1, 4))]
    d = Document(server, "\n".join(['#[version = "0.0.5"]'] * rng.randrange(2) + parts), f"file:///mutated_{seed}.rly")
    try:
        for _ in range(40):
            end = len(d.text)
            if rng.random() < 0.4:
                at = rng.randrange(end + 1)
                d.replace(at, min(end, at + rng.choice([0, 1, 1, 3, 8, 40])), rng.choice(PIECES))
            where = {"textDocument": {"uri": d.uri}, "position": d.position(rng.randrange(len(d.text) + 1)),
                     "context": {"includeDeclaration": True}}
            # Where a pattern, an argument or an attribute begins there is most to say.
            behind = [m.end() for m in re.finditer(r"[{(,]\s*|=> *", d.text)]
            begins = {**where, "position": d.position(rng.choice(behind or [0]))}
            for method, at in [("completion", begins), (rng.choice(AT_PLACES), begins), (rng.choice(AT_PLACES), where)]:
                server.ask_raw("textDocument/" + method, at)
            whole = {"start": d.position(0), "end": d.position(len(d.text))}
            server.ask_raw("textDocument/" + rng.choice(OF_ALL),
                           {**where, "range": whole, "context": {"diagnostics": []}, "options": {}, "newName": rng.choice(["%q", "@zz", "q", "1x"])})
        server.end()
        return True
    except AssertionError as error:
        print(f"seed {seed}: {error}\n{d.text}", flush=True)
        server.process.kill()
        return False


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40 if SANITIZED else 400
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    mutator, wrong = Mutator(first), 0
    with tempfile.TemporaryDirectory() as folder:
        wrong += not checks(mutator, 5 * count, folder)
    for seed in range(first, first + count // 4):
        wrong += not edits(mutator, seed)
    print(f"{5 * count} programs and {count // 4} documents, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
