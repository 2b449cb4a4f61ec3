"""The formulas of shapes in the rows are true: each is evaluated on the shapes and attributes of the cases that compare
its operator with NumPy, and gives the shape of what must come out.

    (N, C, d...), (O, C/groups, k...) -> (N, O, window(d, k)...); OTHER where CONDITION

What is no formula, but words, is counted only. docs/operators.md says what the words in formulas mean.
"""
import ast
import math
import os
import re
import sys
from fractions import Fraction

import numpy as np

import against_numpy  # noqa: F401: its tables enter the entries
from peer import ENTRIES

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 236  # operators whose formula must be checked by some case


class Unknown(Exception):
    """Nothing can be said about this case."""


# ---- the page ---------------------------------------------------------------------------------------

def default_of(text):
    found = re.search(r"default `(.*?)`: ", text)
    return attribute(found.group(1)) if found else None


def operators():
    with open(os.path.join(HERE, "../../docs/operators.md")) as f:
        text = f.read()
    for section in re.split(r"^### ", text, flags=re.M)[1:]:
        name = section.split("\n")[0]
        formula = re.search(r"^- shapes: `(.*)`$", section, re.M).group(1)
        arguments = re.findall(r"^- `%(\w+)`:", section, re.M)
        attributes = {k: default_of(line) for k, line in re.findall(r"^- `(\w+)`,(.*)$", section, re.M)}
        yield name, formula, arguments, attributes


# ---- calls ------------------------------------------------------------------------------------------

def parts(text, stop=","):
    """Split at commas outside of brackets and quotes."""
    depth, quoted, at, out = 0, False, 0, []
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "([{") - (c in ")]}")
        if c == stop and depth == 0 and not quoted:
            out.append(text[at:i].strip())
            at = i + 1
    return [p for p in out + [text[at:].strip()] if p]


def attribute(text):
    text = re.sub(r"(?<=\d)(?:f64|f16|f|i64|i32|i8)\b", "", text.strip())
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise Unknown from None


def arguments_of(name, case):
    """Shapes of the arguments (a list for a tuple), their values where they are few whole numbers, attributes."""
    call = re.fullmatch(re.escape(name) + r"\((.*)\)", case.text, re.S)
    if not call:
        raise Unknown
    arrays, shapes, values, attributes = iter(case.arrays), [], [], {}
    for part in parts(call.group(1)):
        keyed = re.match(r"(\w+)=(.*)", part, re.S)
        if keyed:
            attributes[keyed.group(1)] = attribute(keyed.group(2))
        elif part.startswith("("):
            shapes.append([next(arrays).shape if p == "{}" else () for p in parts(part[1:-1])])
            values.append(None)
        elif part == "{}":
            a = next(arrays)
            shapes.append(a.shape)
            values.append(a.tolist() if a.ndim < 2 and a.dtype.kind in "iu" else None)
        else:
            shapes.append(())
            values.append(attribute(part))
    return shapes, values, attributes


# ---- formulas ---------------------------------------------------------------------------------------

class Axis(int):
    """An axis counted from 0; `given` is as it was written, for what makes new axes."""
    given = 0


def window(e):
    def f(d, k):
        dilation = e.get("dilation", e.get("dilations", 1))
        return (d + e.get("padding", 0) - dilation * (k - 1) - 1) // e["strides"] + 1
    return f


def spread(e):
    return lambda d, k: e["strides"] * (d - 1) + e["dilation"] * (k - 1) + 1 - e["padding"] + e["output_padding"]


def axes_of(axis, d):
    return {a % len(d) for a in ([axis] if isinstance(axis, int) else range(len(d)) if axis is None else axis)}


def without(d, axis):
    return [e for i, e in enumerate(d) if i not in axes_of(axis, d)]


def put(d, axis, v):
    if v is None or isinstance(v, list) or v < 0:
        raise Unknown
    return [v if i in axes_of(axis, d) else e for i, e in enumerate(d)]


