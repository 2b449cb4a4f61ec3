"""PyTorch programs as Relay text, by torch.export.

    import relay_torch
    relay_torch.save(module, (x,), "resnet")          # resnet.rly and resnet.npz
    relay_torch.save(module, (x,), "net", dynamic_shapes={"x": {0: torch.export.Dim("batch")}})

The program is that of torch.export in core ATen, a line a node, called after its module; parameters are the inputs and then the weights, and what
the model calls either stands in attributes where it is no name of the language. Modules that say the same with other weights are calls of one
function, called after their class. `cond` becomes `if`,
`while_loop` and `scan` a function that calls itself, dynamic extents symbolic ones. What has no counterpart is listed in one Unsupported, and nothing is
written.
"""
import json
import math
import operator
import re

import numpy as np
import torch

__all__ = ["Unsupported", "program", "save"]

aten = torch.ops.aten
RULES = {}


class Unsupported(Exception):
    """What Relay cannot say, all of it."""


def rule(*names):
    def register(f):
        for name in names:
            RULES[name] = f
        return f
    return register


def dtype(t):
    return str(t).replace("torch.", "")


def number(v, t):
    t = dtype(t)
    if t == "bool":
        return "True" if v else "False"
    if t.startswith(("int", "uint")):
        return f"{int(v)}{'' if t == 'int32' else t[0] + t.lstrip('uint')}"
    text = "inf" if v == math.inf else "-inf" if v == -math.inf else "nan" if v != v else repr(float(v))
    text += "f" if t == "float32" or text.lstrip("-") in ("inf", "nan") else t.replace("float", "f")
    return text if t in ("float32", "float64") else f'cast({repr(float(v))}f, dtype="{t}")'


def listed(v):
    v = list(v)
    if not all(isinstance(e, (int, np.integer)) for e in v):
        raise Unsupported("an extent that is known only at run time")
    return "[" + ", ".join(str(int(e)) for e in v) + "]"


class Graph:
    """One function: lines, and the text of each value."""

    def __init__(self, writer, module):
        self.writer, self.module, self.lines, self.text = writer, module, [], {}
        self.makers = []    # of each line, the node that made it

    def type(self, v):
        if isinstance(v, torch.Tensor) and v.dtype.is_complex:
            raise Unsupported("complex numbers as an input")
        if isinstance(v, torch.Tensor):
            dims = [self.writer.extent(d) for d in v.shape]
            return f"Tensor[({', '.join(dims)}), {dtype(v.dtype)}]" if dims else dtype(v.dtype)
        if isinstance(v, (tuple, list)):
            return f"({', '.join(self.type(e) for e in v)}{',' if len(v) == 1 else ''})"
        return {bool: "bool", torch.SymBool: "bool", float: "float32"}.get(type(v), "int64")

    def bind(self, node, text):
        name = self.writer.value(node)
        self.lines.append(f"  let %{name} = {text};")
        self.text[node] = f"%{name}"
        if not is_complex(node):
            self.writer.types[name] = self.type(node.meta["val"])

    def arg(self, a, like=None):
        """The text of an argument; a number as one of the element type."""
        if isinstance(a, torch.fx.Node):
            return self.text[a]
        return number(a, like or (torch.int64 if isinstance(a, int) else torch.float32))

    def as_type(self, a, t):
        if not isinstance(a, torch.fx.Node):
            return number(a, t)
        v = a.meta["val"]
        have = v.dtype if isinstance(v, torch.Tensor) else {torch.SymBool: torch.bool, torch.SymFloat: torch.float32}.get(type(v), torch.int64)
        return self.text[a] if have == t else f'cast({self.text[a]}, dtype="{dtype(t)}")'

    def run(self):
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.call(node)
                self.makers += [node] * (len(self.lines) - len(self.makers))
            elif node.op == "get_attr" and not isinstance(getattr(self.module, node.target, None), torch.fx.GraphModule):
                self.text[node] = self.writer.weight(node.target, getattr(self.module, node.target))
            elif node.op == "output":
                return node.args[0]
        raise Unsupported("a graph without an output")

    def call(self, node):
        if node.target is operator.getitem:
            source, k = self.text[node.args[0]], node.args[1]
            if isinstance(source, list) and k >= len(source):
                self.writer.refused.add(f"{node.args[0].target}: its result {k}")
                self.text[node] = "0"
                return
            self.text[node] = source[k] if isinstance(source, list) else f"{source}.{k}"
            return
        name = getattr(node.target, "_overloadpacket", node.target)
        name = str(name).split(".")[-1] if not hasattr(name, "__name__") else name.__name__
        found = COMPLEX.get(name) if any(is_complex(v) for v in [node, *node.all_input_nodes]) else None
        found = found or RULES.get(name)
        if not found:
            self.writer.refused.add(str(node.target))
            self.text[node] = "0"
            return
        try:
            got = found(Call(self, node))
            if found not in PAIRED and any(is_complex(v) for v in [node, *node.all_input_nodes]):
                raise Unsupported("complex numbers")
        except TypeError as x:  # an extent that is known only at run time where a rule needs a number
            self.writer.refused.add(f"{node.target}: {x}")
            got = "0"
        except Unsupported as x:
            self.writer.refused.add(f"{node.target}: {x}")
            got = "0"
        if isinstance(got, list):
            self.text[node] = got
        else:
            self.bind(node, got)


def is_complex(node):
    """Such numbers are pairs along an axis more."""
    v = node.meta.get("val")
    return isinstance(v, torch.Tensor) and v.dtype.is_complex


class Call:
    """What a rule sees of a node."""

    def __init__(self, graph, node):
        self.graph, self.node, self.target = graph, node, node.target
        names = [a.name for a in node.target._schema.arguments] if hasattr(node.target, "_schema") else []
        self.values = {a.name: a.default_value for a in node.target._schema.arguments if a.has_default_value()} if names else {}
        self.values.update(zip(names, node.args), **node.kwargs)
        self.args = list(node.args)

    def get(self, name):
        return self.values.get(name)

    def out(self, i=None):
        v = self.node.meta["val"]
        return v if i is None else v[i]

    def val(self, a):
        return a.meta["val"] if isinstance(a, torch.fx.Node) else a

    def x(self, i=0, like=None):
        return self.graph.arg(self.args[i], like)

    def cast(self, i, t):
        """Operand i in an element type; a number, or a scalar of the host, too."""
        return self.graph.as_type(self.args[i], t)

    def let(self, text):
        name = self.graph.writer.name(self.graph.writer.title(self.node) + "_part")
        self.graph.lines.append(f"  let %{name} = {text};")
        return f"%{name}"

    def result(self, text):
        """The first of several results has the node's name."""
        name = self.graph.writer.value(self.node)
        self.graph.lines.append(f"  let %{name} = {text};")
        return f"%{name}"

    def shape(self, sizes, of):
        """A list for `reshape`: an extent of the input at its place is 0, one that is known only at run time -1."""
        out = []
        for i, d in enumerate(sizes):
            v = self.val(d)
            if isinstance(v, int):
                out.append(v)
            else:
                same = i < len(of) and str(of[i]) == str(v)
                out.append(0 if same else -1)
        return out

    def extents(self, sizes):
        """A row of integers, some known at run time."""
        return f"stack(({', '.join(self.graph.arg(d, torch.int64) for d in sizes)},), axis=0)"

    def extent(self, a, axis):
        n = self.val(a).shape[axis]
        return number(n, torch.int64) if isinstance(n, int) else f'take(shape_of({self.graph.arg(a)}, dtype="int64"), {axis}i64, axis=0)'

    def sizes(self, sizes):
        """A row of extents; those that are known at run time are extents of what the node is given."""
        of = {}
        for a in self.node.all_input_nodes:
            for k, d in enumerate(self.val(a).shape if isinstance(self.val(a), torch.Tensor) else []):
                of.setdefault(str(d), (a, k))
        if any(not isinstance(d, int) and str(d) not in of for d in sizes):
            raise Unsupported("an extent that is known only at run time")
        return f"stack(({', '.join(f'{d}i64' if isinstance(d, int) else self.extent(*of[str(d)]) for d in sizes)},), axis=0)"

    def filled(self, value, sizes, t):
        if all(isinstance(d, int) for d in sizes):
            return f'full({value}, shape={listed(sizes)}, dtype="{dtype(t)}")'
        return f'dyn.full({value}, {self.sizes(sizes)}, shape=None, dtype="{dtype(t)}")'

    def broadcast(self, text, a, sizes):
        """The value of a in a shape."""
        if list(map(str, self.val(a).shape)) == list(map(str, sizes)):
            return text
        if all(isinstance(d, int) for d in sizes):
            return f"broadcast_to({text}, shape={listed(sizes)})"
        return f"dyn.broadcast_to({text}, {self.sizes(sizes)}, shape=None)"

    def table(self, values):
        """An array of the rule's own."""
        return self.graph.writer.weight(self.graph.writer.title(self.node) + "_table", torch.as_tensor(values))

    def known(self, a, what="an extent that is known only at run time"):
        shape = list(self.val(a).shape)
        if not all(isinstance(d, int) for d in shape):
            raise Unsupported(what)
        return shape


# ---- element by element ------------------------------------------------------------------------------------------

for torch_name, relay_name in {
        "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "ceil": "ceil", "cos": "cos", "cosh": "cosh", "erf": "erf", "exp": "exp",
        "floor": "floor", "isnan": "isnan", "isinf": "isinf", "log": "log", "log2": "log2", "log10": "log10", "neg": "negative", "relu": "nn.relu", "rsqrt": "rsqrt",
        "sigmoid": "sigmoid", "sign": "sign", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "trunc": "trunc",
        "logical_not": "logical_not", "bitwise_not": "bitwise_not"}.items():
    rule(torch_name)(lambda c, relay_name=relay_name: f"{relay_name}({c.x()})")

