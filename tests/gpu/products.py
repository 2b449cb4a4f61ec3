"""Matrix products on the card, of each type that tensor cores have and of exact float32, beside what PyTorch calls cuBLAS for, where it is
installed: time on the card, operations in a second, and the ratio. `--size N` takes other squares than 1024, 2048 and 4096. Where the card has
other tensor cores than those of sm_80, both are measured, and give the same numbers but for rounding."""

import argparse
import json
import os
import subprocess
import sys
import tempfile

RELAY = os.environ.get("RELAY", "build/release/relay")
KINDS = {"float32": ((), ""), "tf32": (("--tf32",), ""), "float16": ((), ""), "bfloat16": ((), ""),
         "int8": ((), ', out_dtype="int32"')}
KINDS |= {f"{kind} sm_80": ((*options, "--target", "sm_80"), sums) for kind, (options, sums) in KINDS.items() if kind != "float32"}


def ours(kind, n, seconds):
    options, sums = KINDS[kind]
    dtype = kind.split()[0].replace("tf32", "float32")
    tensor = f"Tensor[({n}, {n}), {dtype}]"
    with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
        file.write(f'#[version = "0.0.5"]\ndef @main(%x: {tensor}, %w: {tensor}) {{ nn.dense(%x, %w, units=None{sums}) }}\n')
        file.flush()
        done = subprocess.run([RELAY, "bench", file.name, "--exec", "gpu", "--random", "1", "--seconds", str(seconds), "--json", *options],
                              capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("{") and "gpu_ms" in line:
            made = json.loads(line)
            return made["gpu_ms"], made["out"]["spread"]
    raise SystemExit(f"{kind} {n}: {(done.stderr or done.stdout).strip()[:300]}")


def peers(kind, n):
    """Milliseconds of a product by cuBLAS; None without PyTorch and a card."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    kind = kind.split()[0]
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    if kind == "int8":
        x, w = (torch.randint(-100, 100, (n, n), dtype=torch.int8, device="cuda") for _ in range(2))
        call = lambda: torch._int_mm(x, w.t())
    else:
        dtype = getattr(torch, kind.replace("tf32", "float32"))
        x, w = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
        call = lambda: x @ w.t()
    times = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return min(times)


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--size", type=int, action="append")
    ap.add_argument("--kind", choices=KINDS, action="append")
    ap.add_argument("--seconds", type=float, default=1)
    ap.add_argument("--json")
    args = ap.parse_args()
    rows, values, wrong = [], {}, 0
    print(f"{'kind':14} {'size':>6} {'ms':>9} {'Top/s':>8} {'cuBLAS ms':>10} {'share':>6}")
    for kind in args.kind or KINDS:
        for n in args.size or (1024, 2048, 4096):
            (ms, made), peer = ours(kind, n, args.seconds), peers(kind, n)
            other = values.setdefault((kind.split()[0], n), made)
            if any(abs(a - b) > 2e-2 * (1 + abs(a)) for a, b in zip(other, made)):
                wrong += 1
                print(f"WRONG {kind} {n}: {made[:4]} and not {other[:4]}")
            rows.append({"kind": kind, "size": n, "ms": ms, "tops": 2e-9 * n ** 3 / ms if ms else None, "cublas_ms": peer})
            share = f"{peer / ms:6.2f}" if peer and ms else "     -"
            print(f"{kind:14} {n:6} {ms:9.4f} {2e-9 * n ** 3 / ms if ms else 0:8.1f} {peer if peer else 0:10.4f} {share}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
