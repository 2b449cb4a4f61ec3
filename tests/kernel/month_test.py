"""A kernel that has been up for long: memory, descriptors, threads and the work for a cell stay what they were.

    month_test.py [--minutes N] [--seed N] [--report]

Cells of many kinds in random order: definitions and their redefinition, results that are kept, closures, data, networks, passes, views,
gradients, errors, interrupts, completion, inspection, undo. Every so often the process is looked at, and what processor time a fixed cell takes, which other programs do not change. At the end
the last third of what was seen is held to the second. Before that each kind of cell runs some times by itself, since what one keeps another
may let go of. The default takes seconds and finds what leaks in each cell; half an hour finds more."""
import argparse
import os
import random
import statistics
import sys
import time

from client import Kernel

NETWORK = """def @net{i}(%x: Tensor[(1, 3, {s}, {s}), float32], %w: Tensor[(8, 3, 3, 3), float32]) {{
  nn.relu(nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]))
}}
sum(@net{i}(ones(shape=[1, 3, {s}, {s}], dtype="float32"), full(0.1f, shape=[8, 3, 3, 3], dtype="float32")))"""
# A result is kept, and a hundred of them.
LARGE = "ones(shape=[512, 512], dtype=\"float32\") + {n}f"
CELLS = [
    "def @f{i}(%x: int32) -> int32 {{ if (%x < 1) {{ {n} }} else {{ @f{i}(%x - 1) + 1 }} }}\n@f{i}({n})",
    "let %v{i} = ones(shape=[{s}, {s}], dtype=\"float32\") * {n}f;",
    LARGE,
    "let %g{i} = fn (%x: int32) {{ fn (%y: int32) {{ %x * %y + {n} }} }}; %g{i}(3)(4)",
    "foldl(fn (%a: int32, %b: int32) {{ %a + %b }}, 0, map(fn (%x: int32) {{ %x * {n} }}, Cons(1, Cons(2, Nil))))",
    "type T{i} {{ A{i}(int32), B{i}(T{i}, T{i}) }}\nlet %t{i} = B{i}(A{i}({n}), A{i}(2)); match (%t{i}) {{ B{i}(_, A{i}(%x)) => %x, _ => 0 }}",
    "def @h{i}(%x: Tensor[({s}), float32]) {{ sum(tanh(%x) * %x) }}\ngrad(@h{i})(ones(shape=[{s}], dtype=\"float32\"))",
    NETWORK,
    ":pass -O3 fn (%x: Tensor[({s}), float32]) {{ add(exp(%x), exp(%x)) }}",
    ":explain pass FuseOps fn (%x: Tensor[({s}), float32]) {{ tanh(exp(%x) + {n}f) }}",
    ":show all fn (%x: Tensor[({s}), float32]) {{ nn.softmax(exp(%x)) }}",
    ":why fn (%x: Tensor[({s}), float32]) {{ %x + {n}f }}",
    ":step 1 + {n} * 3",
    ":plot arange(0f, {s}f, 1f)",
    ":undo",
    ":defs mine",
    "1 / ({n} - {n})",
    "%nothing{i} + 1",
    "def @broken{i}(%x: int32) -> float32 {{ %x }}",
    "let (",
    "ones(shape=[{s}]) + ones(shape=[{n}, 7])",
]
# What one cell may leave behind, by the mean of some.
BYTES_MOST = 40_000
ENDLESS = "def @forever(%x: int32) -> int32 { @forever(%x + 1) }\n@forever(0)"


def sample(kernel):
    """Resident KiB, descriptors, threads."""
    here = f"/proc/{kernel.process.pid}"
    with open(f"{here}/status") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    return int(status["VmRSS"].split()[0]), len(os.listdir(f"{here}/fd")), int(status["Threads"])