for torch_name, relay_name in {
        "mul": "multiply", "div": "divide", "truediv": "divide", "floordiv": "floor_divide", "mod": "floor_mod", "floor_divide": "floor_divide",
        "sym_max": "maximum", "sym_min": "minimum", "__rshift__": "right_shift", "__lshift__": "left_shift", "bitwise_right_shift": "right_shift",
        "bitwise_left_shift": "left_shift",  "maximum": "maximum", "minimum": "minimum", "fmod": "mod", "remainder": "floor_mod",
        "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor"}.items():
    @rule(torch_name)
    def binary(c, relay_name=relay_name):
        t = c.out().dtype if isinstance(c.out(), torch.Tensor) else torch.int64
        if t == torch.bool:
            relay_name = relay_name.replace("bitwise", "logical")
        if c.get("rounding_mode"):
            relay_name = "floor_divide" if c.get("rounding_mode") == "floor" else "trunc_divide"
        return f"{relay_name}({c.cast(0, t)}, {c.cast(1, t)})"

for torch_name, relay_name in {"add": "add", "sub": "subtract", "rsub": "subtract"}.items():
    @rule(torch_name)
    def sum_of(c, relay_name=relay_name, turned=torch_name == "rsub"):
        t = c.out().dtype if isinstance(c.out(), torch.Tensor) else torch.int64
        a, b = c.cast(0, t), c.cast(1, t)
        if c.get("alpha") not in (None, 1):
            b = f"multiply({number(c.get('alpha'), t)}, {b})"
        return f"{relay_name}({b}, {a})" if turned else f"{relay_name}({a}, {b})"

for torch_name, relay_name in {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                               "logical_and": "logical_and", "logical_or": "logical_or",
                               "logical_xor": "logical_xor"}.items():
    @rule(torch_name)
    def compare(c, relay_name=relay_name):
        kinds = [c.val(a) for a in c.args[:2]]
        t = torch.result_type(*kinds) if any(isinstance(k, torch.Tensor) for k in kinds) else torch.int64
        return f"{relay_name}({c.cast(0, t)}, {c.cast(1, t)})"


@rule("pow")
def power(c):
    t, k = c.out().dtype if isinstance(c.out(), torch.Tensor) else torch.int64, c.args[1]
    if t.is_floating_point:
        return f"power({c.cast(0, t)}, {c.cast(1, t)})"
    if isinstance(k, int) and 0 <= k <= 64:  # products: integers have no other power
        x, y = c.cast(0, t), None
        square = x
        while k:
            if k & 1:
                y = square if y is None else c.let(f"multiply({y}, {square})")
            k >>= 1
            square = c.let(f"multiply({square}, {square})") if k else square
        return y or f"ones_like({x})"
    return f'cast(power({c.cast(0, torch.float64)}, {c.cast(1, torch.float64)}), dtype="{dtype(t)}")'


@rule("reciprocal")
def reciprocal(c):
    return f"divide({number(1, c.out().dtype)}, {c.cast(0, c.out().dtype)})"


@rule("round")
def round_(c):
    """Halves go to the even neighbour."""
    if c.get("decimals"):
        raise Unsupported("decimals")
    x, t = c.x(), c.out().dtype
    if not t.is_floating_point:
        return x
    return (f"where(equal(abs(subtract({x}, trunc({x}))), {number(0.5, t)}), multiply({number(2, t)}, round(multiply({x}, {number(0.5, t)}))), "
            f"round({x}))")


@rule("log1p", "expm1")
def near_zero(c):
    """Where one and the number would not keep its digits, the first terms of the series."""
    x, t = c.cast(0, c.out().dtype), c.out().dtype
    far, third = (f"log(add({x}, {number(1, t)}))", 1 / 3) if "log1p" in str(c.target) else (f"subtract(exp({x}), {number(1, t)})", 1 / 6)
    half = number(-0.5 if "log1p" in str(c.target) else 0.5, t)
    near = f"multiply({x}, add({number(1, t)}, multiply({x}, add({half}, multiply({number(third, t)}, {x})))))"
    return f"where(less(abs({x}), {number(0.01, t)}), {near}, {far})"


@rule("atan2")
def atan2(c):
    y, x, t = c.cast(0, c.out().dtype), c.cast(1, c.out().dtype), c.out().dtype
    zero, turn = number(0, t), number(math.pi, t)
    slope = c.let(f"atan(divide({y}, {x}))")
    left = f"add({slope}, where(less({y}, {zero}), negative({turn}), {turn}))"
    return f"where(less({x}, {zero}), {left}, where(equal({y}, {zero}), multiply({zero}, {y}), {slope}))"


@rule("gelu")
def gelu(c):
    x, t = c.x(), c.out().dtype
    if c.get("approximate") == "tanh":
        inner = f"multiply({number(math.sqrt(2 / math.pi), t)}, add({x}, multiply({number(0.044715, t)}, multiply({x}, multiply({x}, {x})))))"
        return f"multiply(multiply({number(0.5, t)}, {x}), add({number(1, t)}, tanh({inner})))"
    return f"multiply(multiply({number(0.5, t)}, {x}), add({number(1, t)}, erf(multiply({x}, {number(math.sqrt(0.5), t)}))))"


@rule("hardtanh", "clamp")
def clamp(c):
    low, high, t = (c.get("min_val"), c.get("max_val"), c.out().dtype) if c.get("min_val") is not None else (c.get("min"), c.get("max"), c.out().dtype)
    x = c.cast(0, t)
    bound = lambda v: c.graph.as_type(v, t)  # noqa: E731
    x = x if low is None else f"maximum({x}, {bound(low)})"
    return x if high is None else f"minimum({x}, {bound(high)})"


@rule("leaky_relu")
def leaky(c):
    return f"nn.leaky_relu({c.x()}, alpha={c.get('negative_slope')}f)"


@rule("elu")
def elu(c):
    x, t = c.x(), c.out().dtype
    inner = x if c.get("input_scale") == 1 else f"multiply({number(c.get('input_scale'), t)}, {x})"
    y = f"where(less({x}, {number(0, t)}), multiply({number(c.get('alpha'), t)}, subtract(exp({inner}), {number(1, t)})), {x})"
    return y if c.get("scale") == 1 else f"multiply({number(c.get('scale'), t)}, {y})"


@rule("where")
def where(c):
    t = c.out().dtype
    return f"where({c.x()}, {c.cast(1, t)}, {c.cast(2, t)})"


@rule("masked_fill")
def masked_fill(c):
    t = c.out().dtype
    return f"where({c.x(1)}, {c.cast(2, t)}, {c.x()})"


@rule("clone", "alias", "lift_fresh_copy", "detach", "detach_", "contiguous")
def same(c):
    return c.x()


@rule("_to_copy", "_to_dim_order_copy")
def to_copy(c):
    return c.cast(0, c.out().dtype)


@rule("_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_is_contiguous", "sym_constrain_range_for_size", "sym_constrain_range")
def promise(c):
    return []


@rule("scalar_tensor", "full")
def full(c):
    t = c.out().dtype
    value = c.cast(0 if "scalar" in str(c.target) else 1, t)
    if not c.out().shape:
        return value
    if any(not isinstance(d, int) for d in c.out().shape):
        return f'dyn.full({value}, {c.extents(c.args[0])}, shape=None, dtype="{dtype(t)}")'
    return f'full({value}, shape={listed(c.out().shape)}, dtype="{dtype(t)}")'


@rule("full_like", "zeros_like", "ones_like")
def like(c):
    v = c.get("fill_value") if "full" in str(c.target) else int("ones" in str(c.target))
    return f'cast(full_like({c.x()}, {number(v, c.val(c.args[0]).dtype)}), dtype="{dtype(c.out().dtype)}")'


@rule("arange")
def arange(c):
    t = c.out().dtype
    values = [c.cast(i, t) for i in range(len(c.args))]
    start, stop, step = ([number(0, t)] + values + [number(1, t)])[:3] if len(values) == 1 else (values + [number(1, t)])[:3]
    return f'arange({start}, {stop}, {step}, dtype="{dtype(t)}")'


# ---- reductions and products -------------------------------------------------------------------------------------

for torch_name, relay_name in {"mean": "mean", "sum": "sum", "amax": "max", "amin": "min", "prod": "prod", "any": "any", "all": "all"}.items():
    @rule(torch_name)
    def reduce(c, relay_name=relay_name):
        dim = c.get("dim")
        axes = "None" if dim is None or dim == [] else listed([dim] if isinstance(dim, int) else dim)
        return f"{relay_name}({c.cast(0, c.out().dtype)}, axis={axes}, keepdims={bool(c.get('keepdim'))})"


@rule("var", "var_mean")
def variance(c):
    """The sum of squares is divided by as many as there are elements, less the correction."""
    shape, keep, t = list(c.val(c.args[0]).shape), bool(c.get("keepdim")), c.val(c.args[0]).dtype
    dims = c.get("dim")
    dims = list(range(len(shape))) if dims is None or dims == [] else [d % len(shape) for d in ([dims] if isinstance(dims, int) else dims)]
    less = c.get("correction")
    less = (1 if c.get("unbiased") in (None, True) else 0) if less is None else less
    axes = listed(dims)
    mean = c.let(f"mean({c.x()}, axis={axes}, keepdims=True)")
    y = f"variance({c.x()}, {mean}, axis={axes}, keepdims={keep}, unbiased={less == 1})"
    if less not in (0, 1):
        n = math.prod(c.known(c.args[0])[d] for d in dims)
        y = f"multiply({y}, {number(n / (n - less) if n > less else math.inf, t)})"
    if "mean" not in str(c.target):
        return y
    return [c.result(y), mean if keep else c.let(f"squeeze({mean}, axis={axes})")]


