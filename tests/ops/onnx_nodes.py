"""ONNX nodes as Relay text: a table of functions, one for each operator of ONNX that Relay has a counterpart of or can compose.

A function takes a Node and gives the expression of its outputs. Inputs that say shapes, axes or amounts become attributes, by the
values that the test gives them."""
import math
import string

import ml_dtypes
import numpy as np

DTYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"}


class LeftOut(Exception):
    """Why a test has no counterpart."""


RULES = {}


def rule(*names):
    def register(f):
        for n in names:
            RULES[n] = f
        return f
    return register


def supported(a):
    return isinstance(a, np.ndarray) and str(a.dtype) in DTYPES


class Body:
    """The body of a function under construction: lets, parameters, values."""

    def __init__(self):
        self.lets, self.arrays, self.params = [], [], []

    def param(self, a):
        a = np.asarray(a)
        if not supported(a):
            raise LeftOut(f"element type {a.dtype}" if isinstance(a, np.ndarray) and a.dtype.kind != "O" else "sequences, optionals and strings")
        self.params.append(f"%p{len(self.arrays)}")
        self.arrays.append(a)
        return self.params[-1]

    def let(self, text):
        name = f"%v{len(self.lets)}"
        self.lets.append(f"  let {name} = {text};")
        return name


class Node:
    def __init__(self, body, proto, names, values, outs):
        from onnx import helper
        self.body, self.op, self.names, self.values, self.outs = body, proto.op_type, names, values, outs
        self.attributes = {a.name: helper.get_attribute_value(a) for a in proto.attribute}
        self.inputs, self.outputs = list(proto.input), list(proto.output)

    def has(self, i):
        return i < len(self.inputs) and self.inputs[i] != ""

    def x(self, i):
        return self.names[self.inputs[i]]

    def v(self, i, otherwise=None):
        """The value of an input that Relay takes as an attribute."""
        return self.values[self.inputs[i]] if self.has(i) else otherwise

    def ints(self, i, otherwise=None):
        a = self.v(i)
        return otherwise if a is None else [int(k) for k in np.asarray(a).reshape(-1)]

    def shape(self, i):
        return self.v(i).shape

    def rank(self, i):
        return self.v(i).ndim

    def dtype(self, i):
        return str(self.v(i).dtype)

    def a(self, name, otherwise=None):
        v = self.attributes.get(name, otherwise)
        return v.decode() if isinstance(v, bytes) else v

    def out(self, i=0):
        return self.outs.get(self.outputs[i])

    def out_dtype(self, i=0):
        return str(self.out(i).dtype)

    def let(self, text):
        return self.body.let(text)

    def number(self, v, dtype=None):
        """A scalar constant, as one more argument."""
        return self.body.param(to(dtype or self.dtype(0), v))

    def array(self, v):
        return self.body.param(v)


def to(dtype, v):
    return np.asarray(v).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def cast(x, dtype):
    return f'cast({x}, dtype="{dtype}")'


def listed(v):
    return "[" + ", ".join(map(str, v)) + "]"


def translate(model, inputs, outputs, name):
    """(text of the function, its arguments, what must come out)"""
    from onnx import numpy_helper
    graph, body = model.graph, Body()
    inputs, outputs = [plain(v) for v in inputs], [plain(v) for v in outputs]
    values = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    for i, v in zip(graph.input, inputs):
        values[i.name] = v
    for node in graph.node:
        check_rule(node)
    if len(graph.node) > 1:
        values.update(intermediates(model, dict(zip([i.name for i in graph.input], inputs))))
    wanted = dict(zip([o.name for o in graph.output], outputs))
    values.update({k: v for k, v in wanted.items() if k not in values})
    for v in inputs + outputs:
        if not supported(v):
            raise LeftOut("element types that Relay has not")
    names = Names(body, values)
    for node in graph.node:
        n = Node(body, node, names, values, {o: values.get(o) for o in node.output})
        got = RULES[node.op_type](n)
        got = [got] if isinstance(got, str) else got
        if len(got) < sum(o != "" for o in node.output):
            raise LeftOut(f"more outputs of {node.op_type} than the counterpart has")
        for o, e in zip(node.output, got):
            if o:
                names[o] = body.let(e)
    results = ", ".join(names[o] for o in wanted) + ","
    params = ", ".join(f"{p}: {type_of(a)}" for p, a in zip(body.params, body.arrays))
    return f"def @{name}({params}) {{\n" + "\n".join(body.lets) + f"\n  ({results})\n}}\n", body.arrays, list(outputs)


def plain(v):
    from onnx import TensorProto, numpy_helper
    if isinstance(v, TensorProto):
        v = numpy_helper.to_array(v)
    if v is None or isinstance(v, (list, tuple)):
        raise LeftOut("sequences and optionals")
    return np.asarray(v)


class Names(dict):
    """What values are called; an input becomes an argument where it is used."""

    def __init__(self, body, values):
        super().__init__()
        self.body, self.inputs = body, values

    def __missing__(self, name):
        if name not in self.inputs:
            raise LeftOut("graphs in graphs")
        self[name] = self.body.param(self.inputs[name])
        return self[name]


def check_rule(node):
    if node.op_type not in RULES or node.domain not in ("", "ai.onnx"):
        raise LeftOut(f"no counterpart of {node.op_type}")


def type_of(a):
    return f"Tensor[({', '.join(map(str, a.shape))}), {a.dtype}]" if a.ndim else str(a.dtype)


def intermediates(model, inputs):
    """The values inside a graph, for the shapes and amounts that nodes take from others."""
    from onnx.reference import ReferenceEvaluator
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, inputs, intermediate=True)
    except Exception:
        raise LeftOut("graphs that the reference of onnx cannot run")
    return {k: np.asarray(v) for k, v in found.items() if isinstance(v, (np.ndarray, np.generic))}


# ---- element by element -----------------------------------------------------------------------------------

