"""A Jupyter kernel that is refused memory answers all the same.

    kernel.py [--library FAULT.so] [--sample N] [--how once|burst] [--at N]

One kernel runs the same cells again and again. In each round another of the places that ask for memory while it does so (fault.c) is
refused it, once or with the calls that follow. Each cell must get its reply: the right one, or an error of which E0503 is one; and
when memory is back the next cell must be right. The process does not end, but where libzmq, which answers some refusals with abort,
is the one refused: then its last words say so."""
import argparse
import collections
import os
import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path += [str(here), str(here.parent / "kernel")]
import client  # noqa: E402
import fault  # noqa: E402

# A cell, and its result; None: it is wrong.
CELLS = [
    ("def @square(%v: int32) -> int32 { multiply(%v, %v) }\n@square(6)", "36"),
    ("nn.dense(reshape(arange(0f, 4f, 1f), newshape=[2, 2]), ones(shape=[2, 2], dtype=\"float32\"), units=2)",
     "[[1, 1], [5, 5]] : Tensor[(2, 2), float32]"),
    ("add(1, 2f)", None),
]
LIBZMQ = "relay kernel: libzmq cannot go on\n"


class Round:
    """A kernel, and what came of the cells; `why` says what was wrong."""

    def __init__(self, library, folder):
        self.log = fault.Log(pathlib.Path(folder, "log"), armed=0)
        environment = fault.environment(library, "memory", self.log, folder)
        self.kernel = client.Kernel(environment=environment)
        self.client = self.kernel.client()

    def cell(self, code, right):
        try:
            reply, published = self.client.execute(code, timeout=fault.SECONDS)
        except AssertionError as error:
            status = self.kernel.wait(1)
            if status == 3 and self.kernel.output().endswith(LIBZMQ):
                return LIBZMQ
            return f"hangs ({error})" if status is None else f"ends: {status} {self.kernel.output()[-200:]!r}"
        results = [m["content"]["data"]["text/plain"] for m in published if m["header"]["msg_type"] == "execute_result"]
        if reply["status"] == "ok":
            return "" if results == [right] else f"wrong success: {results}"
        said = "".join(reply["traceback"])
        return "" if right is None or "E0503" in said else f"wrong error: {said!r}"

    def cells(self, point, calls):
        self.log.arm(point, calls, 1)
        why = ""
        for code, right in CELLS:
            why = why or self.cell(code, right)
        self.log.arm(None, 0, 0)
        return why or self.cell("add(40, 2)", "42")

    def end(self):
        self.kernel.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", type=pathlib.Path, default=here.parents[1] / "build" / "release" / "fault.so")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--how", choices=["once", "burst"])
    parser.add_argument("--at", type=int)
    args = parser.parse_args()
    os.environ.setdefault("RELAY", str(args.library.resolve().parent / "relay"))
    total = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        running = Round(args.library.resolve(), folder)
        # The second time nothing is new any more.
        why = running.cells(None, 0) or running.cells(None, 0)
        points = running.log.points()
        chosen = fault.points_of(points, args.sample, args.at)
        for how in ["once", "burst"] if not args.how else [args.how]:
            for point in chosen:
                why = why or running.cells(point, fault.WAYS[how])
                total["libzmq" if why == LIBZMQ else why.split(" ")[0] or "right"] += 1
                if why:
                    print(f"memory refused {how} at {points.index(point) + 1}: {why}", flush=True)
                    running.end()
                    running = Round(args.library.resolve(), folder)
                    why = running.cells(None, 0)
        running.end()
    print(f"{len(points)} points, {dict(total)}")
    return 0 if set(total) <= {"right", "libzmq"} and total["libzmq"] <= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