@rule("max", "min")
def most(c):
    name = "max" if "max" in str(c.target) else "min"
    dim, keep = c.get("dim"), bool(c.get("keepdim"))
    if dim is None:
        return f"{name}({c.x()})"
    return [c.result(f"{name}({c.x()}, axis=[{dim}], keepdims={keep})"),
            c.let(f'cast(arg{name}({c.x()}, axis=[{dim}], keepdims={keep}), dtype="int64")')]


@rule("sort")
def sort(c):
    if c.val(c.args[0]).dim() == 0:
        return [c.x(), "0i64"]
    dim, rising = c.get("dim"), not c.get("descending")
    at = c.let(f'argsort({c.x()}, axis={dim}, is_ascend={rising}, dtype="int64")')
    return [c.result(f"gather({c.x()}, {at}, axis={dim % c.out(0).dim()})"), at]


@rule("topk")
def topk(c):
    return f'topk({c.x()}, k={c.get("k")}, axis={c.get("dim")}, is_ascend={not c.get("largest")}, dtype="int64")'


@rule("argmax", "argmin")
def arg(c):
    name = "argmax" if "argmax" in str(c.target) else "argmin"
    axes = "None" if c.get("dim") is None else listed([c.get("dim")])
    return f'cast({name}({c.x()}, axis={axes}, keepdims={bool(c.get("keepdim"))}), dtype="int64")'


@rule("cumsum", "cumprod")
def cumsum(c):
    return f"{'cumprod' if 'prod' in str(c.target) else 'cumsum'}({c.cast(0, c.out().dtype)}, axis={c.get('dim')})"


@rule("logcumsumexp")
def logcumsumexp(c):
    most = c.let(f"max({c.x()}, axis=[{c.get('dim')}], keepdims=True)")
    return f"add(log(cumsum(exp(subtract({c.x()}, {most})), axis={c.get('dim')})), {most})"


@rule("kthvalue", "median")
def kth(c):
    """Of an even number the lower one is the middle."""
    x, v = c.x(), c.val(c.args[0])
    if len(c.args) == 1:
        x, n, axis = f"reshape({x}, newshape=[-1])", v.numel(), 0
    else:
        axis = c.get("dim") % max(v.dim(), 1)
        n = v.shape[axis]
    if not isinstance(n, int):
        raise Unsupported("an extent that is known only at run time")
    k = c.get("k") if "kth" in str(c.target) else (n + 1) // 2
    order = c.let(f'argsort({x}, axis={axis}, dtype="int64")')
    part = f"strided_slice({order}, begin=[{k - 1}], end=[{k}], strides=[1], axes=[{axis}])"
    keep = (lambda y: y) if c.get("keepdim") else lambda y: f"squeeze({y}, axis=[{axis}])"
    at = c.let(part)
    found = c.let(keep(f"gather({x}, {at}, axis={axis})"))
    return found if len(c.args) == 1 else [found, c.let(keep(at))]


@rule("searchsorted", "bucketize")
def searchsorted(c):
    what, rows = (c.args[0], c.args[1]) if "bucketize" in str(c.target) else (c.args[1], c.args[0])
    if c.get("sorter") is not None:
        raise Unsupported("an order beside the elements")
    right = bool(c.get("right")) or c.get("side") == "right"
    like = c.val(rows).dtype
    return f'searchsorted({c.graph.arg(rows)}, {c.graph.as_type(what, like)}, right={right}, dtype="{dtype(c.out().dtype)}")'


@rule("_unique2")
def unique(c):
    if not c.get("sorted"):
        raise Unsupported("elements as they come")
    u = c.let(f"unique(reshape({c.x()}, newshape=[-1]), sorted=True, return_counts=True)")
    cut = lambda k: f'take({u}.{k}, arange(0i64, cast(squeeze({u}.3, axis=[0]), dtype="int64"), 1i64, dtype="int64"), axis=0)'  # noqa: E731
    return [c.result(cut(0)), c.let(f'reshape_like(cast({u}.2, dtype="int64"), {c.x()})'), c.let(f'cast({cut(4)}, dtype="int64")')]


@rule("masked_select")
def masked_select(c):
    x, flags = c.x(), c.x(1)
    if str(c.val(c.args[0]).shape) != str(c.val(c.args[1]).shape):
        shape = listed(torch.broadcast_shapes(c.known(c.args[0]), c.known(c.args[1])))
        x, flags = (f"broadcast_to({v}, shape={shape})" for v in (x, flags))
    x, flags = (f"reshape({v}, newshape=[-1])" for v in (x, flags))
    return f"take({x}, reshape(argwhere({flags}), newshape=[-1]), axis=0)"


@rule("masked_scatter")
def masked_scatter(c):
    flags = c.let(c.broadcast(c.x(1), c.args[1], list(c.val(c.args[0]).shape)))
    at = f'subtract(cumsum(cast(reshape({flags}, newshape=[-1]), dtype="int64"), axis=0), 1i64)'
    given = f'take(reshape({c.x(2)}, newshape=[-1]), {at}, axis=0, mode="clip")'
    return f"where({flags}, reshape_like({given}, {c.x()}), {c.x()})"


@rule("_softmax", "_log_softmax")
def softmax(c):
    return f"nn.{'log_' if 'log' in str(c.target) else ''}softmax({c.x()}, axis={c.args[1]})"


@rule("mm")
def mm(c):
    return f"nn.matmul({c.x()}, {c.x(1)}, units=None)"


@rule("bmm")
def bmm(c):
    return f"nn.batch_matmul({c.x()}, {c.x(1)})"


@rule("addmm")
def addmm(c):
    return f"add(nn.matmul({c.x(1)}, {c.x(2)}, units=None), {c.x()})"


@rule("convolution")
def convolution(c):
    n = len(c.get("stride"))
    if not isinstance(c.get("groups"), int):
        raise Unsupported("a number of groups that is known only at run time")
    s, p, d, g = (c.get(k) for k in ("stride", "padding", "dilation", "groups"))
    if c.get("transposed"):
        layout = [("NCW", "IOW"), ("NCHW", "IOHW"), ("NCDHW", "IODHW")][n - 1]
        y = (f"nn.conv{n}d_transpose({c.x()}, {c.x(1)}, strides={listed(s)}, padding={listed(p)}, output_padding={listed(c.get('output_padding'))}, "
             f'dilation={listed(d)}, groups={g}, data_layout="{layout[0]}", kernel_layout="{layout[1]}")')
    else:
        w = c.val(c.args[1]).shape
        y = (f"nn.conv{n}d({c.x()}, {c.x(1)}, strides={listed(s)}, padding={listed(p)}, dilation={listed(d)}, groups={g}, channels={w[0]}, "
             f"kernel_size={listed(w[2:])})")
    return f"nn.bias_add({y}, {c.x(2)})" if c.args[2] is not None else y


@rule("_native_batch_norm_legit_no_training", "_native_batch_norm_legit")
def batch_norm(c):
    if "no_stats" in str(c.target):
        x, t, n = c.x(), c.out(0).dtype, c.out(0).dim()
        axes = [k for k in range(n) if k != 1]
        mean = c.let(f"mean({x}, axis={listed(axes)}, keepdims=True)")
        scale = c.let(f"rsqrt(add(variance({x}, {mean}, axis={listed(axes)}, keepdims=True), {number(c.get('eps'), t)}))")
        y = f"multiply(subtract({x}, {mean}), {scale})"
        for how, i in (("multiply", 1), ("add", 2)):
            y = y if c.args[i] is None else f"{how}({y}, expand_dims({c.x(i)}, axis=1, num_newaxis={n - 2}))"
        return [c.result(y), mean, scale]
    given = [c.x(i) for i in (1, 2, 3, 4)] if c.args[1] is not None else None
    if not given or c.get("training"):
        raise Unsupported("batch norm in training")
    return [c.result(f"nn.batch_norm({c.x()}, {', '.join(given)}, epsilon={c.get('eps')}f).0")]


@rule("native_layer_norm")
def layer_norm(c):
    axes = list(range(-len(c.get("normalized_shape")), 0))
    x, t = c.x(), c.out(0).dtype
    mean = c.let(f"mean({x}, axis={listed(axes)}, keepdims=True)")
    scale = c.let(f"rsqrt(add(variance({x}, {mean}, axis={listed(axes)}, keepdims=True), {number(c.get('eps'), t)}))")
    y = f"multiply(subtract({x}, {mean}), {scale})"
    y = f"multiply({y}, {c.x(2)})" if c.get("weight") is not None else y
    y = f"add({y}, {c.x(3)})" if c.get("bias") is not None else y
    return [c.result(y), mean, scale]


