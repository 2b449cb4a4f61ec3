"""Passes take time in proportion to the program: four times the program, at most eight times the time; the story of the types
of a text in one line takes little memory; and kernels that join stay as small as groups may be."""
import os
import re
import resource
import subprocess
import sys
import tempfile

relay = os.environ["RELAY"]


def scalars(n):
    """One operand with many different numbers, and what is made of them in a chain."""
    sums = "".join(f"  %{i} = add(%x, {i}f);\n" for i in range(n))
    chain = "".join(f"  %{n + i} = multiply(%{n + i - 1 if i else 0}, %{i});\n" for i in range(n))
    return f"def @main(%x: float32) -> float32 {{\n{sums}{chain}  %{2 * n - 1}\n}}\n"


def attributes(n):
    """One operator on one operand with many different attributes."""
    sums = "".join(f"  %{i} = full(%x, shape=[{i + 1}], dtype=\"float32\");\n" for i in range(n))
    names = ", ".join(f"%{i}" for i in range(n))
    return f"def @main(%x: float32) {{\n{sums}  ({names})\n}}\n"


def seconds(path, name):
    least = 1e9
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([relay, "opt", "-p", name, path], stdout=subprocess.DEVNULL, check=True, timeout=100)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime - before.ru_utime)
    return least


failures = []
with tempfile.TemporaryDirectory() as folder:
    for name, shape, size in [("EliminateCommonSubexpr", scalars, 4000), ("EliminateCommonSubexpr", attributes, 4000)]:
        times = []
        for n in (size, 4 * size):
            path = os.path.join(folder, f"{shape.__name__}{n}.rly")
            with open(path, "w", encoding="ascii") as text:
                text.write('#[version = "0.0.5"]\n' + shape(n))
            times.append(seconds(path, name))
        print(f"{name} {shape.__name__}: {times[0]:.2f} s, {times[1]:.2f} s")
        if times[1] > 8 * times[0] + 0.1:
            failures.append(f"{name} of {shape.__name__} grows faster than the program")
    path = os.path.join(folder, "ifs.rly")
    with open(path, "w", encoding="ascii") as text:
        text.write('#[version = "0.0.5"]\ndef @main(%c: bool, %x: int32) -> int32 {\n')
        text.write("if (%c) { add(%x, 1) } else { " * 1000 + "%x" + " }" * 1000 + "\n}\n")
    subprocess.run([relay, "check", "--explain", path], stdout=subprocess.DEVNULL, check=True, timeout=100)
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 200_000:
        failures.append("check --explain of 1,000 nested ifs takes more than 200 MB")
    path = os.path.join(folder, "chain.rly")
    with open(path, "w", encoding="ascii") as text:
        sums = "".join(f"  %{i + 1} = add(%{i or 'x'}, %{i - i % 5 or 'x'});\n" for i in range(1000))
        text.write(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(4, 4), float32]) {{\n{sums}  %1000\n}}\n')
    joined = subprocess.run([relay, "opt", "-p", "InferType,FuseOps,InferType,ToANormalForm,InferType,JoinKernels", path], capture_output=True, text=True, check=True, timeout=100)
    calls = [kernel.count("add(") for kernel in re.split("Primitive=1", joined.stdout)[1:]]
    if sum(calls) != 1000 or max(calls) > 256:
        failures.append(f"JoinKernels made kernels of {calls} calls")
print("\n".join(failures))
sys.exit(bool(failures))