for onnx_name, relay_name in {
        "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh", "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil",
        "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor", "Identity": "copy", "IsNaN": "isnan", "Log": "log", "Neg": "negative",
        "Not": "logical_not", "Relu": "nn.relu", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Sinh": "sinh", "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh"}.items():
    rule(onnx_name)(lambda n, relay_name=relay_name: f"{relay_name}({n.x(0)})")

for onnx_name, relay_name in {
        "Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Equal": "equal",
        "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less", "LessOrEqual": "less_equal", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
        "BitwiseXor": "bitwise_xor"}.items():
    rule(onnx_name)(lambda n, relay_name=relay_name: f"{relay_name}({n.x(0)}, {n.x(1)})")


@rule("Reciprocal")
def reciprocal(n):
    return f"divide(ones_like({n.x(0)}), {n.x(0)})"


@rule("Round")
def half_even(n):
    """Relay's rounds halves away from zero."""
    x = n.x(0)
    tie = f"equal(abs(subtract({x}, trunc({x}))), {n.number(0.5)})"
    return f"where({tie}, multiply({n.number(2)}, round(multiply({x}, {n.number(0.5)}))), round({x}))"


@rule("IsInf")
def is_inf(n):
    x, zero = n.x(0), n.number(0)
    up = f"logical_and(isinf({x}), greater({x}, {zero}))"
    down = f"logical_and(isinf({x}), less({x}, {zero}))"
    if n.a("detect_positive", 1) and n.a("detect_negative", 1):
        return f"isinf({x})"
    return up if n.a("detect_positive", 1) else down if n.a("detect_negative", 1) else f"logical_and({up}, {down})"


@rule("Elu")
def elu(n):
    x = n.x(0)
    return f"where(less({x}, {n.number(0)}), multiply({n.number(n.a('alpha', 1.0))}, subtract(exp({x}), {n.number(1)})), {x})"


@rule("Celu")
def celu(n):
    x, a, zero = n.x(0), n.number(n.a("alpha", 1.0)), n.number(0)
    return f"add(maximum({zero}, {x}), minimum({zero}, multiply({a}, subtract(exp(divide({x}, {a})), {n.number(1)}))))"


@rule("Selu")
def selu(n):
    x, a, g = n.x(0), n.number(n.a("alpha", 1.67326319217681884765625)), n.number(n.a("gamma", 1.05070102214813232421875))
    return f"where(greater({x}, {n.number(0)}), multiply({g}, {x}), multiply({g}, subtract(multiply({a}, exp({x})), {a})))"


@rule("HardSigmoid")
def hard_sigmoid(n):
    return f"clip(add(multiply({n.x(0)}, {n.number(n.a('alpha', 0.2))}), {n.number(n.a('beta', 0.5))}), a_min=0f, a_max=1f)"


@rule("HardSwish")
def hard_swish(n):
    return f"multiply({n.x(0)}, clip(add(multiply({n.x(0)}, {n.number(1 / 6)}), {n.number(0.5)}), a_min=0f, a_max=1f))"


@rule("Softplus")
def softplus(n):
    return f"log(add(exp({n.x(0)}), {n.number(1)}))"


@rule("Softsign")
def softsign(n):
    return f"divide({n.x(0)}, add({n.number(1)}, abs({n.x(0)})))"


@rule("ThresholdedRelu")
def thresholded_relu(n):
    return f"where(greater({n.x(0)}, {n.number(n.a('alpha', 1.0))}), {n.x(0)}, zeros_like({n.x(0)}))"


@rule("Mish")
def mish(n):
    return f"multiply({n.x(0)}, tanh(log(add(exp({n.x(0)}), {n.number(1)}))))"


@rule("Swish")
def swish(n):
    return f"multiply({n.x(0)}, sigmoid(multiply({n.number(n.a('alpha', 1.0))}, {n.x(0)})))"


@rule("Gelu")
def gelu(n):
    x, half, one = n.x(0), n.number(0.5), n.number(1)
    if n.a("approximate", "none") == "tanh":
        inner = f"multiply({n.number(math.sqrt(2 / math.pi))}, add({x}, multiply({n.number(0.044715)}, multiply({x}, multiply({x}, {x})))))"
        return f"multiply(multiply({half}, {x}), add({one}, tanh({inner})))"
    return f"multiply(multiply({half}, {x}), add({one}, erf(divide({x}, {n.number(math.sqrt(2))}))))"


@rule("Shrink")
def shrink(n):
    x, bias, limit = n.x(0), n.a("bias", 0.0), n.a("lambd", 0.5)
    return (f"where(less({x}, {n.number(-limit)}), add({x}, {n.number(bias)}), "
            f"where(greater({x}, {n.number(limit)}), subtract({x}, {n.number(bias)}), zeros_like({x})))")


@rule("LeakyRelu")
def leaky_relu(n):
    return f"nn.leaky_relu({n.x(0)}, alpha={n.a('alpha', 0.01)}f)"


@rule("PRelu")
def prelu(n):
    if n.rank(1) == 1 and n.rank(0) > 1 and n.shape(1)[0] == n.shape(0)[-1]:
        return f"nn.prelu({n.x(0)}, {n.x(1)}, axis=-1)"
    return f"where(less({n.x(0)}, {n.number(0)}), multiply({n.x(0)}, {n.x(1)}), {n.x(0)})"


@rule("Clip")
def clip(n):
    x = n.x(0)
    if n.has(1):
        x = f"maximum({x}, {n.x(1)})"
    if n.has(2):
        x = f"minimum({x}, {n.x(2)})"
    return f"copy({x})" if x == n.x(0) else x


@rule("Mod")
def mod(n):
    if not n.a("fmod", 0) and n.v(1).dtype.kind not in "iu" and np.isinf(n.v(1).astype("float64")).any():
        raise LeftOut("floor_mod by infinity, which is x - floor(x / y) * y in Relay")
    return f"{'mod' if n.a('fmod', 0) else 'floor_mod'}({n.x(0)}, {n.x(1)})"


@rule("Pow")
def power(n):
    t, e = n.dtype(0), n.dtype(1)
    if t[0] == "f" and t == e:
        return f"power({n.x(0)}, {n.x(1)})"
    # Relay's operator takes floats of one type.
    return cast(f'power({cast(n.x(0), "float64")}, {cast(n.x(1), "float64")})', t)


def folded(n, op):
    x = n.x(0)
    for i in range(1, len(n.inputs)):
        x = f"{op}({x}, {n.x(i)})"
    return x if len(n.inputs) > 1 else f"copy({x})"


rule("Max")(lambda n: folded(n, "maximum"))
rule("Min")(lambda n: folded(n, "minimum"))
rule("Sum")(lambda n: folded(n, "add"))
rule("Mean")(lambda n: f"divide({folded(n, 'add')}, {n.number(len(n.inputs))})")
@rule("BitShift")
def bit_shift(n):
    if n.dtype(1)[0] == "i" and (n.v(1) < 0).any():
        raise LeftOut("negative counts of shifts, an error in Relay")
    return f"{'left' if n.a('direction') == 'LEFT' else 'right'}_shift({n.x(0)}, {n.x(1)})"



rule("Where")(lambda n: f"where({n.x(0)}, {n.x(1)}, {n.x(2)})")


def castable(n):
    if n.out() is None or not supported(n.out()):
        raise LeftOut("element types that Relay has not")
    return cast(n.x(0), n.out_dtype())


rule("Cast", "CastLike")(castable)


@rule("BitCast")
def bit_cast(n):
    if n.out().shape != n.shape(0) or "bool" in (n.dtype(0), n.out_dtype()):
        raise LeftOut("reinterpreting elements of another width, or bool")
    return f'reinterpret({n.x(0)}, dtype="{n.out_dtype()}")'


# ---- reductions ---------------------------------------------------------------------------------------------

def axes_of(n):
    axes = n.a("axes")
    if n.has(1):
        axes = n.ints(1)
    if not axes and n.a("noop_with_empty_axes", 0):
        return []
    return list(range(n.rank(0))) if not axes else [int(a) for a in axes]


def reducing(op, before="{}", after="{}"):
    def f(n):
        axes, keep = axes_of(n), bool(n.a("keepdims", 1))
        x = n.let(before.format(n.x(0)))
        if axes:
            x = n.let(f"{op}({x}, axis={axes}, keepdims={keep})")
        return after.format(x)
    return f


rule("ReduceSum")(reducing("sum", "copy({})"))
rule("ReduceMean")(reducing("mean", "copy({})"))
rule("ReduceMax")(reducing("max", "copy({})"))
rule("ReduceMin")(reducing("min", "copy({})"))
rule("ReduceProd")(reducing("prod", "copy({})"))
rule("ReduceL1")(reducing("sum", "abs({})"))
rule("ReduceL2")(reducing("sum", "multiply({0}, {0})", "sqrt({})"))
rule("ReduceLogSum")(reducing("sum", "copy({})", "log({})"))
rule("ReduceLogSumExp")(reducing("sum", "exp({})", "log({})"))
rule("ReduceSumSquare")(reducing("sum", "multiply({0}, {0})"))


@rule("ArgMax", "ArgMin")
def arg(n):
    last = bool(n.a("select_last_index", 0))
    return cast(f"{n.op.lower()}({n.x(0)}, axis=[{n.a('axis', 0)}], keepdims={bool(n.a('keepdims', 1))}, select_last_index={last})", "int64")


@rule("CumSum", "CumProd")
def scan(n):
    axis = n.ints(1)[0]
    x = n.x(0)
    turn = (lambda e: f"reverse({e}, axis={axis})") if n.a("reverse", 0) else (lambda e: e)
    return turn(f"{n.op.lower()}({turn(x)}, axis={axis}, exclusive={bool(n.a('exclusive', 0))})")


@rule("Softmax", "LogSoftmax")
def softmax(n):
    return f"nn.{'log_' if n.op[0] == 'L' else ''}softmax({n.x(0)}, axis={n.a('axis', -1)})"


@rule("Hardmax")
def hardmax(n):
    axis = n.a("axis", -1)
    at = axis % n.rank(0)
    return (f'one_hot(argmax({n.x(0)}, axis=[{axis}]), {n.number(1)}, {n.number(0)}, depth={n.shape(0)[at]}, axis={at}, dtype="{n.dtype(0)}")')


# ---- products -------------------------------------------------------------------------------------------------

def product_text(x, y, rx, ry):
    if rx == 1 and ry == 1:
        return f'einsum(({x}, {y}), equation="j,j->")'
    a, b = ("j" if rx == 1 else "...ij"), ("j" if ry == 1 else "...jk")
    out = "..." + ("i" if rx > 1 else "") + ("k" if ry > 1 else "")
    return f'einsum(({x}, {y}), equation="{a},{b}->{out}")'


@rule("MatMul")
def matmul(n):
    rx, ry = n.rank(0), n.rank(1)
    if rx == ry == 2:
        return f"nn.matmul({n.x(0)}, {n.x(1)}, units=None)"
    if rx == ry == 3:
        return f"nn.batch_matmul({n.x(0)}, {n.x(1)})"
    return product_text(n.x(0), n.x(1), rx, ry)


@rule("Gemm")
def gemm(n):
    y = f"nn.matmul({n.x(0)}, {n.x(1)}, units=None, transpose_a={bool(n.a('transA', 0))}, transpose_b={bool(n.a('transB', 0))})"
    y = f"multiply({n.number(n.a('alpha', 1.0))}, {y})"
    return f"add({y}, multiply({n.number(n.a('beta', 1.0))}, {n.x(2)}))" if n.has(2) else y


@rule("Einsum")
def einsum(n):
    xs = ", ".join(n.x(i) for i in range(len(n.inputs)))
    return f'einsum(({xs},), equation="{n.a("equation").replace(" ", "")}")'


def centred(n, i, zero, axis=None):
    x = cast(n.x(i), "int32")
    if not n.has(zero):
        return x
    z = cast(n.x(zero), "int32")
    if n.rank(zero) == 1 and n.shape(zero)[0] > 1 and axis == 0:
        z = f"reshape({z}, newshape={[-1] + [1] * (n.rank(i) - 1)})"
    return f"subtract({x}, {z})"


@rule("MatMulInteger")
def matmul_integer(n):
    return product_text(centred(n, 0, 2, 0), centred(n, 1, 3), n.rank(0), n.rank(1))


def scalar(n, i, dtype):
    if np.asarray(n.v(i)).size != 1:
        raise LeftOut("scales or zero points of rows of a quantised product")
    return cast(f"reshape({n.x(i)}, newshape=[])", dtype)


@rule("QLinearMatMul")
def qlinear_matmul(n):
    if n.dtype(1) not in ("float32",):
        raise LeftOut("scales of float16 in a quantised product")
    sa, sb, sy = (scalar(n, i, "float32") for i in (1, 4, 6))
    za, zb, zy = (scalar(n, i, "int32") for i in (2, 5, 7))
    a, b = f"subtract({cast(n.x(0), 'int32')}, {za})", f"subtract({cast(n.x(3), 'int32')}, {zb})"
    y = product_text(a, b, n.rank(0), n.rank(3))
    return f'qnn.requantize({y}, multiply({sa}, {sb}), 0, {sy}, {zy}, out_dtype="{n.dtype(7)}")'


def spatial(n, i):
    return list(n.shape(i)[2:])


LAYOUTS = {1: ("NCW", "OIW", "IOW"), 2: ("NCHW", "OIHW", "IOHW"), 3: ("NCDHW", "OIDHW", "IODHW")}


def conv_attributes(n, k):
    """strides, (before, after) of each axis, dilations"""
    m = len(k)
    strides, dilations = n.a("strides", [1] * m), n.a("dilations", [1] * m)
    pads, auto = n.a("pads", [0] * 2 * m), n.a("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = [0] * 2 * m
        for j, d in enumerate(spatial(n, 0)):
            room = max(0, (-(-d // strides[j]) - 1) * strides[j] + (k[j] - 1) * dilations[j] + 1 - d)
            small = room // 2
            pads[j], pads[m + j] = (small, room - small) if auto == "SAME_UPPER" else (room - small, small)
    return list(strides), list(pads), list(dilations)


def conv_text(n, op, x, w, wi, more=""):
    k = spatial(n, wi)
    if len(k) not in LAYOUTS:
        raise LeftOut("convolutions over four axes")
    s, p, d = conv_attributes(n, k)
    return f"{op}({x}, {w}, strides={s}, padding={p}, dilation={d}, groups={n.a('group', 1)}{more})"


@rule("Conv")
def conv(n):
    y = conv_text(n, f"nn.conv{n.rank(0) - 2}d", n.x(0), n.x(1), 1)
    return f"nn.bias_add({y}, {n.x(2)}, axis=1)" if n.has(2) else y


@rule("ConvInteger")
def conv_integer(n):
    return conv_text(n, "nn.conv2d", centred(n, 0, 2), centred(n, 1, 3, 0), 1)


@rule("QLinearConv")
def qlinear_conv(n):
    x = f"subtract({cast(n.x(0), 'int32')}, {scalar(n, 2, 'int32')})"
    z = cast(n.x(5), "int32")
    w = f"subtract({cast(n.x(3), 'int32')}, " + (f"reshape({z}, newshape=[-1, 1, 1, 1]))" if np.size(n.v(5)) > 1 else f"reshape({z}, newshape=[]))")
    y = conv_text(n, "nn.conv2d", x, w, 3)
    if n.has(8):
        y = f"nn.bias_add({y}, {n.x(8)}, axis=1)"
    sw = n.x(4) if np.size(n.v(4)) > 1 else f"reshape({n.x(4)}, newshape=[])"
    scale = f"multiply({scalar(n, 1, 'float32')}, {sw})"
    zero = n.array(np.zeros(np.size(n.v(4)), "int32")) if np.size(n.v(4)) > 1 else "0"
    return f'qnn.requantize({y}, {scale}, {zero}, {scalar(n, 6, "float32")}, {scalar(n, 7, "int32")}, axis=1, out_dtype="{n.out_dtype()}")'


@rule("ConvTranspose")
def conv_transpose(n):
    k, m = spatial(n, 1), n.rank(0) - 2
    strides, dilations = n.a("strides", [1] * m), n.a("dilations", [1] * m)
    extra, pads = list(n.a("output_padding", [0] * m)), list(n.a("pads", [0] * 2 * m))
    size, auto = n.a("output_shape"), n.a("auto_pad", "NOTSET")
    if size or auto in ("SAME_UPPER", "SAME_LOWER"):
        size = list(size)[-m:] if size else [d * s for d, s in zip(spatial(n, 0), strides)]
        for j, d in enumerate(spatial(n, 0)):
            total = strides[j] * (d - 1) + extra[j] + (k[j] - 1) * dilations[j] + 1 - size[j]
            if total < 0:
                extra[j], total = extra[j] - total, 0
            small = total // 2
            pads[j], pads[m + j] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    layout, _, kernel = LAYOUTS[m]
    y = (f"nn.conv{m}d_transpose({n.x(0)}, {n.x(1)}, strides={list(strides)}, output_padding={extra}, padding={pads}, dilation={list(dilations)}, "
         f'groups={n.a("group", 1)}, data_layout="{layout}", kernel_layout="{kernel}")')
    return f"nn.bias_add({y}, {n.x(2)}, axis=1)" if n.has(2) else y


@rule("DeformConv")
def deform_conv(n):
    k = spatial(n, 2 - 1)
    s, p, d = conv_attributes(n, k)
    if n.has(4):
        raise LeftOut("masks of DeformConv")
    y = (f"nn.deformable_conv2d({n.x(0)}, {n.x(2)}, {n.x(1)}, strides={s}, padding={p}, dilation={d}, deformable_groups={n.a('offset_group', 1)}, groups={n.a('group', 1)}, "
         f"channels={n.shape(1)[0]}, kernel_size={k})")
    return f"nn.bias_add({y}, {n.x(3)}, axis=1)" if n.has(3) else y


# ---- pooling ----------------------------------------------------------------------------------------------------

def pool_text(n, op, x, more=""):
    k = list(n.a("kernel_shape"))
    if len(k) > 3:
        raise LeftOut("windows over four axes")
    s, p, d = conv_attributes(n, k)
    for j, extent in enumerate(spatial(n, 0)):
        room = extent + p[j] + p[len(k) + j] - (k[j] - 1) * d[j] - 1
        if n.a("ceil_mode", 0) and -(-room // s[j]) * s[j] >= extent + p[j]:
            raise LeftOut("a last window that begins in the padding")
    return f"nn.{op}_pool{len(k)}d({x}, pool_size={k}, strides={s}, dilation={d}, padding={p}, ceil_mode={bool(n.a('ceil_mode', 0))}{more})"


rule("MaxPool")(lambda n: pool_text(n, "max", n.x(0)))
rule("AveragePool")(lambda n: pool_text(n, "avg", n.x(0), f", count_include_pad={bool(n.a('count_include_pad', 0))}"))


@rule("LpPool")
def lp_pool(n):
    p, k = n.a("p", 2), list(n.a("kernel_shape"))
    # The mean over all places of a window times their number is the sum.
    x = f"power(abs({n.x(0)}), {n.number(p)})"
    if n.a("ceil_mode", 0):
        raise LeftOut("LpPool with ceil_mode")
    total = f"multiply({pool_text(n, 'avg', x, ', count_include_pad=True')}, {n.number(np.prod(k))})"
    return f"power({total}, {n.number(1 / p)})"


def global_pool(n):
    most = n.op == "GlobalMaxPool"
    if n.rank(0) == 4:
        return f"nn.global_{'max' if most else 'avg'}_pool2d({n.x(0)})"
    return f"{'max' if most else 'mean'}({n.x(0)}, axis={list(range(2, n.rank(0)))}, keepdims=True)"


rule("GlobalAveragePool", "GlobalMaxPool")(global_pool)


# ---- normalising ---------------------------------------------------------------------------------------------------

@rule("BatchNormalization")
def batch_norm(n):
    if n.a("training_mode", 0):
        raise LeftOut("training mode of BatchNormalization")
    xs = ", ".join(n.x(i) for i in range(5))
    return f"nn.batch_norm({xs}, epsilon={n.a('epsilon', 1e-5)}f).0"


@rule("InstanceNormalization")
def instance_norm(n):
    return f"nn.instance_norm({n.x(0)}, {n.x(1)}, {n.x(2)}, epsilon={n.a('epsilon', 1e-5)}f)"


@rule("GroupNormalization")
def group_norm(n):
    return f"nn.group_norm({n.x(0)}, {n.x(1)}, {n.x(2)}, num_groups={n.a('num_groups')}, epsilon={n.a('epsilon', 1e-5)}f)"


@rule("LayerNormalization")
def layer_norm(n):
    shape, eps = n.shape(0), n.a("epsilon", 1e-5)
    axis = n.a("axis", -1) % len(shape)
    width = int(np.prod(shape[axis:]))
    flat = n.let(f"reshape({n.x(0)}, newshape=[-1, {width}])")
    gamma = f"reshape({n.x(1)}, newshape=[-1])"
    if np.size(n.v(1)) != width or (n.has(2) and np.size(n.v(2)) != width):
        raise LeftOut("LayerNormalization with weights that broadcast")
    beta = f"reshape({n.x(2)}, newshape=[-1])" if n.has(2) else n.array(np.zeros(width, n.v(0).dtype))
    y = f"reshape(nn.layer_norm({flat}, {gamma}, {beta}, epsilon={eps}f), newshape={listed(shape)})"
    out = [y]
    if len(n.outputs) > 1:
        small = listed(list(shape[:axis]) + [1] * (len(shape) - axis))
        mean = n.let(f"mean({flat}, axis=[1], keepdims=True)")
        var = n.let(f"variance({flat}, {mean}, axis=[1], keepdims=True)")
        out += [f"reshape({mean}, newshape={small})", f"reshape(rsqrt(add({var}, {n.number(eps)})), newshape={small})"]
    return out


@rule("RMSNormalization")
def rms_norm(n):
    axes = list(range(n.a("axis", -1) % n.rank(0), n.rank(0)))
    x = n.x(0)
    mean = f"mean(multiply({x}, {x}), axis={axes}, keepdims=True)"
    return f"multiply(divide({x}, sqrt(add({mean}, {n.number(n.a('epsilon', 1e-5))}))), {n.x(1)})"


@rule("LRN")
def lrn(n):
    return f"nn.lrn({n.x(0)}, size={n.a('size')}, bias={n.a('bias', 1.0)}f, alpha={n.a('alpha', 1e-4)}f, beta={n.a('beta', 0.75)}f)"


@rule("LpNormalization")
def lp_norm(n):
    x, axis, zero = n.x(0), n.a("axis", -1), n.number(0)
    norm = f"sum(abs({x}), axis=[{axis}], keepdims=True)" if n.a("p", 2) == 1 else f"sqrt(sum(multiply({x}, {x}), axis=[{axis}], keepdims=True))"
    norm = n.let(norm)
    return f"where(equal({norm}, {zero}), zeros_like({x}), divide({x}, {norm}))"


@rule("MeanVarianceNormalization")
def mean_variance(n):
    x, axes = n.x(0), list(n.a("axes", [0, 2, 3]))
    mean = n.let(f"mean({x}, axis={axes}, keepdims=True)")
    return f"divide(subtract({x}, {mean}), add(sqrt(variance({x}, {mean}, axis={axes}, keepdims=True)), {n.number(1e-9)}))"


@rule("Dropout")
def dropout(n):
    if n.has(2) and bool(n.v(2)) and n.has(1) and float(n.v(1)) != 0 or n.has(2) and bool(n.v(2)) and not n.has(1):
        raise LeftOut("random numbers of Dropout")
    return [f"nn.dropout({n.x(0)}).0", f'ones(shape={listed(n.shape(0))}, dtype="bool")']


# ---- shapes ----------------------------------------------------------------------------------------------------------

rule("Concat")(lambda n: f"concatenate(({', '.join(n.x(i) for i in range(len(n.inputs)))},), axis={n.a('axis')})")
rule("Transpose")(lambda n: f"transpose({n.x(0)}, axes={list(n.a('perm')) if n.a('perm') else None})")
rule("Reshape")(lambda n: f"reshape({n.x(0)}, newshape={n.ints(1)}, allowzero={bool(n.a('allowzero', 0))})")
rule("Expand")(lambda n: f"broadcast_to({n.x(0)}, shape={listed(np.broadcast_shapes(n.shape(0), tuple(n.ints(1))))})")
rule("Tile")(lambda n: f"tile({n.x(0)}, reps={n.ints(1)})")
rule("Size")(lambda n: f'ndarray_size({n.x(0)}, dtype="int64")')


@rule("Flatten")
def flatten(n):
    axis, shape = n.a("axis", 1), n.shape(0)
    axis = axis + len(shape) if axis < 0 else axis
    return f"reshape({n.x(0)}, newshape=[{int(np.prod(shape[:axis]))}, {int(np.prod(shape[axis:]))}])"


@rule("Squeeze")
def squeeze(n):
    return f"squeeze({n.x(0)}, axis={n.ints(1) if n.has(1) else None})"


@rule("Unsqueeze")
def unsqueeze(n):
    rank, x = n.rank(0) + len(n.ints(1)), n.x(0)
    for a in sorted(a % rank for a in n.ints(1)):
        x = f"expand_dims({x}, axis={a})"
    return x


@rule("Shape")
def shape(n):
    r = n.rank(0)
    start, end = n.a("start", 0), n.a("end", r)
    start, end = (min(max(v + r if v < 0 else v, 0), r) for v in (start, end))
    x = f'shape_of({n.x(0)}, dtype="int64")'
    if (start, end) != (0, r):
        x = f"strided_slice({x}, begin=[{start}], end=[{max(start, end)}], strides=[1], axes=None)"
    return x


@rule("Split")
def split(n):
    axis, d = n.a("axis", 0), n.shape(0)[n.a("axis", 0)]
    parts = n.ints(1)
    if parts is None:
        size = -(-d // len(n.outputs))
        parts = [size] * (len(n.outputs) - 1) + [d - size * (len(n.outputs) - 1)]
    cuts = [int(c) for c in np.cumsum(parts)[:-1]]
    y = n.let(f"split({n.x(0)}, indices_or_sections={cuts}, axis={axis})")
    return [f"{y}.{i}" for i in range(len(n.outputs))]


@rule("Slice")
def slice_(n):
    starts, ends, axes = n.ints(1), n.ints(2), n.ints(3) if n.has(3) else list(range(len(n.ints(1))))
    steps = n.ints(4) if n.has(4) else [1] * len(starts)
    limit = 2**31
    starts, ends = ([min(max(v, -limit), limit) for v in vs] for vs in (starts, ends))
    # ONNX lets the end of a whole backward slice lie anywhere before the first element.
    for k, a in enumerate(axes):
        d = n.shape(0)[a]
        b, e = (v + d if v < 0 else v for v in (starts[k], ends[k]))
        b, e = min(max(b, 0), d), min(max(e, -1 if steps[k] < 0 else 0), d)
        if (e - b) * steps[k] <= 0:  # empty
            starts[k], ends[k] = 0, 0
            steps[k] = 1
    return f"strided_slice({n.x(0)}, begin={starts}, end={ends}, strides={steps}, axes={axes})"


@rule("Gather")
def gather(n):
    return f'take({n.x(0)}, {n.x(1)}, axis={n.a("axis", 0)}, mode="wrap")'


rule("GatherElements")(lambda n: f"gather({n.x(0)}, {n.x(1)}, axis={n.a('axis', 0)})")


def leading(n, i):
    """Relay has the axis of coordinates in front."""
    r = n.rank(i)
    return f"transpose({n.x(i)}, axes={[r - 1] + list(range(r - 1))})"


rule("GatherND")(lambda n: f"gather_nd({n.x(0)}, {leading(n, 1)}, batch_dims={n.a('batch_dims', 0)})")
REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}
rule("ScatterElements", "Scatter")(lambda n: f"scatter_elements({n.x(0)}, {n.x(1)}, {n.x(2)}, axis={n.a('axis', 0)}, reduction=\"{REDUCTIONS[n.a('reduction', 'none')]}\")")
rule("ScatterND")(lambda n: f"scatter_nd({n.x(0)}, {leading(n, 1)}, {n.x(2)}, mode=\"{REDUCTIONS[n.a('reduction', 'none')]}\")")


@rule("Pad")
def pad(n):
    r, p = n.rank(0), n.ints(1)
    axes = [a % r for a in n.ints(3)] if n.has(3) else list(range(r))
    width = [[0, 0] for _ in range(r)]
    for k, a in enumerate(axes):
        width[a] = [p[k], p[k + len(axes)]]
    mode = n.a("mode", "constant")
    value = f"reshape({n.x(2)}, newshape=[])" if n.has(2) else n.number(0)
    if mode == "wrap":
        x = n.x(0)
        for a, (b, e) in enumerate(width):
            if b or e:
                x = f"take({x}, {n.array(np.arange(-b, n.shape(0)[a] + e))}, axis={a}, mode=\"wrap\")"
        return x
    return f'nn.pad({n.x(0)}, {value}, pad_width={width}, pad_mode="{mode}")'


@rule("CenterCropPad")
def center_crop_pad(n):
    axes = [a % n.rank(0) for a in n.a("axes", range(n.rank(0)))]
    width = [[0, 0] for _ in range(n.rank(0))]
    for a, m in zip(axes, n.ints(1)):
        d = n.shape(0)[a]
        if m >= d:
            width[a] = [(m - d) // 2, m - d - (m - d) // 2]
        else:
            width[a] = [-((d - m) // 2), -(d - m - (d - m) // 2)]
    return f"nn.pad({n.x(0)}, {n.number(0)}, pad_width={width})"


rule("DepthToSpace")(lambda n: f'nn.depth_to_space({n.x(0)}, block_size={n.a("blocksize")}, mode="{n.a("mode", "DCR")}")')
rule("SpaceToDepth")(lambda n: f"nn.space_to_depth({n.x(0)}, block_size={n.a('blocksize')})" if n.a("mode", "DCR") == "DCR" else left("SpaceToDepth with CRD"))


def left(why):
    raise LeftOut(why)


rule("ReverseSequence")(lambda n: f"reverse_sequence({n.x(0)}, {n.x(1)}, seq_axis={n.a('time_axis', 0)}, batch_axis={n.a('batch_axis', 1)})")


@rule("Trilu")
def trilu(n):
    k = cast(f"reshape({n.x(1)}, newshape=[])", "int32") if n.has(1) else n.number(0, "int32")
    if np.size(n.v(0)) == 0:
        return f"copy({n.x(0)})"
    return f"trilu({n.x(0)}, {k}, upper={bool(n.a('upper', 1))})"


# ---- creating ----------------------------------------------------------------------------------------------------------

@rule("Constant")
def constant(n):
    from onnx import numpy_helper
    if "value" in n.attributes:
        return f"copy({n.array(numpy_helper.to_array(n.attributes['value']))})"
    for key, t in (("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"), ("value_ints", "int64")):
        if key in n.attributes:
            return f"copy({n.array(to(t, n.attributes[key]))})"
    raise LeftOut("constants that are no tensors")


rule("Range")(lambda n: f'arange({n.x(0)}, {n.x(1)}, {n.x(2)}, dtype="{n.dtype(0)}")')


@rule("ConstantOfShape")
def constant_of_shape(n):
    from onnx import numpy_helper
    v = numpy_helper.to_array(n.attributes["value"]) if "value" in n.attributes else np.zeros(1, "float32")
    return f'full({n.array(v.reshape(()))}, shape={listed(n.ints(0))}, dtype="{v.dtype}")'


@rule("EyeLike")
def eye_like(n):
    rows, cols = n.shape(0)
    i, j = n.array(np.arange(rows).reshape(-1, 1)), n.array(np.arange(cols) - n.a("k", 0))
    return cast(f"equal({i}, {j})", n.out_dtype())


@rule("OneHot")
def one_hot(n):
    depth, t = int(np.asarray(n.v(1)).reshape(-1)[0]), n.dtype(2)
    ids = cast(n.x(0), "int64")
    ids = f"where(less({ids}, {n.number(0, 'int64')}), add({ids}, {n.number(depth, 'int64')}), {ids})"
    on, off = f"take({n.x(2)}, {n.number(1, 'int64')}, axis=0)", f"take({n.x(2)}, {n.number(0, 'int64')}, axis=0)"
    axis = n.a("axis", -1)
    return f'one_hot({ids}, {on}, {off}, depth={depth}, axis={axis if axis >= 0 else axis + n.rank(0) + 1}, dtype="{t}")'


rule("NonZero")(lambda n: cast(f"transpose(argwhere({n.x(0)}), axes=[1, 0])", "int64"))


@rule("Compress")
def compress(n):
    keep = np.flatnonzero(n.v(1))
    axis = n.a("axis")
    if axis is None:
        return f"take(reshape({n.x(0)}, newshape=[-1]), {n.array(keep)}, axis=0)"
    return f"take({n.x(0)}, {n.array(keep)}, axis={axis})"


@rule("TopK")
def topk(n):
    y = n.let(f'topk({n.x(0)}, k={n.ints(1)[0]}, axis={n.a("axis", -1)}, ret_type="both", is_ascend={not n.a("largest", 1)}, dtype="int64")')
    return [f"{y}.0", f"{y}.1"]


@rule("Unique")
def unique(n):
    if n.a("axis") is not None:
        raise LeftOut("Unique of slices")
    k = n.out(0).shape[0]
    y = n.let(f"unique(reshape({n.x(0)}, newshape=[-1]), sorted={bool(n.a('sorted', 1))}, return_counts=True)")
    cut = lambda e: f"strided_slice({e}, begin=[0], end=[{k}], strides=[1], axes=None)"  # noqa: E731
    return [cut(f"{y}.0"), cast(cut(f"{y}.1"), "int64"), cast(f"{y}.2", "int64"), cast(cut(f"{y}.4"), "int64")]


# ---- images ------------------------------------------------------------------------------------------------------------

MODES = {"half_pixel": "half_pixel", "pytorch_half_pixel": "pytorch_half_pixel", "align_corners": "align_corners", "asymmetric": "asymmetric", "tf_crop_and_resize": "tf_crop_and_resize"}


@rule("Resize", "Upsample")
def resize(n):
    r, old = n.rank(0), n.op == "Upsample"
    axes = [a % r for a in n.a("axes", range(r))] if n.a("axes") is not None else list(range(r))
    scales = n.v(1) if old else n.v(2) if n.has(2) and np.size(n.v(2)) else None
    out = list(n.out().shape)
    mode = n.a("mode", "nearest")
    coordinates = "asymmetric" if old else n.a("coordinate_transformation_mode", "half_pixel")
    touched = [a for a in range(r) if out[a] != n.shape(0)[a] or (a in axes and coordinates == "tf_crop_and_resize" and a > 1)]
    if any(a < 2 for a in touched) or r not in (3, 4, 5):
        raise LeftOut("resizing of axes that are not spatial")
    if n.a("antialias", 0):
        raise LeftOut("resizing with antialiasing")
    if coordinates not in MODES:
        raise LeftOut(f"resizing by {coordinates}")
    if scales is not None and not old:
        for a, s in zip(axes, scales):
            if abs(n.shape(0)[a] * float(s) - out[a]) > 1e-3 * out[a]:
                raise LeftOut("resizing by a scale that is no quotient of the sizes")
    roi = [0.0] * 2 * (r - 2)
    if coordinates == "tf_crop_and_resize":
        given = np.asarray(n.v(1)).reshape(-1)
        for k, a in enumerate(axes):
            if a > 1:
                roi[a - 2], roi[r - 2 + a - 2] = float(given[k]), float(given[k + len(axes)])
    method = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}[mode]
    rounding = {"round_prefer_floor": "round_prefer_floor", "round_prefer_ceil": "round_prefer_ceil", "floor": "floor", "ceil": "ceil"}[
        "floor" if old else n.a("nearest_mode", "round_prefer_floor")]
    text = ", ".join(f"{v}f" for v in roi)
    return (f'image.resize{r - 2}d({n.x(0)}, size={listed(out[2:])}, roi=[{text}], layout="{LAYOUTS[r - 2][0]}", method="{method}", '
            f'coordinate_transformation_mode="{coordinates}", rounding_method="{rounding}", cubic_alpha={n.a("cubic_coeff_a", -0.75)}f, '
            f'cubic_exclude={n.a("exclude_outside", 0)}, extrapolation_value={n.a("extrapolation_value", 0.0)}f)')


@rule("GridSample")
def grid_sample(n):
    method = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "bicubic": "bicubic", "cubic": "bicubic"}[n.a("mode", "linear")]
    r = n.rank(0)
    grid = f"transpose({n.x(1)}, axes={[0, r - 1] + list(range(1, r - 1))})"
    return (f'image.grid_sample({n.x(0)}, {grid}, method="{method}", layout="{LAYOUTS[r - 2][0]}", padding_mode="{n.a("padding_mode", "zeros")}", '
            f"align_corners={bool(n.a('align_corners', 0))})")


@rule("AffineGrid")
def affine_grid(n):
    size = n.ints(1)
    if len(size) != 4 or not n.a("align_corners", 0):
        raise LeftOut("AffineGrid of volumes or without align_corners")
    return f"transpose(image.affine_grid({n.x(0)}, target_shape={size[2:]}), axes=[0, 2, 3, 1])"


@rule("RoiAlign")
def roi_align(n):
    if n.a("coordinate_transformation_mode", "half_pixel") == "half_pixel":
        raise LeftOut("RoiAlign with half_pixel")
    if n.a("mode", "avg") == "max":
        raise LeftOut("RoiAlign whose maximum is taken before interpolation")
    boxes = n.x(1)
    rois = f"concatenate((expand_dims({cast(n.x(2), 'float32')}, axis=1), {boxes}), axis=1)"
    return (f"vision.roi_align({n.x(0)}, {rois}, pooled_size=[{n.a('output_height', 1)}, {n.a('output_width', 1)}], spatial_scale={n.a('spatial_scale', 1.0)}f, "
            f'sample_ratio={n.a("sampling_ratio", 0) or -1}, mode="{n.a("mode", "avg")}")')


@rule("NonMaxSuppression")
def nms(n):
    boxes = n.x(0)
    if n.a("center_point_box", 0):
        part = n.let(f"split({boxes}, indices_or_sections=4, axis=2)")
        half = n.number(0.5)
        boxes = (f"concatenate((subtract({part}.1, multiply({half}, {part}.3)), subtract({part}.0, multiply({half}, {part}.2)), "
                 f"add({part}.1, multiply({half}, {part}.3)), add({part}.0, multiply({half}, {part}.2))), axis=2)")
    most = f"reshape({n.x(2)}, newshape=[])" if n.has(2) else n.number(0, "int64")
    iou = f"reshape({n.x(3)}, newshape=[])" if n.has(3) else n.number(0.0, "float32")
    score = f"reshape({n.x(4)}, newshape=[])" if n.has(4) else n.number(-1e30, "float32")
    y = n.let(f'vision.all_class_non_max_suppression({boxes}, {n.x(1)}, {most}, {iou}, {score}, output_format="onnx")')
    k = n.out().shape[0]
    return f"strided_slice({y}.0, begin=[0, 0], end=[{k}, 3], strides=[1, 1], axes=None)"


# ---- losses ------------------------------------------------------------------------------------------------------------

def loss(n, logp):
    ignore, kind = n.a("ignore_index", -100), n.a("reduction", "mean")
    weights = n.x(2) if n.has(2) else n.array(np.ones(n.shape(0)[1], n.v(0).dtype))
    return f'nn.nll_loss({logp}, {n.x(1)}, {weights}, reduction="{kind}", ignore_index={ignore})'


rule("NegativeLogLikelihoodLoss")(lambda n: loss(n, n.x(0)))


@rule("SoftmaxCrossEntropyLoss")
def softmax_loss(n):
    logp = n.let(f"nn.log_softmax({n.x(0)}, axis=1)")
    return [loss(n, logp), logp]


# ---- quantised -----------------------------------------------------------------------------------------------------------

def parameters(n, axis):
    """Scale and zero point of a tensor or of its channels."""
    if np.size(n.v(1)) > 1 and n.rank(1) > 1:
        raise LeftOut("quantisation in blocks")
    s = n.x(1) if n.rank(1) == 1 and n.shape(1)[0] > 1 else f"reshape({n.x(1)}, newshape=[])"
    many = n.rank(1) == 1 and n.shape(1)[0] > 1
    if n.has(2):
        z = cast(n.x(2), "int32") if many else cast(f"reshape({n.x(2)}, newshape=[])", "int32")
    else:
        z = n.array(np.zeros(n.shape(1) if many else (), "int32"))
    return s, z


@rule("QuantizeLinear")
def quantize(n):
    if n.dtype(0) != "float32" or n.dtype(1) != "float32":
        raise LeftOut("quantising of float16")
    if n.out_dtype() not in DTYPES or n.out_dtype()[0] in "fb":
        raise LeftOut("element types that Relay has not")
    s, z = parameters(n, n.a("axis", 1))
    return f'qnn.quantize({n.x(0)}, {s}, {z}, out_dtype="{n.out_dtype()}", axis={n.a("axis", 1)})' if n.rank(0) > 1 else \
        f'qnn.quantize({n.x(0)}, {s}, {z}, out_dtype="{n.out_dtype()}", axis=0)'


@rule("DequantizeLinear")
def dequantize(n):
    if n.dtype(1) != "float32":
        raise LeftOut("quantising of float16")
    s, z = parameters(n, n.a("axis", 1))
    return f'qnn.dequantize({n.x(0)}, {s}, {z}, out_dtype="float32", axis={n.a("axis", 1) if n.rank(0) > 1 else 0})'


@rule("DynamicQuantizeLinear")
def dynamic_quantize(n):
    x, zero = n.x(0), n.number(0)
    high, low = n.let(f"maximum({zero}, max({x}))"), n.let(f"minimum({zero}, min({x}))")
    s = n.let(f"divide(subtract({high}, {low}), {n.number(255)})")
    z = n.let(f"cast(round(clip(divide(negative({low}), {s}), a_min=0f, a_max=255f)), dtype=\"int32\")")
    return [f'qnn.quantize({x}, {s}, {z}, out_dtype="uint8")', s, cast(z, "uint8")]


# ---- signals -------------------------------------------------------------------------------------------------------------

@rule("DFT")
def dft(n):
    if n.has(1):
        raise LeftOut("DFT of another length")
    r = n.rank(0)
    axis = (n.ints(2)[0] if n.has(2) else n.a("axis", -2 if not n.has(2) else 1)) % r
    if n.a("onesided", 0) or axis != r - 2:
        raise LeftOut("DFT of one side or along another axis")
    x = n.let(f"split({n.x(0)}, indices_or_sections={n.shape(0)[-1]}, axis=-1)")
    re = n.let(f"squeeze({x}.0, axis=[-1])")
    im = n.let(f"squeeze({x}.1, axis=[-1])" if n.shape(0)[-1] == 2 else f"zeros_like({re})")
    y = n.let(f"dft({re}, {im}, inverse={bool(n.a('inverse', 0))})")
    return f"stack(({y}.0, {y}.1), axis=-1)"