@rule("native_group_norm")
def group_norm(c):
    t, channels = c.out(0).dtype, c.get("C")
    scale, shift = (c.x(i) if c.args[i] is not None else f'full({number(v, t)}, shape=[{channels}], dtype="{dtype(t)}")' for i, v in ((1, 1), (2, 0)))
    return [c.result(f"nn.group_norm({c.x()}, {scale}, {shift}, num_groups={c.get('group')}, epsilon={c.get('eps')}f)")]


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def pool(c):
    if c.get("divisor_override") is not None:
        raise Unsupported("a divisor of its own")
    most = "max" in str(c.target)
    n = len(c.get("kernel_size"))
    two = lambda v, other: list(v or other) * (n // len(v or other))  # noqa: E731
    k = c.get("kernel_size")
    s, p = two(c.get("stride"), k), two(c.get("padding"), [0])
    more = f", dilation={listed(two(c.get('dilation'), [1]))}" if most else f", count_include_pad={bool(c.get('count_include_pad'))}"
    y = f"nn.{'max' if most else 'avg'}_pool{n}d({c.x()}, pool_size={listed(k)}, strides={listed(s)}, padding={listed(p)}, ceil_mode={bool(c.get('ceil_mode'))}{more})"
    if not most:
        return y
    wanted = any(u.target is operator.getitem and u.args[1] == 1 and u.users for u in c.node.users)
    return [c.result(y)] + ([pool_places(c, n, k, s, p, two(c.get("dilation"), [1]))] if wanted else [])


def pool_places(c, n, k, s, p, d):
    """Where the greatest elements lie in their image: of a table of the places of every window the one that is greatest."""
    shape, out = c.known(c.args[0]), list(c.out(0).shape)
    axes = [np.arange(o)[:, None] * s[i] - p[i] + np.arange(k[i]) * d[i] for i, o in enumerate(out[-n:])]
    at, inside = np.zeros((1, 1), "int64"), np.ones((1, 1), bool)
    for i, a in enumerate(axes):
        extent = shape[len(shape) - n + i]
        ok = (a >= 0) & (a < extent)
        at = (at[:, None, :, None] * extent + a[None, :, None, :]).reshape(len(at) * len(a), -1)
        inside = (inside[:, None, :, None] & ok[None, :, None, :]).reshape(at.shape)
    table = c.table(np.where(inside, at, 0))
    flat = f"take(reshape({c.x()}, newshape={listed(shape[:-n] + [-1])}), {table}, axis={len(shape) - n})"
    least = number(-math.inf if c.out(0).dtype.is_floating_point else torch.iinfo(c.out(0).dtype).min, c.out(0).dtype)
    best = c.let(f'cast(argmax(where({c.table(inside)}, {flat}, {least}), axis=[-1]), dtype="int64")')
    return c.let(f'reshape(adv_index(({table}, arange(0i64, {len(at)}i64, 1i64, dtype="int64"), {best})), newshape={listed(out)})')


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive(c):
    size, most = c.get("output_size"), "max" in str(c.target)
    y = f"nn.adaptive_{'max' if most else 'avg'}_pool{len(size)}d({c.x()}, output_size={listed(size)})"
    return [c.result(y)] if most else y


@rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(c):
    """Rows are added up in their bags; a bag begins where its offset says, and of equal offsets the last one has the rows."""
    way, pad, t = c.get("mode"), c.get("padding_idx"), c.out(0).dtype
    offsets, sizes, zero = c.graph.as_type(c.args[2], torch.int64), list(c.out(0).shape), number(0, t)
    if c.get("include_last_offset"):
        offsets = f"strided_slice({offsets}, begin=[0], end=[-1], strides=[1])"
    bag = c.let(f'subtract(searchsorted({offsets}, arange(0i64, {c.extent(c.args[1], 0)}, 1i64, dtype="int64"), right=True, dtype="int64"), 1i64)')
    x = c.let(f'take({c.x()}, {c.x(1)}, axis=0, mode="wrap")')
    if c.get("per_sample_weights") is not None:
        x = c.let(f"multiply({x}, expand_dims({c.graph.arg(c.get('per_sample_weights'))}, axis=1))")
    there = "greater_equal(%s, 0i64)" % bag
    if pad is not None and pad >= 0:
        there = f'not_equal({c.x(1)}, cast({pad}, dtype="{dtype(c.val(c.args[1]).dtype)}"))'
    there, at = c.let(f'cast({there}, dtype="{dtype(t)}")'), f"expand_dims({bag}, axis=0)"
    count = c.let(f'expand_dims(scatter_nd({c.filled(zero, sizes[:1], t)}, {at}, {there}, mode="add"), axis=1)')
    if way == 2:
        least = number(-math.inf, t)
        x = f"where(expand_dims(greater({there}, {zero}), axis=1), {x}, {least})"
        y = f'scatter_nd({c.filled(least, sizes, t)}, {at}, {x}, mode="max")'
        return [c.result(f"where(greater({count}, {zero}), {y}, {zero})"), bag]
    y = c.let(f'scatter_nd({c.filled(zero, sizes, t)}, {at}, multiply({x}, expand_dims({there}, axis=1)), mode="add")')
    return [c.result(f"divide({y}, maximum({count}, {number(1, t)}))") if way == 1 else y, bag]


@rule("embedding_dense_backward")
def embedding_gradient(c):
    given, t, pad = c.known(c.args[0]), c.out().dtype, c.get("padding_idx")
    if c.get("scale_grad_by_freq"):
        raise Unsupported("a scale by frequency")
    at, g = c.let(f"reshape({c.x(1)}, newshape=[1, -1])"), f"reshape({c.x()}, newshape=[-1, {given[-1]}])"
    if pad is not None and pad >= 0:
        kept = f'not_equal(reshape({at}, newshape=[-1, 1]), cast({pad}, dtype="{dtype(c.val(c.args[1]).dtype)}"))'
        g = f"where({kept}, {g}, {number(0, t)})"
    return f'scatter_nd(zeros(shape={listed(c.out().shape)}, dtype="{dtype(t)}"), {at}, {g}, mode="add")'


@rule("embedding")
def embedding(c):
    return f'take({c.x()}, {c.x(1)}, axis=0, mode="wrap")'


# ---- shapes ------------------------------------------------------------------------------------------------------

@rule("view", "reshape", "_unsafe_view", "view_copy")
def view(c):
    sizes = c.shape(c.args[1], c.val(c.args[0]).shape)
    if sizes.count(-1) < 2:
        return f"reshape({c.x()}, newshape={listed(sizes)}{', allowzero=True' if 0 in c.args[1] else ''})"
    known = listed(max(d, 0) for d in sizes)  # what is known of the shape stays known
    return f"reshape(dyn.reshape({c.x()}, {c.extents(c.args[1])}, newshape=None), newshape={known})"


@rule("permute", "permute_copy")
def permute(c):
    return f"transpose({c.x()}, axes={listed(c.args[1])})"


@rule("transpose", "t")
def transpose(c):
    rank = c.out().dim()
    axes = list(range(rank))
    a, b = (c.args[1] % rank, c.args[2] % rank) if len(c.args) > 1 else (0, 1)
    axes[a], axes[b] = b, a
    return f"transpose({c.x()}, axes={listed(axes)})"


@rule("unsqueeze", "unsqueeze_copy")
def unsqueeze(c):
    return f"expand_dims({c.x()}, axis={c.args[1] % c.out().dim()})"


@rule("squeeze", "squeeze_copy")
def squeeze(c):
    v = c.val(c.args[0])
    dims = c.args[1] if len(c.args) > 1 else range(v.dim())
    dims = [d % v.dim() for d in ([dims] if isinstance(dims, int) else dims) if v.shape[d] == 1]
    return f"squeeze({c.x()}, axis={listed(dims)})" if dims else c.x()


@rule("expand", "expand_copy")
def expand(c):
    v, out = c.val(c.args[0]), c.out()
    if tuple(map(str, v.shape)) == tuple(map(str, out.shape)):
        return c.x()
    if all(isinstance(d, int) for d in out.shape):
        return f"broadcast_to({c.x()}, shape={listed(out.shape)})"
    extents = ", ".join(c.graph.arg(a) if not (isinstance(a, int) and a == -1) else c.extent(c.args[0], i - out.dim() + v.dim()) for i, a in enumerate(c.args[1]))
    return f'add({c.x()}, dyn.zeros(stack(({extents},), axis=0), shape=None, dtype="{dtype(out.dtype)}"))'


@rule("as_strided")
def as_strided(c):
    """The elements in the order in which they lie in memory, and of those the ones that the strides name."""
    v, out = c.val(c.args[0]), c.known(c.args[0]) and c.out()
    order = sorted(range(v.dim()), key=lambda k: (-v.stride(k), k))
    dense = 1
    for k in reversed(order):
        if v.shape[k] != 1 and v.stride(k) != dense:
            raise Unsupported("a view of a view")
        dense *= v.shape[k]
    at = np.full((1,) * out.dim(), (c.get("storage_offset") or 0) - v.storage_offset(), "int64")
    for k, (n, step) in enumerate(zip(out.shape, c.args[2])):
        at = at + (np.arange(n) * step).reshape([-1 if i == k else 1 for i in range(out.dim())])
    flat = f"reshape({turned(c.x(), order)}, newshape=[-1])"
    if (at.reshape(-1) == np.arange(v.numel())).all() if at.size == v.numel() else False:
        return f"reshape({flat}, newshape={listed(out.shape)})"
    return f"take({flat}, {c.table(at)}, axis=0)"


@rule("unfold")
def unfold(c):
    rank, axis = c.val(c.args[0]).dim(), c.get("dimension") % c.val(c.args[0]).dim()
    x = turned(c.x(), [k for k in range(rank) if k != axis] + [axis])
    y = f"sliding_window({x}, axis={rank - 1}, window_shape=[{c.get('size')}], strides=[{c.get('step')}])"
    return turned(y, [*range(axis), rank - 1, *range(axis, rank - 1), rank])


@rule("col2im")
def col2im(c):
    """Columns of blocks, added where the blocks lie; what lies in the padding goes to one place more."""
    size, block, d, p, s = (c.get(k) for k in ("output_size", "kernel_size", "dilation", "padding", "stride"))
    counts = [(size[i] + 2 * p[i] - d[i] * (block[i] - 1) - 1) // s[i] + 1 for i in (0, 1)]
    y, x = (np.arange(block[i])[:, None] * d[i] + np.arange(counts[i]) * s[i] - p[i] for i in (0, 1))
    y, x = y[:, None, :, None], x[None, :, None, :]
    inside, all_of = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1]), size[0] * size[1]
    table = c.table(np.where(inside, y * size[1] + x, all_of).reshape(1, -1))
    shape = c.known(c.args[0])
    lead, t = shape[:-2], c.out().dtype
    channels = shape[-2] // (block[0] * block[1])
    rows = math.prod(lead) * channels
    z = f'scatter_nd(zeros(shape=[{all_of + 1}, {rows}], dtype="{dtype(t)}"), {table}, transpose(reshape({c.x()}, newshape=[{rows}, -1]), axes=[1, 0]), mode="add")'
    z = f"transpose(strided_slice({z}, begin=[0], end=[{all_of}], strides=[1], axes=[0]), axes=[1, 0])"
    return f"reshape({z}, newshape={listed([*lead, channels, *size])})"


