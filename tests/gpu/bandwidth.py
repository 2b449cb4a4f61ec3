"""What goes through the memory of the card: how fast the driver copies from one place there to another, and how much of that elements and
reductions reach, of each way that they are made in.

    RELAY=build/release/relay .venv/bin/python tests/gpu/bandwidth.py [--mib N] [--seconds S] [--json FILE] [--least SHARE]

`--mib` is the size of a tensor (default 256), beyond what caches hold. With `--least` a share below it ends with 1."""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile

RELAY = os.environ.get("RELAY", "build/release/relay")
# What is computed of %x, [ROWS, columns], and how often the bytes of a tensor are moved.
ROWS = 4096
CALLS = {"map": ("tanh(%x)", 2), "binary": ("add(%x, %y)", 3), "broadcast": ("multiply(%x, %v)", 2), "sum of rows": ("sum(%x, axis=[1])", 1),
         "sum of columns": ("sum(%x, axis=[0])", 1), "sum of all": ("sum(%x, axis=None)", 1), "softmax": ("nn.softmax(%x)", 2),
         "transpose": ("transpose(%x, axes=[1, 0])", 2)}


class Driver:
    """The few calls that a copy needs, each of which ends the program when it fails."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)

    def __call__(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status:
            raise SystemExit(f"{name} gives {status}")

    def handle(self, name):
        out = ctypes.c_void_p()
        self(name, ctypes.byref(out), 0)
        return out

    def wait(self, event):
        while (status := self.library.cuEventQuery(event)) == 600:
            pass
        if status:
            raise SystemExit(f"cuEventQuery gives {status}")

    def copy_rate(self, size, times):
        """Bytes read and written in a second, of the fastest of some copies."""
        places = [ctypes.c_uint64(), ctypes.c_uint64()]
        for place in places:
            self("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        stream, begin, end = self.handle("cuStreamCreate"), self.handle("cuEventCreate"), self.handle("cuEventCreate")
        best = float("inf")
        for _ in range(times):
            self("cuEventRecord", begin, stream)
            self("cuMemcpyDtoDAsync_v2", places[1], places[0], ctypes.c_size_t(size), stream)
            self("cuEventRecord", end, stream)
            self.wait(end)
            ms = ctypes.c_float()
            self("cuEventElapsedTime", ctypes.byref(ms), begin, end)
            best = min(best, ms.value or float("inf"))
        for place in places:
            self("cuMemFree_v2", place)
        return 2e3 * size / best


def milliseconds(body, columns, seconds):
    """Of the card, for a run."""
    shapes = {"x": (ROWS, columns), "y": (ROWS, columns), "v": (columns,)}
    params = ", ".join(f"%{n}: Tensor[({', '.join(map(str, s))}{',' * (len(s) == 1)}), float32]" for n, s in shapes.items() if f"%{n}" in body)
    with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
        file.write(f'#[version = "0.0.5"]\ndef @main({params}) {{ {body} }}\n')
        file.flush()
        done = subprocess.run([RELAY, "bench", file.name, "--exec", "gpu", "--random", "1", "--seconds", str(seconds), "--json"],
                              capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("{") and "gpu_ms" in line:
            return json.loads(line)["gpu_ms"]
    raise SystemExit(f"{body}: {(done.stderr or done.stdout).strip()[:300]}")


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mib", type=int, default=256)
    p.add_argument("--seconds", type=float, default=1)
    p.add_argument("--least", type=float, default=0)
    p.add_argument("--json", help="a line for each goes to this file")
    options = p.parse_args(arguments)
    size = options.mib << 20
    rate = Driver().copy_rate(size, 20)
    rows = [{"what": "copy", "mib": options.mib, "gb_s": rate / 1e9, "share": 1.0}]
    for what, (body, times) in CALLS.items():
        ms = milliseconds(body, size // 4 // ROWS, options.seconds)
        got = times * size / ms * 1e3 if ms else 0
        rows.append({"what": what, "mib": options.mib, "ms": ms, "gb_s": got / 1e9, "share": got / rate})
    print(f"{'bandwidth':16} {'GB/s':>9} {'share':>6}")
    for row in rows:
        print(f"{row['what']:16} {row['gb_s']:9.1f} {row['share']:6.2f}")
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return int(any(row["share"] < options.least for row in rows))


if __name__ == "__main__":
    sys.exit(main())