def insert(d, axis, v, n=1):
    at = getattr(axis, "given", axis)
    at = at if at >= 0 else at + len(d) + 1
    return [*d[:at], *[v] * n, *d[at:]]


def permute(d, axes):
    return list(d)[::-1] if axes is None else [d[a] for a in axes]


def broadcast(*shapes):
    return list(np.broadcast_shapes(*[tuple(map(int, s)) for s in shapes]))


FUNCTIONS = {"without": without, "put": put, "insert": insert, "permute": permute, "broadcast": broadcast, "len": len, "ceil": math.ceil,
             "round": round, "max": max, "product": lambda d: math.prod(d), "ones": lambda d: [i for i, e in enumerate(d) if e == 1]}


def python(text):
    return re.sub(r"(\w+)\[(\w+) := ((?:[^\[\]]|\[[^\]]*\])*)\]", r"put(\1, \2, \3)", text)


def evaluate(text, names):
    """A number or a list; `/` is exact."""
    tree = ast.parse(python(text), mode="eval")

    class Exact(ast.NodeTransformer):
        def visit_Constant(self, node):
            if type(node.value) is not int:
                return node
            return ast.copy_location(ast.Call(ast.Name("Fraction", ast.Load()), [node], []), node)

        def visit_Slice(self, node):
            return node

    try:
        return eval(compile(ast.fix_missing_locations(Exact().visit(tree)), text, "eval"), {**FUNCTIONS, "Fraction": Fraction}, names)
    except (NameError, TypeError, KeyError, IndexError, AttributeError, ValueError):
        raise Unknown from None


def each(text, names):
    """The extents of what ends in `...`: a list, or an expression for each place of its lists."""
    if re.fullmatch(r"\w+(?:\[[^\]]*:.*\]|\(.*\))?", text):
        try:
            found = evaluate(text, names)
            if isinstance(found, (list, tuple)):
                return list(found)
        except (Unknown, SyntaxError):
            pass
    used = [w for w in re.findall(r"[A-Za-z_]\w*", text) if isinstance(names.get(w), (list, tuple))]
    sliced = {m.group(0): evaluate(m.group(0), names) for m in re.finditer(r"\w+\[[^\]]*:[^\]]*\]", text)}
    for i, (part, value) in enumerate(sliced.items()):
        text = text.replace(part, f"sliced{i}")
        names = {**names, f"sliced{i}": value}
        used = [f"sliced{i}"] + used
    if not used:
        raise Unknown
    n, out = len(names[used[0]]), []
    for i in range(n):
        here = {k: v for k, v in names.items()}
        for k, v in names.items():
            if isinstance(v, (list, tuple)) and len(v) in (1, n, 2 * n):
                v = list(v)
                pair = v and isinstance(v[0], (list, tuple))
                here[k] = sum(v[i]) if pair else v[0] if len(v) == 1 else v[i] if len(v) == n else v[i] + v[n + i]
        total = names.get("padding")
        if isinstance(total, (list, tuple)) and len(total) in (1, n):
            here["padding"] = 2 * here["padding"]
        here.update(window=window(here), spread=spread(here))
        out.append(evaluate(text, here))
    return out


def whole(d):
    if isinstance(d, (list, tuple, str)) or d is None:
        raise Unknown
    return max(math.floor(d), 0)


def shape(text, names):
    """A tuple in brackets as a shape; ((…), (…)) as a list of shapes."""
    if not (text.startswith("(") and text.endswith(")")):
        raise Unknown
    inner = parts(text[1:-1])
    if inner and all(p.startswith("(") and p.endswith(")") for p in inner):
        return [shape(p, names) for p in inner]
    out = []
    for p in inner:
        out += each(p[:-3], names) if p.endswith("...") else [evaluate(p, names)]
    return tuple(whole(d) for d in out)