@rule("tril_indices", "triu_indices")
def triangle(c):
    low = "tril" in str(c.target)
    make = torch.tril_indices if low else torch.triu_indices
    return c.table(make(c.args[0], c.args[1], c.get("offset") or 0).to(c.out().dtype))


@rule("_cdist_forward", "_pdist_forward")
def distances(c):
    p, t = float(c.get("p")), c.out().dtype
    if "pdist" in str(c.target):
        a, b = np.triu_indices(c.known(c.args[0])[0], 1)
        difference = f"subtract(take({c.x()}, {c.table(a)}, axis=0), take({c.x()}, {c.table(b)}, axis=0))"
    else:
        difference = f"subtract(expand_dims({c.x()}, axis=-2), expand_dims({c.x(1)}, axis=-3))"
    x = c.let(f"abs({difference})")
    if p == math.inf:
        return f"max({x}, axis=[-1])"
    if p == 0:
        return f"sum(cast(not_equal({x}, {number(0, t)}), dtype=\"{dtype(t)}\"), axis=[-1])"
    if p == 1:
        return f"sum({x}, axis=[-1])"
    if p == 2:
        return f"sqrt(sum(multiply({x}, {x}), axis=[-1]))"
    return f"power(sum(power({x}, {number(p, t)}), axis=[-1]), {number(1 / p, t)})"


@rule("_trilinear")
def trilinear(c):
    xs = []
    for i in range(3):
        x = c.x(i)
        for k in sorted(c.args[3 + i]):
            x = f"expand_dims({x}, axis={k})"
        xs.append(x)
    return f"sum(multiply(multiply({xs[0]}, {xs[1]}), {xs[2]}), axis={listed(c.args[6])})"


@rule("addmv", "mv", "dot", "vdot", "addbmm", "baddbmm")
def products(c):
    name, t = str(c.target).split(".")[1], c.out().dtype
    a, b = (c.x(0), c.x(1)) if name in ("mv", "dot", "vdot") else (c.x(1), c.x(2))
    if name == "baddbmm":
        y = f"nn.batch_matmul({a}, {b}, transpose_a=False, transpose_b=False)"
    elif name == "addbmm":
        y = f"sum(nn.batch_matmul({a}, {b}, transpose_a=False, transpose_b=False), axis=[0])"
    else:
        y = f"sum(multiply({a}, {b}), axis=[-1])"
    if name in ("mv", "dot", "vdot"):
        return y
    y = y if c.get("alpha") in (None, 1) else f"multiply({number(c.get('alpha'), t)}, {y})"
    x = c.x() if c.get("beta") in (None, 1) else f"multiply({number(c.get('beta'), t)}, {c.x()})"
    return f"add({y}, {x})"


@rule("rrelu_with_noise_functional", "rrelu_with_noise")
def rrelu(c):
    if c.get("training"):
        raise Unsupported("random numbers")
    slope = (c.get("lower") + c.get("upper")) / 2
    return [c.result(f"nn.leaky_relu({c.x()}, alpha={slope}f)"), c.x(1)]


@rule("empty", "empty_strided", "new_empty", "empty_like", "new_empty_strided")
def empty(c):
    """What nobody has written yet may be anything: zeros."""
    return f'zeros(shape={listed(c.out().shape)}, dtype="{dtype(c.out().dtype)}")'


@rule("rand", "randn", "randperm", "randint", "rand_like", "randn_like", "bernoulli", "multinomial", "normal", "exponential", "uniform")
def random_numbers(c):
    raise Unsupported("random numbers, which come out otherwise everywhere")


@rule("native_dropout")
def native_dropout(c):
    if c.get("train"):
        raise Unsupported("random numbers, which come out otherwise everywhere")
    return [c.x(), f'full(True, shape={listed(c.out(0).shape)}, dtype="bool")']


@rule("sym_numel")
def sym_numel(c):
    return f'prod(shape_of({c.x()}, dtype="int64"))'


@rule("repeat")
def repeat(c):
    if not all(isinstance(r, int) for r in c.args[1]):
        return f"dyn.tile({c.x()}, {c.extents(c.args[1])}, reps=None)"
    return f"tile({c.x()}, reps={listed(c.args[1])})"


@rule("flip")
def flip(c):
    x = c.x()
    for d in c.args[1]:
        x = f"reverse({x}, axis={d})"
    return x


@rule("diagonal")
def diagonal(c):
    """Of rows and columns put last: the elements whose places agree."""
    v, rank = c.val(c.args[0]), c.val(c.args[0]).dim()
    a, b, k, n = c.get("dim1") % rank, c.get("dim2") % rank, c.get("offset"), c.out().shape[-1]
    if not all(isinstance(d, int) for d in v.shape):
        raise Unsupported("extents that are known only at run time")
    x = f"transpose({c.x()}, axes={listed([a, b] + [i for i in range(rank) if i not in (a, b)])})"
    rows, columns = (c.let(f'arange({start}i64, {start + n}i64, 1i64, dtype="int64")') for start in (max(-k, 0), max(k, 0)))
    x = f"adv_index(({x}, {rows}, {columns}))"
    return f"transpose({x}, axes={listed(list(range(1, rank - 1)) + [0])})" if rank > 2 else x


@rule("cat")
def cat(c):
    xs = [c.graph.arg(a) for a in c.args[0] if c.val(a).dim() > 0 and (c.val(a).dim() > 1 or c.val(a).numel() != 0)]
    return f"concatenate(({', '.join(xs)},), axis={c.args[1] if len(c.args) > 1 else 0})"


@rule("stack")
def stack(c):
    return f"stack(({', '.join(map(c.graph.arg, c.args[0]))},), axis={c.args[1] if len(c.args) > 1 else 0})"


@rule("slice", "slice_copy")
def slice_(c):
    ends = [c.get("start") or 0, 2**31 - 1 if c.get("end") is None else c.get("end"), c.get("step")]
    if not all(isinstance(v, int) for v in ends):
        axis, rank = c.get("dim") % c.out().dim(), c.out().dim()
        sides = [[0] * rank, [c.extent(c.args[0], k) for k in range(rank)], [1] * rank]
        for side, v, was in zip(sides, ends, (c.get("start"), c.get("end"), 1)):
            side[axis] = side[axis] if was is None else c.graph.arg(v)
        sides = [f"stack(({', '.join(v if isinstance(v, str) else f'{v}i64' for v in side)},), axis=0)" for side in sides]
        return f"dyn.strided_slice({c.x()}, {', '.join(sides)}, begin=None, end=None, strides=None, axes=None)"
    begin, end, step = ends[0], min(ends[1], 2**31 - 1), ends[2]
    return f"strided_slice({c.x()}, begin=[{begin}], end=[{end}], strides=[{step}], axes=[{c.get('dim') % c.out().dim()}])"


@rule("select", "select_copy")
def select(c):
    rank = c.val(c.args[0]).dim()
    return f'take({c.x()}, {c.graph.arg(c.args[2])}, axis={c.args[1] % rank}, mode="wrap")'


def places(c, given, a):
    """({axis: the text of its index, counted from the front}, how many axes those have together, where their axes stand in the result)."""
    v, axis, out, ranks = c.val(a), 0, {}, [0]
    for i in given:
        if i is None:
            axis += 1
            continue
        t = c.val(i).dtype
        if t == torch.bool:
            at = c.let(f'cast(argwhere({c.graph.arg(i)}), dtype="int64")')
            for k in range(c.val(i).dim()):
                out[axis + k] = f"take({at}, {k}i64, axis=1)"
            axis += c.val(i).dim()
            ranks.append(1)
            continue
        text, n = c.graph.arg(i), v.shape[axis]
        n = f'cast({n if isinstance(n, int) else c.extent(a, axis)}, dtype="{dtype(t)}")'
        out[axis] = c.let(f'where(less({text}, cast(0, dtype="{dtype(t)}")), add({text}, {n}), {text})')
        ranks.append(c.val(i).dim())
        axis += 1
    axes = list(out)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    return out, max(ranks), axes[0] if together else 0


def turned(text, axes):
    return text if list(axes) == sorted(axes) else f"transpose({text}, axes={listed(axes)})"


@rule("index")
def index(c):
    """The axes with an index go in front; those of the indices then to where the first one was."""
    given, rank = c.args[1], c.val(c.args[0]).dim()
    axis = next(k for k, i in enumerate(given) if i is not None)
    if sum(i is not None for i in given) == 1 and c.val(given[axis]).dtype != torch.bool:
        return f'take({c.x()}, {c.graph.arg(given[axis])}, axis={axis}, mode="wrap")'
    at, n, first = places(c, given, c.args[0])
    rest = [k for k in range(rank) if k not in at]
    x = f"adv_index(({turned(c.x(), [*at, *rest])}, {', '.join(at.values())}))"
    return turned(x, [*range(n, n + first), *range(n), *range(n + first, n + len(rest))])