def spent(kernel):
    """Nanoseconds that the threads of the kernel have run."""
    folder, total = f"/proc/{kernel.process.pid}/task", 0
    for thread in os.listdir(folder):
        with open(f"{folder}/{thread}/schedstat") as file:
            total += int(file.read().split()[0])
    return total


class Month:
    def __init__(self, kernel, seed):
        self.kernel, self.client, self.choose, self.cells = kernel, kernel.client(), random.Random(seed), 0
        kernel.unique = lambda message: None    # it would keep them all

    def run(self, cell):
        reply, _ = self.client.execute(cell.format(i=self.choose.randrange(12), n=self.choose.randrange(1, 50), s=self.choose.choice([8, 9, 16])))
        assert reply["status"] in ("ok", "error"), reply
        self.cells += 1

    def alone(self, cell):
        """Bytes that the cell leaves behind each time."""
        resident = []
        for count in (25, 25):
            for _ in range(count):
                self.run(cell)
            resident.append(sample(self.kernel)[0])
        return (resident[1] - resident[0]) * 1024 / 25

    def turn(self):
        """A cell, and what else a front end asks."""
        self.run(self.choose.choice(CELLS))
        if self.cells % 10 == 0:
            self.client.ask("complete_request", {"code": "nn.con", "cursor_pos": 6})
            self.client.ask("inspect_request", {"code": "nn.conv2d", "cursor_pos": 5, "detail_level": 1})
            self.client.ask("history_request", {"hist_access_type": "tail", "n": 5, "output": False, "raw": True})
        if self.cells % 100 == 0:
            running = self.client.send("execute_request", {"code": ENDLESS})
            time.sleep(0.05)
            self.client.ask("interrupt_request", {}, "control")
            assert self.client.reply_to(running)["content"]["status"] == "error"
            self.client.published(running)

    def work(self):
        """Milliseconds of processor time for a cell, in all threads."""
        times = []
        for _ in range(20):
            began = spent(self.kernel)
            reply, _ = self.client.execute("1 + 2", store_history=False)
            times.append(spent(self.kernel) - began)
            assert reply["status"] == "ok"
        return sorted(times)[len(times) // 4] / 1e6



def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    seen, wrong = [], []
    # What the address sanitizer holds back is not what the kernel keeps.
    quick = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1:thread_local_quarantine_size_kb=64"}
    with Kernel(environment=quick) as kernel:
        month = Month(kernel, args.seed)
        for cell in CELLS:
            # What is made once, or grows by doubling, is not there again.
            left = 0 if cell == LARGE else month.alone(cell)
            left = min([left] + [month.alone(cell) for _ in range(3) if left > BYTES_MOST])
            if left > BYTES_MOST:
                wrong.append(f"{left:.0f} bytes a cell stay of `{cell}`: memory")
        end = time.monotonic() + args.minutes * 60
        while time.monotonic() < end:
            until = time.monotonic() + args.minutes * 60 / 30
            while time.monotonic() < until:
                month.turn()
            seen.append((*sample(kernel), month.work()))
            if args.report:
                print("%6d cells  %7d KiB  %3d descriptors  %2d threads  %.2f ms" % (month.cells, *seen[-1]), flush=True)
    third = len(seen) // 3
    before, after = ([statistics.median(column) for column in zip(*part)] for part in (seen[third:2 * third], seen[2 * third:]))
    print("%d cells; second and last third: %d and %d KiB, %d and %d descriptors, %d and %d threads, %.2f and %.2f ms"
          % (month.cells, *(x for pair in zip(before, after) for x in pair)))
    # What is kept of a session (results, undo, sources of cells) has bounds that a short run does not reach.
    grown = after[0] - before[0]
    wrong += [what for what, bad in (("memory", grown > max(0.05 * before[0], 40 * 1024)), ("descriptors", after[1] > before[1] + 2),
                                    ("threads", after[2] > before[2] + 2), ("work", after[3] > 2 * before[3] + 0.2)) if bad]
    for what in wrong:
        print(f"{what} grew")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
