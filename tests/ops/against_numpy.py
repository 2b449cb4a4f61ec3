"""Every operator against NumPy: at least 12 generated shapes and attributes, all its element types.

    RELAY=build/release/relay .venv/bin/python tests/ops/against_numpy.py [--engine interp|jit] [--part N] [OPERATOR…]

The entries stand in table_*.py; peer.py says what an entry is. An operator without one fails by its
name, unless EXCEPTIONS says why there is none. Prints a table: operators, element types, cases, passes.
`--part N` runs each N-th case only (a part of the whole, the same each time), `--seed S` other values.
"""
import argparse
import collections
import sys

import numpy as np

import peer
import table_bits  # noqa: F401: the tables enter their entries
import table_elementwise  # noqa: F401
import table_index  # noqa: F401
import table_qnn  # noqa: F401
import table_reduce  # noqa: F401
import table_shape  # noqa: F401
import table_signal  # noqa: F401
import table_transformed  # noqa: F401
import table_vision  # noqa: F401
import table_window  # noqa: F401
from peer import ENTRIES, LEAST

# operator: why it has no entry
EXCEPTIONS = {"vision.proposal": "no peer has it",
              "adjoint": "a derivative of any operator; ops/rows_test.py compares it with differences",
              **dict.fromkeys(["grad", "value_and_grad", "vjp", "jvp", "pass"], "stands for a program; ops/derivative_test.py"),
              **dict.fromkeys(["each", "total", "initial"], "stands for a program; eval/each_forms"),
              **dict.fromkeys(["memory.alloc_storage", "memory.alloc_tensor", "memory.kill", "vm.invoke_tvm_op", "call_lowered"],
                              "memory and calls of the program itself")}
# operator and element type: why the entry leaves out what the type checker takes
DTYPE_EXCEPTIONS = {(name, dtype): why for names, dtypes, why in [
    ("arange", ["bool"], "there are two of them"),
    ("fixed_point_multiply", ["bool"], "it scales numbers"),
    ("mean variance", ["bool"], "truth values have no mean"),
    ("nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_avg_pool2d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d "
     "nn.adaptive_avg_pool3d", ["bool"], "truth values have no mean"),
    ("image.resize1d image.resize2d image.resize3d nn.upsampling nn.upsampling3d dyn.nn.upsampling image.dilation2d", ["bool"],
     "nothing lies between truth values"),
    ("dyn.image.resize2d dyn.nn.upsampling3d", ["bool"], "nothing lies between truth values"),
    ("image.grid_sample image.affine_grid image.crop_and_resize nn.deformable_conv2d vision.roi_align vision.roi_pool "
     "vision.multibox_prior vision.multibox_transform_loc vision.get_valid_counts vision.non_max_suppression "
     "vision.all_class_non_max_suppression vision.regular_non_max_suppression", peer.INTS + ["bool"],
     "places, scores and corners are real numbers"),
    ("nn.conv2d_backward_weight nn.max_pool2d_grad nn.avg_pool2d_grad", peer.INTS + ["bool"], "gradients are real numbers"),
    ("nn.batch_norm nn.layer_norm nn.instance_norm nn.group_norm nn.l2_normalize nn.lrn nn.softmax nn.log_softmax "
     "nn.fast_softmax nn.cross_entropy nn.cross_entropy_with_logits nn.nll_loss", peer.INTS + ["bool"],
     "defined by division, roots and logarithms of real numbers"),
] for name in names.split() for dtype in dtypes}
# Operators on quantised numbers: as in the original, the checker takes more element types than they are for.
QUANTISED = "qnn."
BATCH = 200


def gather(names, options, problems):
    """The cases of these operators, each with its operator and element type."""
    entries = [ENTRIES[n] for n in names]
    cases, place = [], 0
    for e in entries:
        checked = peer.admitted(e) if options.engine == "interp" else e.dtypes
        for dtype in sorted(set(checked) ^ set(e.dtypes), key=peer.ALL.index):
            if (e.name, dtype) in DTYPE_EXCEPTIONS or (e.name.startswith(QUANTISED) and dtype not in e.dtypes):
                continue
            problems.append(f"{e.name}: {dtype} is " + ("refused" if dtype in e.dtypes else "taken, and the entry has none"))
        for dtype in e.dtypes:
            n = 0
            for case in e.cases(dtype, options.seed):
                n, place = n + 1, place + 1
                if place % options.part:
                    continue
                try:
                    with np.errstate(all="ignore"):
                        case.want = case.want()
                except Exception as x:  # the entry is wrong
                    problems.append(f"{e.name}: no reference for {peer.describe(case)}: {x!r}")
                    continue
                case.ulp = e.ulp if case.ulp is None else case.ulp
                case.op, case.dtype = e.name, dtype
                cases.append(case)
            if n < LEAST:
                problems.append(f"{e.name}: only {n} cases of {dtype}")
    return cases


def main(arguments=None):
    p = argparse.ArgumentParser()
    p.add_argument("--engine", default="interp")
    p.add_argument("--part", type=int, default=1)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--all-failures", action="store_true")
    p.add_argument("names", nargs="*")
    options = p.parse_args(arguments)
    there = peer.operators()
    problems = [f"{n}: no entry" for n in there if n not in ENTRIES and n not in EXCEPTIONS]
    names = options.names or [n for n in there if n in ENTRIES]
    if options.names:
        problems = []
    cases = gather(names, options, problems)
    failures = []
    for i in range(0, len(cases), BATCH):
        failures += peer.run_cases(cases[i:i + BATCH], options.engine)
    report(names, cases, failures, problems, options)
    return 1 if failures or problems else 0


def report(names, cases, failures, problems, options):
    shown = collections.Counter()
    for c, message in failures:
        shown[c.op, c.dtype] += 1
        if options.all_failures or shown[c.op, c.dtype] == 1:
            print(f"FAILED {c.dtype}: {peer.describe(c)}: {message}")
    for line in problems:
        print(line)
    print(f"{'operators':>10} {'op × dtype':>10} {'cases':>8} {'pass':>8}")
    print(f"{len(names):>10} {len({(c.op, c.dtype) for c in cases}):>10} {len(cases):>8} "
          f"{len(cases) - len({id(c) for c, _ in failures}):>8}")


if __name__ == "__main__":
    sys.exit(main())