@rule("index_put", "_unsafe_index_put")
def index_put(c):
    v, given, values = c.val(c.args[0]), c.args[1], c.args[2]
    flags = [i for i in given if i is not None and c.val(i).dtype == torch.bool]
    if flags and len(given) == 1 and c.val(values).dim() == 0 and not c.get("accumulate"):
        flag, rest = c.graph.arg(flags[0]), v.dim() - c.val(flags[0]).dim()
        return f"where({flag if not rest else f'expand_dims({flag}, axis=-1, num_newaxis={rest})'}, {c.graph.arg(values)}, {c.x()})"
    at, n, first = places(c, given, c.args[0])
    rest = [k for k in range(v.dim()) if k not in at]
    order, text = [*at, *rest], c.graph.arg(values)
    if flags:  # in the order of flags, as many as there are
        if len(flags) != sum(i is not None for i in given) or c.val(values).dim() != n + len(rest):
            raise Unsupported("values in the order of flags")
        at = list(at.values())
        text = turned(text, [*range(first, first + n), *range(first), *range(first + n, n + len(rest))])
    else:
        shape = list(torch.broadcast_shapes(*[c.val(i).shape for i in given if i is not None]))
        indices = [i for i in given if i is not None]
        at = [c.broadcast(text_of, i, shape) for text_of, i in zip(at.values(), indices)]
        outside = [v.shape[k] for k in rest]
        text = c.broadcast(text, values, outside[:first] + shape + outside[first:])
        text = turned(text, [*range(first, first + n), *range(first), *range(first + n, n + len(rest))])
    y = f'scatter_nd({turned(c.x(), order)}, stack(({", ".join(at)},), axis=0), {text}, mode="{"add" if c.get("accumulate") else "update"}")'
    return turned(y, [order.index(k) for k in range(v.dim())])


@rule("nonzero")
def nonzero(c):
    return f'cast(argwhere({c.x()}), dtype="int64")'


@rule("scatter", "scatter_add", "scatter_reduce")
def scatter(c):
    way = {None: "add" if "add" in str(c.target) else "update", "sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add",
           "multiply": "mul"}.get(c.get("reduce"))
    if not way or c.get("include_self") is False:
        raise Unsupported(f"the reduction `{c.get('reduce')}`")
    t, updates = c.out().dtype, c.args[3]
    if not isinstance(updates, torch.fx.Node):
        updates = c.filled(number(updates, t), list(c.val(c.args[2]).shape), t)
    else:
        sizes, same = c.val(c.args[2]).shape, str(c.val(c.args[2]).shape) == str(c.val(updates).shape)
        updates = c.graph.arg(updates)
        if not same and not all(isinstance(d, int) for d in sizes):
            whole = f'(shape=[{len(sizes)}], dtype="int64")'
            updates = (f"dyn.strided_slice({updates}, zeros{whole}, {c.sizes(sizes)}, ones{whole}, begin=None, end=None, strides=None, axes=None)")
        elif not same:
            updates = f"strided_slice({updates}, begin={[0] * len(sizes)}, end={listed(sizes)}, strides=None)"
    return f'scatter_elements({c.x()}, {c.x(2)}, {updates}, axis={c.get("dim") % c.out().dim()}, reduction="{way}")'


def put(c, start, end, step, what):
    """The part of an axis replaced."""
    v, axis = c.val(c.args[0]), c.get("dim") % c.val(c.args[0]).dim()
    if not all(isinstance(d, int) for d in (*v.shape, start, end, step)):
        raise Unsupported("bounds that are known only at run time")
    sides = [[0] * v.dim(), list(v.shape), [1] * v.dim()]
    for side, value in zip(sides, (start, end, step)):
        side[axis] = value
    sides = [f"stack(({', '.join(f'{k}i64' for k in side)},), axis=0)" for side in sides]
    return f"strided_set({c.x()}, {what}, {', '.join(sides)})"


@rule("select_scatter")
def select_scatter(c):
    v = c.val(c.args[0])
    at = c.get("index") % v.shape[c.get("dim")]
    return put(c, at, at + 1, 1, f"expand_dims({c.x(1)}, axis={c.get('dim') % v.dim()})")


@rule("slice_scatter")
def slice_scatter(c):
    n = c.val(c.args[0]).shape[c.get("dim")]
    bound = lambda k: max(0, min(k + n if k < 0 else k, n))  # noqa: E731
    return put(c, bound(c.get("start") or 0), n if c.get("end") is None else bound(c.get("end")), c.get("step"), c.x(1))


@rule("index_select")
def index_select(c):
    return f'take({c.x()}, {c.x(2)}, axis={c.args[1]}, mode="wrap")'


@rule("gather")
def gather(c):
    return f"gather({c.x()}, {c.x(2)}, axis={c.args[1]})"


@rule("split_with_sizes", "split", "split_with_sizes_copy")
def split(c):
    sizes, axis = c.args[1], c.args[2] if len(c.args) > 2 else 0
    parts = [v.shape[axis] for v in c.out()] if isinstance(sizes, int) else sizes
    cuts = [int(v) for v in np.cumsum(parts)[:-1]]
    return f"split({c.x()}, indices_or_sections={cuts}, axis={axis})" if cuts else [c.x()]