def bind(pattern, extents, names):
    items = parts(pattern[1:-1])
    many = [i for i, p in enumerate(items) if p.endswith("...")]
    if not (pattern.startswith("(") and pattern.endswith(")")) or len(many) > 1 or (
            len(extents) < len(items) - 1 if many else len(extents) != len(items)):
        raise Unknown
    at = 0
    for i, p in enumerate(items):
        if i in many:
            rest = len(extents) - len(items) + 1
            names[p[:-3]] = list(extents[at:at + rest])
            at += rest
            continue
        grouped = re.fullmatch(r"(\w+)/groups", p)
        if grouped:
            names.setdefault(grouped.group(1), extents[at] * names["groups"])
        elif re.fullmatch(r"[A-Za-z]\w*", p):
            if names.setdefault(p, extents[at]) != extents[at]:
                raise Unknown
        at += 1


def expected(formula, shapes, values, attributes, arguments):
    names = dict(attributes)
    names.update({a: v for a, v in zip(arguments, values) if v is not None})
    left, arrow, right = formula.partition("->")
    if not arrow:
        raise Unknown
    patterns = parts(left)
    counted = re.search(r"(\d+) parameters", left)
    if counted:
        patterns, shapes = patterns[:-1], shapes[:len(shapes) - int(counted.group(1))]
    tupled = re.fullmatch(r"n of (\(.*\)) in a tuple", left.strip())
    if tupled:
        bind(tupled.group(1), shapes[0][0], names)
        names.update(n=len(shapes[0]), total=lambda axis: sum(s[axis] for s in shapes[0]))
    elif len(patterns) != len(shapes):
        raise Unknown
    else:
        for pattern, extents in zip(patterns, shapes):
            bind(pattern, extents, names)
    first = next((v for k, v in names.items() if isinstance(v, list) and k in ("d", "a")), [])
    if isinstance(names.get("axis"), int) and first:
        axis = Axis(names["axis"] % (len(first) or 1))
        axis.given = names["axis"]
        names["axis"] = axis
    aligned = max([len(v) for k, v in names.items() if k in ("d", "reps") and isinstance(v, list)], default=0)
    names["front"] = lambda d: [1] * (aligned - len(d)) + list(d)
    if "front(" in right:
        names.update({k: names["front"](names[k]) for k in ("d", "reps") if k in names}, front=lambda d: d)
    first, *others = parts(right, ";")
    for other in others:
        condition = re.fullmatch(r"(.*) where (.*)", other)
        if condition and evaluate(condition.group(2), names):
            return shape(condition.group(1), names)
        if not condition:
            raise Unknown
    return shape(first, names)


def usual(attributes, given):
    """The formulas are about the usual order of axes."""
    return all(attributes.get(k) == v for k, v in given.items() if "layout" in k)


def check(name, formula, arguments, attributes):
    """How many cases agree, and what is wrong."""
    entry, good, wrong = ENTRIES[name], 0, []
    dtype = "float32" if "float32" in entry.dtypes else entry.dtypes[0]
    for case in entry.cases(dtype):
        try:
            shapes, values, given = arguments_of(name, case)
            if not usual(attributes, given):
                continue
            got = expected(formula, shapes, values, {**attributes, **given}, arguments)
        except (Unknown, SyntaxError):
            continue
        with np.errstate(all="ignore"):
            want = case.want()
        want = [None if w is None else np.shape(w) for w in want] if isinstance(want, tuple) else np.shape(want)
        if isinstance(want, list) and isinstance(got, list):
            got = [g if w is not None else None for g, w in zip(got, want)]
        good += got == want
        if got != want:
            wrong.append(f"{name}: `{formula}` gives {got}, not {want}, for {case.text} on {shapes}")
    return good, wrong


def main():
    wrong, checked, words = [], 0, []
    for name, formula, arguments, attributes in operators():
        if name not in ENTRIES:
            continue
        good, found = check(name, formula, arguments, attributes)
        wrong += found[:1]
        checked += good > 0
        if not good:
            words.append(name)
    print("\n".join(wrong))
    print("not checked:", " ".join(words))
    print(f"{checked} operators checked, {len(wrong)} wrong")
    return 1 if wrong or checked < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
