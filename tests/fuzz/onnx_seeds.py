"""Writes small ONNX models to a folder, from which the fuzzer of the importer starts: the node tests of the `onnx` package.

    onnx_seeds.py FOLDER [CHANGED]

CHANGED: as many copies more, in each of which a few numbers, names or shapes are others.
"""
import os
import random
import sys
import warnings

from onnx import ModelProto, helper, numpy_helper

MOST = 20000  # bytes
NUMBERS = [0, 1, -1, 2, 3, 7, 64, 65, -2**31, 2**31 - 1, 2**31, 2**62, -2**63, 2**63 - 1]


def graphs(g):
    yield g
    for node in g.node:
        for a in node.attribute:
            if a.HasField("g"):
                yield from graphs(a.g)


def change(model, r):
    out = ModelProto()
    out.CopyFrom(model)
    for _ in range(r.randint(1, 3)):
        g = r.choice(list(graphs(out.graph)))
        values = [v for v in list(g.input) + list(g.output)]
        names = [n for node in g.node for n in list(node.input) + list(node.output)] + [""]
        what = r.randrange(7)
        node = r.choice(g.node) if g.node else None
        if what == 0 and node and node.attribute:
            a = r.choice(node.attribute)
            if a.ints:
                a.ints[r.randrange(len(a.ints))] = r.choice(NUMBERS)
                if r.random() < 0.3:
                    a.ints.extend(r.choices(NUMBERS, k=r.choice([1, 70])))
            elif a.HasField("i"):
                a.i = r.choice(NUMBERS)
            elif a.HasField("f"):
                a.f = r.choice([0, -1, 1e30, float("nan"), float("inf")])
            elif a.HasField("s"):
                a.s = r.choice([b"", b"max", b"wrap", b"SAME_UPPER", b"linear", b"\xff\x00"])
        elif what == 1 and node and node.attribute:
            del node.attribute[r.randrange(len(node.attribute))]
        elif what == 2 and node and node.input:
            node.input[r.randrange(len(node.input))] = r.choice(names)
        elif what == 3 and node and node.input:
            del node.input[r.randrange(len(node.input)):]
        elif what == 4 and node:
            node.output.append(r.choice(["", "more"]))
        elif what == 5 and values:
            t = r.choice(values).type.tensor_type
            if r.random() < 0.3:
                t.elem_type = r.randrange(26)
            elif t.shape.dim:
                d = t.shape.dim[r.randrange(len(t.shape.dim))]
                if r.random() < 0.4:
                    d.dim_param = r.choice(["n", "m", "a b"])
                else:
                    d.dim_value = r.choice(NUMBERS)
            if r.random() < 0.2:
                t.shape.dim.add().dim_value = 3
        elif what == 6 and g.initializer:
            t = r.choice(g.initializer)
            a = numpy_helper.to_array(t)
            if a.dtype.kind in "iu" and a.size:
                b = a.copy().reshape(-1)
                b[r.randrange(b.size)] = r.choice([v for v in NUMBERS if -2**31 <= v < 2**31]) % 2**31 if a.dtype.itemsize < 8 else r.choice(NUMBERS[:-1])
                t.CopyFrom(numpy_helper.from_array(b.reshape(a.shape), t.name))
    return out


def later():
    """A model with what came after the schema: defaults and overloads of functions, metadata."""
    inside = helper.make_node("LeakyRelu", ["v"], ["w"])
    inside.attribute.add(name="alpha", ref_attr_name="alpha", type=1)
    value = lambda k: helper.make_tensor_value_info(k, 1, ["n", 2])  # noqa: E731
    nodes = [helper.make_node("own", [x], [y], domain="d", overload=o, name=f"/a/a.0/{y}/own") for x, y, o in (("x", "y", "p"), ("y", "z", "q"))]
    for node in nodes:
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"['', 'a', 'a.0', '{node.output[0]}']")
    model = helper.make_model(helper.make_graph(nodes, "g", [value("x")], [value("z")]), opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("d", 1)])
    for o in "pq":
        f = helper.make_function("d", "own", ["v"], ["w"], [inside], [helper.make_opsetid("", 18)], attribute_protos=[helper.make_attribute("alpha", 0.5)])
        f.overload = o
        model.functions.append(f)
    return model


folder = sys.argv[1]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases
    cases = collect_testcases(None)
changed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
models = [later()]
with open(os.path.join(folder, "later"), "wb") as f:
    f.write(models[0].SerializeToString())
for case in cases[::1 if changed else 3]:
    model = case.model
    inputs = model.graph.input
    for value, proto in list(zip(case.data_sets[0][0], list(inputs)))[1:]:  # what Relay takes as attributes
        if hasattr(value, "dtype") and value.dtype.kind in "iu" and value.size < 16:
            model.graph.initializer.append(numpy_helper.from_array(value, proto.name))
            inputs.remove(proto)
    data = model.SerializeToString()
    if len(data) < MOST:
        with open(os.path.join(folder, case.name), "wb") as f:
            f.write(data)
        models.append(model)
r = random.Random(1)
for i in range(changed):
    try:
        data = change(r.choice(models), r).SerializeToString()
    except (ValueError, OverflowError):  # a number that the field does not hold
        continue
    with open(os.path.join(folder, f"changed{i}"), "wb") as f:
        f.write(data)