@rule("constant_pad_nd")
def pad(c):
    rank, widths = c.out().dim(), list(c.args[1])
    pairs = [[0, 0]] * (rank - len(widths) // 2) + [widths[i:i + 2] for i in range(len(widths) - 2, -1, -2)]
    value, t = c.args[2] if len(c.args) > 2 else 0, c.out().dtype
    if t.is_complex:
        if value:
            raise Unsupported("a complex number that stands in the program")
        pairs, t = pairs + [[0, 0]], torch.float32
    return f"nn.pad({c.x()}, {number(value, t)}, pad_width={pairs})"


@rule("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad2d", "replication_pad3d")
def mirror(c):
    rank, widths = c.out().dim(), list(c.args[1])
    pairs = [[0, 0]] * (rank - len(widths) // 2) + [widths[i:i + 2] for i in range(len(widths) - 2, -1, -2)]
    return f'nn.pad({c.x()}, {number(0, c.out().dtype)}, pad_width={pairs}, pad_mode="{"reflect" if "reflection" in str(c.target) else "edge"}")'


@rule("grid_sampler_2d")
def grid_sample(c):
    way = ["bilinear", "nearest", "bicubic"][c.get("interpolation_mode")]
    return (f'image.grid_sample({c.x()}, transpose({c.x(1)}, axes=[0, 3, 1, 2]), method="{way}", '
            f'padding_mode="{["zeros", "border", "reflection"][c.get("padding_mode")]}", align_corners={bool(c.get("align_corners"))})')


@rule("_local_scalar_dense", "item")
def item(c):
    t = torch.float32 if isinstance(c.out(), (float, torch.SymFloat)) else torch.int64
    return f'cast(reshape({c.x()}, newshape=[]), dtype="{dtype(t)}")'


@rule("copy", "fill")
def copy(c):
    text = c.cast(1, c.out().dtype)
    return c.broadcast(text, c.args[1], list(c.out().shape)) if isinstance(c.args[1], torch.fx.Node) else c.filled(text, list(c.out().shape), c.out().dtype)


@rule("sym_size")
def sym_size(c):
    return f'take(shape_of({c.x()}, dtype="int64"), {c.args[1]}i64, axis=0)'


@rule("upsample_bilinear2d", "upsample_nearest2d")
def upsample(c):
    linear = "bilinear" in str(c.target)
    way = ("align_corners" if c.get("align_corners") else "half_pixel") if linear else "asymmetric"
    return (f'image.resize2d({c.x()}, size={listed(c.out().shape[2:])}, roi=[0f, 0f, 0f, 0f], method="{"linear" if linear else "nearest_neighbor"}", '
            f'coordinate_transformation_mode="{way}", rounding_method="floor")')


# ---- spectra: complex numbers are pairs along the last axis ----------------------------------------------------------

def parts(c, i):
    """Real and imaginary parts."""
    x = c.let(c.x(i)) if not c.x(i).startswith("%") else c.x(i)
    return [f"take({x}, {k}i64, axis=-1)" for k in (0, 1)]


def pair(c, real, imaginary):
    return f"stack(({real}, {imaginary}), axis=-1)"


def along(c, x, table, shape, axis):
    """The product along an axis with a table of as many rows."""
    order = [k for k in range(len(shape)) if k != axis] + [axis]
    flat = f"reshape({turned(x, order)}, newshape=[-1, {shape[axis]}])"
    sizes = [shape[k] if isinstance(shape[k], int) else -1 for k in order[:-1]] + [table.shape[1]]
    if sizes.count(-1) > 1 or not isinstance(shape[axis], int):
        raise Unsupported("several extents that are known only at run time")
    y = f"reshape(nn.matmul({flat}, {c.table(table.astype('float32'))}, units=None), newshape={listed(sizes)})"
    return turned(y, [order.index(k) for k in range(len(shape))])


@rule("_fft_r2c", "_fft_c2c", "_fft_c2r")
def spectrum(c):
    kind, dims = str(c.target).split(".")[1][-3:], [d % len(c.val(c.args[0]).shape) for d in c.get("dim")]
    shape, out = list(c.val(c.args[0]).shape), list(c.out().shape)
    if (c.val(c.args[0]).dtype in (torch.float64, torch.complex128)):
        raise Unsupported("spectra of float64")
    forward = kind == "r2c" or (kind == "c2c" and c.get("forward"))
    real, imaginary = (c.x(), None) if kind == "r2c" else parts(c, 0)
    for d in (reversed(dims) if kind == "r2c" else dims):
        n = out[d] if kind == "c2r" and d == dims[-1] else shape[d]
        last = d == dims[-1]
        if kind == "c2r" and last:
            k = np.arange(shape[d])[:, None] * np.arange(n)
            weight = np.where((np.arange(shape[d]) == 0) | (2 * np.arange(shape[d]) == n), 1, 2)[:, None]
            angle = 2 * np.pi * (k % n) / n
            a, b = along(c, real, weight * np.cos(angle), shape, d), along(c, imaginary, weight * np.sin(angle), shape, d)
            real, imaginary = c.let(f"subtract({a}, {b})"), None
        else:
            m = out[d] if kind == "r2c" and last else n
            angle = (-2 if forward else 2) * np.pi * (np.arange(n)[:, None] * np.arange(m) % n) / n
            cos, sin = np.cos(angle), np.sin(angle)
            a, b = c.let(along(c, real, cos, shape, d)), c.let(along(c, real, sin, shape, d))
            if imaginary is not None:
                a = c.let(f"subtract({a}, {along(c, imaginary, sin, shape, d)})")
                b = c.let(f"add({b}, {along(c, imaginary, cos, shape, d)})")
            real, imaginary = a, b
        shape[d] = out[d]
    count = math.prod((out if kind == "c2r" else c.val(c.args[0]).shape)[d] for d in dims)
    scale = {0: 1, 1: count**-0.5, 2: 1 / count}[c.get("normalization")]
    y = real if imaginary is None else pair(c, real, imaginary)
    return y if scale == 1 else f"multiply({y}, {number(scale, torch.float32)})"


@rule("view_as_real", "view_as_complex")
def reinterpreted(c):
    return c.x()


@rule("complex")
def complex_of(c):
    return pair(c, c.x(), c.x(1))


@rule("real", "imag")
def part_of(c):
    return parts(c, 0)["imag" in str(c.target)]


def complex_abs(c):
    return f"sqrt(sum(multiply({c.x()}, {c.x()}), axis=[-1]))"


def complex_conj(c):
    real, imaginary = parts(c, 0)
    return pair(c, real, f"negative({imaginary})")


def complex_mul(c):
    if not all(isinstance(a, torch.fx.Node) and is_complex(a) for a in c.args[:2]):
        i = 0 if isinstance(c.args[0], torch.fx.Node) and is_complex(c.args[0]) else 1
        other = c.args[1 - i]
        if not isinstance(other, torch.fx.Node):
            if isinstance(other, complex):
                raise Unsupported("a complex number that stands in the program")
            return f"multiply({c.x(i)}, {number(other, torch.float32)})"
        return f"multiply({c.x(i)}, expand_dims({c.cast(1 - i, torch.float32)}, axis=-1))"
    (a, b), (p, q) = parts(c, 0), parts(c, 1)
    return pair(c, f"subtract(multiply({a}, {p}), multiply({b}, {q}))", f"add(multiply({a}, {q}), multiply({b}, {p}))")


def complex_sum(c):
    if not all(isinstance(a, torch.fx.Node) and is_complex(a) for a in c.args[:2]) or c.get("alpha") not in (None, 1):
        raise Unsupported("complex numbers beside real ones")
    return f"{'subtract' if 'sub' in str(c.target) else 'add'}({c.x()}, {c.x(1)})"


def complex_permute(c):
    rank = c.out().dim()
    if "permute" in str(c.target):
        axes = [a % rank for a in c.args[1]]
    else:
        axes = list(range(rank))
        a, b = c.args[1] % rank, c.args[2] % rank
        axes[a], axes[b] = b, a
    return f"transpose({c.x()}, axes={listed(axes + [rank])})"


def complex_view(c):
    return f"reshape({c.x()}, newshape={listed([d for d in c.out().shape] + [2])})"


# What stands for a rule where complex numbers are about; the others do not mind an axis more.
COMPLEX = {"abs": complex_abs, "_conj": complex_conj, "_conj_physical": complex_conj, "mul": complex_mul, "add": complex_sum, "sub": complex_sum, "permute": complex_permute,
           "transpose": complex_permute, "view": complex_view, "reshape": complex_view}
PAIRED = {pad, spectrum, reinterpreted, complex_of, part_of, same, unsqueeze, slice_, select, *COMPLEX.values()}


# ---- integers of a scale (torch.ops.quantized_decomposed) --------------------------------------------------------

@rule("quantize_per_tensor", "quantize_per_channel")
def quantize(c):
    """Halves go to the even neighbour, as PyTorch has it."""
    scale, zero, axis = scale_of(c)
    turned = c.let(f"divide({c.x()}, {scale})")
    even = (f"where(equal(abs(subtract({turned}, trunc({turned}))), 0.5f), multiply(2f, round(multiply({turned}, 0.5f))), round({turned}))")
    return f'cast(clip(add({even}, cast({zero}, dtype="float32")), a_min={c.get("quant_min")}f, a_max={c.get("quant_max")}f), dtype="{dtype(c.out().dtype)}")'


@rule("dequantize_per_tensor", "dequantize_per_channel")
def dequantize(c):
    scale, zero, axis = scale_of(c, flat=True)
    return f'qnn.dequantize({c.x()}, {scale}, {zero}, axis={axis}, out_dtype="{dtype(c.out().dtype)}")'


def scale_of(c, flat=False):
    """Scale and zero point as Relay has them, and their axis; as they stand beside the numbers unless `flat`."""
    scale, zero, axis = c.get("scale"), c.get("zero_point"), c.get("axis")
    if axis is None:
        values = [(scale, "float32"), (zero, "int32")]
        return *[f'cast({c.graph.arg(v)}, dtype="{t}")' if isinstance(v, torch.fx.Node) else number(v, getattr(torch, t)) for v, t in values], -1
    rank = c.val(c.args[0]).dim()
    behind = rank - 1 - axis % rank
    out = [f'cast({c.graph.arg(v)}, dtype="{t}")' for v, t in ((c.get("scales"), "float32"), (c.get("zero_points"), "int32"))]
    return *[v if flat or not behind else f"expand_dims({v}, axis=1, num_newaxis={behind})" for v in out], axis


# ---- control flow ------------------------------------------------------------------------------------------------

def inner(c, node, texts):
    """A graph of this one as lines and results, its inputs being those texts."""
    graph = Graph(c.graph.writer, getattr(c.graph.module, node.target))
    for p, text in zip([n for n in graph.module.graph.nodes if n.op == "placeholder"], texts):
        graph.text[p] = text
    out = graph.run()
    out = list(out) if isinstance(out, (tuple, list)) else [out]
    return graph.lines, [graph.arg(v) for v in out]


def tuple_of(texts):
    return f"({', '.join(texts)},)" if len(texts) == 1 else f"({', '.join(texts)})"


@rule("cond")
def cond(c):
    flag, yes, no, given = c.args
    branches = []
    for g in (yes, no):
        lines, out = inner(c, g, [c.graph.arg(a) for a in given])
        branches.append("\n".join(lines) + "\n" + tuple_of(out))
    flag = f"reshape({c.graph.arg(flag)}, newshape=[])" if isinstance(c.val(flag), torch.Tensor) else c.graph.arg(flag)
    return f"if ({flag}) {{\n{branches[0]}\n}} else {{\n{branches[1]}\n}}"


@rule("while_loop")
def while_loop(c):
    test, body, carried, more = c.args[:4]
    name = c.graph.writer.name(c.node.name + "_turns")
    params = [f"%{c.graph.writer.name('carried')}" for _ in carried]
    fixed = [c.graph.arg(a) for a in more]
    types = [c.graph.type(c.val(a)) for a in carried]
    test_lines, flag = inner(c, test, params + fixed)
    lines, out = inner(c, body, params + fixed)
    head = ", ".join(f"{p}: {t}" for p, t in zip(params, types))
    result = tuple_of(types)
    c.graph.lines.append(f"  let %{name} = fn ({head}) -> {result} {{\n" + "\n".join(test_lines) + f"\n  if (reshape({flag[0]}, newshape=[])) {{\n" +
                         "\n".join(lines) + f"\n  %{name}({', '.join(out)})\n}} else {{\n{tuple_of(params)}\n}}\n}};")
    return f"%{name}({', '.join(c.graph.arg(a) for a in carried)})"


@rule("scan")
def scan(c):
    combine, init, xs, more = c.args[:4]
    graph, writer, out = c.graph, c.graph.writer, c.out()
    turns = c.val(xs[0]).shape[0]
    if not isinstance(turns, int):
        raise Unsupported("a number of turns that is known only at run time")
    name, turn = writer.name(c.node.name + "_turns"), f"%{writer.name('turn')}"
    carried = [f"%{writer.name('carried')}" for _ in init]
    rows = [f"%{writer.name('rows')}" for _ in out[len(init):]]
    slices = [f"%{writer.name('slice')}" for _ in xs]
    lines, results = inner(c, combine, carried + slices + [graph.arg(a) for a in more])
    lines = [f'  let {s} = take({graph.arg(x)}, {turn}, axis=0, mode="wrap");' for s, x in zip(slices, xs)] + lines
    written = [f'scatter_nd({r}, reshape({turn}, newshape=[1, 1]), expand_dims({y}, axis=0), mode="update")' for r, y in zip(rows, results[len(init):])]
    types = [graph.type(v) for v in out]
    head = ", ".join(f"{p}: {t}" for p, t in zip(carried + rows, types))
    graph.lines.append(f"  let %{name} = fn ({turn}: int64, {head}) -> {tuple_of(types)} {{\n  if (less({turn}, {turns}i64)) {{\n" + "\n".join(lines) +
                       f"\n  %{name}({', '.join([f'add({turn}, 1i64)'] + results[:len(init)] + written)})\n}} else {{\n"
                       f"{tuple_of(carried + rows)}\n}}\n}};")
    zeros = [f'zeros(shape={listed(v.shape)}, dtype="{dtype(v.dtype)}")' for v in out[len(init):]]
    return f"%{name}({', '.join(['0i64'] + [graph.arg(a) for a in init] + zeros)})"


# ---- programs ----------------------------------------------------------------------------------------------------

def path_of(node):
    """`layer1.0.conv1`"""
    stack = node.meta.get("nn_module_stack")
    path = list(stack.values())[-1][0] if stack else ""
    return "" if path.startswith("empty_nn_module_stack") else path


class Writer:
    def __init__(self):
        self.taken, self.params, self.weights, self.symbols, self.refused = set(), [], {}, {}, set()
        self.names, self.values, self.modules, self.types = [], [], {}, {}

    def count_modules(self, graph_module):
        for part in [graph_module, *(m for m in graph_module.children() if isinstance(m, torch.fx.GraphModule))]:
            for node in part.graph.nodes:
                if node.op == "call_function" and node.target is not operator.getitem:
                    self.modules[path_of(node)] = self.modules.get(path_of(node), 0) + 1

    def title(self, node):
        """The module that the node stands in, and what it does there unless that is all that the module does, or what it is called after."""
        own = node.name.replace("empty_nn_module_stack_from_metadata_hook_", "")
        path, does = path_of(node), re.sub(r"_\d+$", "", own).strip("_")
        if not path:
            return own
        return path if self.modules.get(path) == 1 or path.split(".")[-1] == does else f"{path}.{does}"

    def value(self, node):
        title = self.title(node)
        name = self.name(title)
        if name != title:
            self.values.append(f"{name} = {title}")
        return name

    def name(self, name):
        name = re.sub(r"\W+", "_", name).strip("_") or "v"
        name = name if name[0].isalpha() else "v_" + name
        found, k = name, 0
        while found in self.taken:
            k += 1
            found = f"{name}_{k}"
        self.taken.add(found)
        return found

    def extent(self, d):
        if isinstance(d, int) or re.fullmatch(r"\d+", str(d)):
            return str(d)
        if not re.fullmatch(r"\w+", str(d)):
            return "?"
        return f"meta[tir.SizeVar][{self.symbols.setdefault(str(d), len(self.symbols))}]"

    def weight(self, target, tensor):
        name = self.name(target)
        value = tensor.detach().contiguous()
        value = torch.view_as_real(value.resolve_conj()).contiguous() if value.dtype.is_complex else value
        self.weights[name] = value.numpy()
        self.names.append(target)
        self.types[name] = Graph(self, None).type(value)
        self.params.append(f"%{name}: {self.types[name]}")
        return f"%{name}"

    def metadata(self):
        if not self.symbols:
            return ""
        nodes = [{"type_key": ""}, {"type_key": "Map", "keys": ["tir.SizeVar"], "data": [2]},
                 {"type_key": "Array", "data": [3 + k for k in range(len(self.symbols))]}]
        nodes += [{"type_key": "tir.SizeVar", "attrs": {"dtype": "int64", "name": s, "span": "0"}} for s in self.symbols]
        return "#[metadata]\n" + json.dumps({"root": 1, "nodes": nodes, "b64ndarrays": [], "attrs": {"tvm_version": "0.9.0"}}) + "\n"


# ---- modules that repeat -----------------------------------------------------------------------------------------

MENTION = re.compile(r"%([A-Za-z_]\w*)")
LINES_LEAST = 3


def calls_of(graph):
    """(path, class of the module, first line, line behind) for each call of a module that takes some lines in a row."""
    found, open_ = [], {}
    for i, node in enumerate([*graph.makers, None]):
        stack = {} if node is None else {path: kind for path, kind in node.meta.get("nn_module_stack", {}).values() if path}
        for path in [p for p in open_ if p not in stack]:
            kind, first = open_.pop(path)
            if i - first >= LINES_LEAST:
                found.append((path, kind, first, i))
        for path, kind in stack.items():
            open_.setdefault(path, (kind if isinstance(kind, str) else kind.__name__, i))
    return found


class Block:
    """Some lines as the body of a function."""

    def __init__(self, writer, lines, first, end, uses, path):
        self.first, self.end = first, end
        made = [MENTION.search(line).group(1) for line in lines[first:end]]
        self.params, self.results, own = [], [n for n in made if any(not first <= i < end for i in uses[n])], set(made)
        for line in lines[first:end]:
            self.params += [n for n in MENTION.findall(line) if n not in own and n not in self.params]
        self.types = [writer.types.get(n, "?") for n in self.params]
        order = {n: f"%{k}" for k, n in enumerate(self.params + made)}
        text = "\n".join(lines[first:end])
        self.key = (MENTION.sub(lambda m: order[m.group(1)], text), *self.types, [order[n] for n in self.results] == [order[made[-1]]])
        self.ok = self.results == made[-1:] and not any("?" in t or "meta[" in t for t in self.types)
        # What the module calls a value is called so in the function, and what comes from elsewhere x; the inputs' names stay theirs.
        prefix, names, taken = re.sub(r"\W+", "_", path) + "_", {}, set(writer.taken)
        for n in self.params + made:
            inside = re.sub(r"^(v_)?" + re.escape(prefix), "", n)
            short = inside if inside != n and inside[:1].isalpha() else "x" if n in self.params else n
            k = next(k for k in range(len(order) + 1) if (f"{short}_{k}" if k else short) not in taken)
            names[n] = f"{short}_{k}" if k else short
            taken.add(names[n])
        self.text = MENTION.sub(lambda m: "%" + names[m.group(1)], text)
        self.head = ", ".join(f"%{names[n]}: {t}" for n, t in zip(self.params, self.types))
        self.result = f"%{names[made[-1]]}"


def outline(writer, graph, result):
    """Calls of modules that say the same with other names are calls of one function: (functions, lines)."""
    lines, uses = graph.lines, {}
    for i, line in enumerate([*lines, result]):
        for name in MENTION.findall(line):
            uses.setdefault(name, []).append(i)
    same = {}
    for path, kind, first, end in calls_of(graph):
        block = Block(writer, lines, first, end, uses, path)
        if block.ok:
            same.setdefault(block.key, []).append((kind, block))
    functions, calls, gone, names = [], {}, set(), set()
    for group in sorted(same.values(), key=lambda g: -(len(g) - 1) * (g[0][1].end - g[0][1].first)):
        free = [(kind, b) for kind, b in group if gone.isdisjoint(range(b.first, b.end))]
        # A module that does nothing but call another one says the same as that.
        free = list({b.first: (kind, b) for kind, b in free}.values())
        if len(free) < 2:
            continue
        kind = re.sub(r"\W+", "_", free[0][0].split(".")[-1])
        kind = next(n for n in [kind, *(f"{kind}_{k}" for k in range(1, len(same) + 1))] if n not in names | {"main"})
        names.add(kind)
        first = free[0][1]
        functions.append(f"def @{kind}({first.head}) {{\n{first.text}\n  {first.result}\n}}\n\n")
        for _, b in free:
            gone |= set(range(b.first, b.end))
            calls[b.first] = f"  let %{b.results[0]} = @{kind}({', '.join('%' + n for n in b.params)});"
    return functions, [calls.get(i, line) for i, line in enumerate(lines) if i not in gone or i in calls]


def program(module, args, kwargs=None, dynamic_shapes=None):
    """(text, {name: array}, names of the inputs)"""
    exported = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes).run_decompositions()
    writer = Writer()
    writer.count_modules(exported.graph_module)
    graph = Graph(writer, exported.graph_module)
    signature, weights, inputs = exported.graph_signature, [], []
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers, **signature.inputs_to_lifted_tensor_constants}
    state = {**exported.state_dict, **exported.constants}
    for node in exported.graph.nodes:
        if node.op != "placeholder":
            continue
        if node.name in held:
            weights.append((node, held[node.name]))
        else:
            name = writer.name(node.name)
            writer.names.append(node.name)
            inputs.append(name)
            graph.text[node] = f"%{name}"
            writer.types[name] = graph.type(node.meta["val"])
            writer.params.append(f"%{name}: {writer.types[name]}")
    for node, target in weights:
        if node.users:
            graph.text[node] = writer.weight(target, state[target])
    results = graph.run()
    wanted = [s.arg.name for s in signature.output_specs if s.kind.name == "USER_OUTPUT"]
    texts = [graph.arg(r) for r in results if not isinstance(r, torch.fx.Node) or r.name in wanted]
    if writer.refused:
        raise Unsupported("\n".join(sorted(writer.refused)))
    result = texts[0] if len(texts) == 1 else tuple_of(texts)
    functions, lines = outline(writer, graph, result)
    body = "\n".join(lines)
    kept = set(MENTION.findall(body))
    writer.values = [v for v in writer.values if v.split(" = ")[0] in kept]
    renamed = writer.names != [p[1:p.index(":")] for p in writer.params]
    said = [f"{key}=[{', '.join(json.dumps(v, ensure_ascii=False) for v in values)}]"
            for key, values in (("names", writer.names if renamed else []), ("values", writer.values)) if values]
    text = f'#[version = "0.0.5"]\n{"".join(functions)}def @main({", ".join(writer.params + said)}) {{\n{body}\n  {result}\n}}\n{writer.metadata()}'
    return text, writer.weights, inputs


def save(module, args, path, kwargs=None, dynamic_shapes=None):
    """Writes PATH.rly and PATH.npz; the names of the inputs."""
    text, weights, inputs = program(module, args, kwargs, dynamic_shapes)
    with open(f"{path}.rly", "w") as f:
        f.write(text)
    np.savez(f"{path}.npz", **weights)
    return inputs
