"""Every pass keeps the results of the programs of the corpus.

Each program is run as it is and after each pass (`relay opt -p PASS`, then `relay run`); the values must agree but for what six
printed digits lose. RELAY is the binary, ENGINE the engine (default: interp). Each program meets a pass and each pass a program; the
other pairs are tried for SECONDS, and what was not tried is counted.
"""
import concurrent.futures
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

RELAY = os.environ.get("RELAY", "build/relay")
ENGINE = os.environ.get("ENGINE", "interp")
SECONDS = float(os.environ.get("SECONDS", "40"))
GROUPS = ["exprs", "functions", "adts", "refs", "models"]
# Passes whose name alone does nothing, and those that change values on purpose.
PARAMETERS = {"EtaExpand": ["{expand_constructor=True}", "{expand_global_var=True}"],
              "ConvertLayout": ['{desired_layouts={"nn.conv2d": ["NHWC", "default"]}}'],
              "DeadCodeElimination": ["", "{inline_once=True}"],
              "FuseOps": ["{fuse_opt_level=0}", "{fuse_opt_level=2}"]}
PIPELINES = ["-O0", "-O1", "-O2", "-O3", "ToANormalForm,ToGraphNormalForm", "FuseOps{fuse_opt_level=2},DefuseOps"]
LOOSE = {"FastMath": 1e-3}


def pipelines():
    text = open("docs/passes.md", encoding="utf-8").read()
    sections = re.findall(r"^## (\S+)\n\n(.*)", text, re.M)
    names = [name for name, about in sections if "something else" not in about and " Level " in about]
    return [n + p for n in names for p in PARAMETERS.get(n, [""])] + PIPELINES


def same(a, b, rtol):
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k], rtol) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, rtol) for x, y in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=rtol, abs_tol=rtol / 10)
    return a == b


def relay(*args):
    done = subprocess.run([RELAY, *args], capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


class Program:
    """A program with the arguments of one of its runs; `text` and `value` are what it is and gives without passes."""

    def __init__(self, path, run, folder):
        self.path, self.name, self.run_args = path, os.path.relpath(path, "tests/conformance/cases"), []
        if run.get("entry", "main") != "main":
            self.run_args += ["--entry", run["entry"]]
        if run["args"]:
            name = os.path.join(folder, self.name.replace("/", "_") + ".args.json")
            with open(name, "w", encoding="utf-8") as out:
                json.dump(run["args"], out)
            self.run_args += ["--args", name]
        self.text = relay("opt", "-p", "InferType", path)[1]
        self.value = self.run(path)

    def run(self, path):
        rc, out, err = relay("run", "--exec", ENGINE, "--json", *self.run_args, path)
        return json.loads(out) if rc == 0 else err

    def broken_by(self, pipeline, path):
        """What is wrong after the pipeline, or None. `path` is a file to write to."""
        rc, out, err = relay("opt", "-O", "4", "-p", pipeline, self.path)
        if rc != 0:
            return f"exit status {rc}: {err.strip()[-300:]}"
        if out == self.text:
            return None
        with open(path, "w", encoding="utf-8") as file:
            file.write(out)
        value = self.run(path)
        if same(value, self.value, LOOSE.get(pipeline, 1e-4)):
            return None
        return f"{value} instead of {self.value}\n{out}"


def programs(folder):
    for group in GROUPS:
        for path in sorted(glob.glob(f"tests/conformance/cases/{group}/*.json")):
            with open(path, encoding="utf-8") as file:
                case = json.load(file)
            for run in case.get("run", [])[:1]:
                yield Program(path[:-5] + ".rly", run, folder)


def main():
    left, failures = 0, []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        everything = [p for p in programs(folder) if isinstance(p.value, dict)]
        wanted = pipelines()
        # In this order each program and each pass comes up early.
        pairs = [(p, wanted[(i + k) % len(wanted)]) for k in range(len(wanted)) for i, p in enumerate(everything)]

        least = max(len(everything), len(wanted))
        end = time.monotonic() + SECONDS

        def one(job):
            number, (program, pipeline) = job
            if number >= least and time.monotonic() > end:
                return "late"
            bad = program.broken_by(pipeline, os.path.join(folder, f"{number}.rly"))
            return bad and f"{program.name} after {pipeline}: {bad}"

        for verdict in pool.map(one, enumerate(pairs)):
            left += verdict == "late"
            if verdict and verdict != "late":
                failures.append(verdict)
    for failure in failures[:20]:
        print(failure)
    print(f"{len(pairs) - left} of {len(pairs)} pairs of program and pass tried, {len(failures)} failed")
    return 1 if failures or not everything else 0


if __name__ == "__main__":
    sys.exit(main())
