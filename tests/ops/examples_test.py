"""The example of every operator in docs/operators.md runs on both engines; every operator that the language names has a row.

names.txt lists the names, one a line, without those of accelerators.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RELAY = os.environ.get("RELAY", "build/relay")


def main():
    with open(os.path.join(HERE, "../../docs/operators.md")) as f:
        text = f.read()
    with open(os.path.join(HERE, "names.txt")) as f:
        names = f.read().split()
    missing = sorted(set(names) - set(re.findall(r"^### (\S+)$", text, re.M)))
    failures = [f"there is no operator {name}" for name in missing]
    examples = re.findall(r"```relay\n(.*?)\n```", text, re.S)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "examples.rly")
        with open(path, "w") as f:
            f.write("\n\n".join(examples) + "\n")
        for engine in ("interp", "jit"):
            done = subprocess.run([RELAY, "--exec", engine, path], capture_output=True, text=True, timeout=300)
            failures += [f"{engine}: {line}" for line in (done.stdout + done.stderr).split("\n")
                         if line.startswith("error")]
    print("\n".join(failures + [f"{len(names)} names, {len(examples)} examples, {len(failures)} failures"]))
    return 1 if failures or len(examples) < 250 else 0


if __name__ == "__main__":
    sys.exit(main())
