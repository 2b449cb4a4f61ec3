"""Graphs with something wrong in them give a diagnostic with a place, and never a crash."""
import base64
import copy
import json
import os
import subprocess
import sys
import tempfile

relay = os.environ["RELAY"]
HEADER = '#[version = "0.0.5"]\n'
PROGRAM = HEADER + """\
type Pair[A] { Mk(A, (A, ref(A))), Nothing, }
def @main[B](%x: Tensor[(2, ?), float32], %n: B, hash="ab") -> Tensor[(2, ?), float32] {
  let %p = Mk(%n, (%n, ref(%n)));
  let %f = fn (%k: int32) { if (%k > 0) { %f(%k - 1) } else { 7 } };
  %0 = add(%x, meta[relay.Constant][0]);
  match (%p) { Mk(_, (%a, _)) => { nn.softmax(multiply(%0, %0), axis=1) }, Nothing => { %x } }
}
#[metadata]
"""
failures = []


def fmt(text, *options):
    return subprocess.run([relay, "fmt", *options, "-"], input=text.encode(), capture_output=True)


def check(what, graph, *wanted, code=1):
    text = graph if isinstance(graph, str) else json.dumps(graph, indent=1)
    done = fmt(text, "--from", "json")
    said = done.stderr.decode()
    if done.returncode != code:
        failures.append(f"{what}: exit {done.returncode}, not {code}: {said[:300]}")
    for word in wanted:
        if word not in said:
            failures.append(f"{what}: nothing about {word!r} in\n{said[:500]}")


def example():
    array = b"\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd" + bytes(8) + b"\1" + bytes(7)
    array += b"\1\0\0\0\2\x20\1\0" + (2).to_bytes(8, "little") + (8).to_bytes(8, "little") + bytes(8)
    section = {"root": 1, "nodes": [
        {"type_key": ""}, {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
        {"type_key": "Array", "data": [3]},
        {"type_key": "relay.Constant", "attrs": {"data": "0"}}],
        "b64ndarrays": [base64.b64encode(array).decode()]}
    done = fmt(PROGRAM + json.dumps(section), "--to", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def find(graph, key):
    return next(i for i, n in enumerate(graph["nodes"]) if n["type_key"] == key)


def change(key, field, value):
    graph = copy.deepcopy(GOOD)
    at = find(graph, key)
    node = graph["nodes"][at]
    if field in ("data", "repr_str", "type_key"):
        node[field] = value
    else:
        node["attrs"][field] = value
    return graph, f"node {at} ({node['type_key']})"


GOOD = example()


def named():
    """What is wrong is said in words, at the node and the field."""
    check("good", GOOD, code=0)
    check("good in one line", json.dumps(GOOD), code=0)
    turned = {k: GOOD[k] for k in reversed(GOOD)}
    turned["nodes"] = [dict(reversed(n.items()), more=[1]) for n in GOOD["nodes"]]
    check("another order, unknown fields", turned, code=0)
    for value in ("99999", "-1", "x", "9" * 40, {}, "1e3"):
        graph, place = change("relay.If", "cond", value)
        check(f"cond {value}", graph, "E0122", place, "`cond`", "number of a node", "input:")
    graph, place = change("relay.If", "cond", "0")
    check("null", graph, place, "no expression")
    graph, place = change("relay.If", "cond", str(find(GOOD, "relay.TensorType")))
    check("another kind", graph, place, "no expression")
    graph, place = change("relay.If", "cond", str(find(GOOD, "relay.If")))
    check("cycle", graph, place, "part of itself")
    graph, place = change("relay.TensorType", "dtype", "flot32")
    check("dtype", graph, place, "`flot32` is no element type")
    graph, place = change("Op", "repr_str", "no.such")
    check("operator", graph, place, "no operator `no.such`")
    graph, _ = change("relay.attrs.SoftmaxAttrs", "axis", "1")
    at = find(graph, "relay.attrs.SoftmaxAttrs")
    graph["nodes"][at] = {"type_key": "relay.attrs.ReshapeAttrs",
                          "attrs": {"newshape": str(find(graph, "IntImm"))}}
    next(n for n in graph["nodes"] if n.get("repr_str") == "nn.softmax")["repr_str"] = "reshape"
    check("a number for a list", graph, f"node {at} (", "a list of integers is wanted here")
    graph["nodes"][at] = {"type_key": "relay.attrs.CastAttrs", "attrs": {"dtype": "flot32"}}
    next(n for n in graph["nodes"] if n.get("repr_str") == "reshape")["repr_str"] = "cast"
    check("a dtype of an operator", graph, f"node {at} (", "`dtype`", "no element type")
    graph = copy.deepcopy(GOOD)
    at = int(graph["nodes"][find(graph, "IRModule")]["attrs"]["functions"])
    graph["nodes"][at]["data"][0] = 0
    check("a function without a name", graph, f"node {at} (Map)", "needs a name")
    graph, place = change("IntImm", "value", "-2")
    check("extent", graph, place, "0 or more")
    graph, place = change("relay.Constant", "virtual_device_", "0")
    graph["nodes"][find(graph, "relay.Constant")]["attrs"]["data"] = "999"
    check("array", graph, place, "number of an array")
    graph, _ = change("relay.attrs.SoftmaxAttrs", "axis", "1")
    at = find(graph, "relay.attrs.SoftmaxAttrs")
    graph["nodes"][at] = {"type_key": "DictAttrs", "attrs": {"__dict__": str(at)}}
    check("a dictionary of itself", graph, "E0122")
    graph["nodes"][at]["attrs"]["__dict__"] = str(len(graph["nodes"]))
    graph["nodes"] += [{"type_key": "Map", "keys": ["axes"], "data": [find(graph, "IntImm")]}]
    check("a dictionary for an operator", graph, "E0114", "axes")
    graph, place = change("relay.TypeData", "header", str(find(GOOD, "relay.TensorType")))
    check("header", graph, place, "no name of a data type")
    graph, _ = change("relay.Constructor", "belong_to", str(len(GOOD["nodes"])))
    graph["nodes"].append({"type_key": "relay.TypeData"})
    check("definition", graph, "does not define this type")
    graph = copy.deepcopy(GOOD)
    graph["b64ndarrays"][0] = graph["b64ndarrays"][0][:40]
    check("truncated base64", graph, "relay.Constant")
    for value in ([{"x": "1"}], {}, True, None):
        what, place = change("relay.Call", "new", value)
        check(f"a field {value}", what, "E0122", place, "`new`", "a text in quotes")
    graph["b64ndarrays"][0] = "%%%"
    check("no base64", graph, "not in base64")
    check("no empty node", dict(GOOD, nodes=GOOD["nodes"][1:]), "node 0")
    check("root", dict(GOOD, root=999), "`root`")
    check("no nodes", {"root": 0, "x": 1}, "`nodes`")
    check("not closed", json.dumps(GOOD)[:-30], "not JSON", "line")
    check("a number of hundred digits", '{"root": ' + "9" * 100 + ', "nodes": []}', "`root`", "input:1:10")
    check("deep", '{"root": ' + "[" * 100000, "not JSON")
    check("text", "1 + 2", code=2)


def shared():
    """Values and patterns that lead back to themselves, or would grow without end when read."""
    fields = ("begin", "end", "strides", "axes")
    graph, _ = change("relay.attrs.SoftmaxAttrs", "axis", "1")
    at = find(graph, "relay.attrs.SoftmaxAttrs")
    record = graph["nodes"][at] = {"type_key": "relay.attrs.StridedSliceAttrs",
                                   "attrs": dict.fromkeys(fields, str(at))}
    next(n for n in graph["nodes"] if n.get("repr_str") == "nn.softmax")["repr_str"] = "strided_slice"
    check("a record in itself", graph, f"node {at} (", "nested too deeply, or in a circle")
    first = len(graph["nodes"])
    record["attrs"] = dict.fromkeys(fields, str(first))
    graph["nodes"] += [{"type_key": "Array", "data": [i + 1, i + 1]}
                       for i in range(first, first + 40)] + [{"type_key": "Array"}]
    check("a list of lists of lists", graph, "values share too many parts")
    graph, _ = change("relay.Clause", "lhs", str(len(GOOD["nodes"])))
    first = len(graph["nodes"])
    for i in range(first, first + 80, 2):
        graph["nodes"] += [
            {"type_key": "relay.PatternTuple", "attrs": {"patterns": str(i + 1)}},
            {"type_key": "Array", "data": [i + 2, i + 2]}]
    graph["nodes"].append({"type_key": "relay.PatternWildcard"})
    check("a pattern of patterns", graph, "patterns share too many parts")


def same_again(what, graph):
    """What is read is written, and that is the same program."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (os.path.join(folder, name) for name in ("a.json", "b.json"))
        with open(first, "w") as f:
            json.dump(graph, f)
        with open(second, "wb") as f:
            f.write(fmt(json.dumps(graph), "--from", "json", "--to", "json").stdout)
        done = subprocess.run([relay, "equal", first, second], capture_output=True)
    if done.returncode != 0:
        failures.append(f"{what}: exit {done.returncode}: {done.stdout.decode()[:300]}"
                        f"{done.stderr.decode()[:300]}")


def unbound():
    """A type variable that nothing has as its parameter is that of the same name in another text."""
    for text, key, field in (("fn [A](%x: A) -> A { %x }", "relay.Function", "type_params"),
                             (HEADER + "type T[A] { C(A) }", "relay.TypeData", "type_vars")):
        graph = json.loads(fmt(text, "--to", "json").stdout)
        graph["nodes"][find(graph, key)]["attrs"][field] = str(len(graph["nodes"]))
        graph["nodes"].append({"type_key": "Array"})
        same_again(f"unbound: {text}", graph)


def in_attributes():
    """Expressions in attributes are those around them; a record of the metadata has constants only."""
    text = "free_var %f: fn (int32) -> int32; free_var %x: int32;"
    graph = json.loads(fmt(text + '%f(%x, a=[%x, [add]], attrs_type_key="k")', "--to", "json").stdout)
    same_again("a list in attributes", graph)
    call = find(graph, "relay.Call")
    next(n for n in graph["nodes"] if "keys" not in n and len(n.get("data", "")) == 2)["data"].append(call)
    check("a call among its attributes", graph, f"node {call} (", "part of itself")
    graph = json.loads(fmt("fn (%x: int32, a=[1]) { %x }", "--to", "json").stdout)
    number, var = find(graph, "IntImm"), find(graph, "relay.Var")
    at = next(n for n in graph["nodes"] if n.get("data") == [number])
    at["data"] = [var]
    check("a variable among a function's attributes", graph, "only a constant or the name of a function can stand here")


def reads_back(what, graph):
    done = fmt(json.dumps(graph), "--from", "json")
    again = fmt(done.stdout.decode())
    if done.returncode or again.returncode or again.stdout != done.stdout:
        failures.append(f"{what}: {done.stderr.decode()[:300]}{done.stdout.decode()[:300]}"
                        f"{again.stderr.decode()[:300]}")


def not_in_text():
    """What the text cannot say of calls is refused, of variables that are no parameters left out."""
    nodes = GOOD["nodes"]
    call = next(i for i, n in enumerate(nodes) if n["type_key"] == "relay.Call" and
                nodes[int(n["attrs"]["op"])]["type_key"] == "relay.Var")
    for node in ({"type_key": "Array"}, {"type_key": "Array", "data": [find(GOOD, "relay.Constant")]},
                 {"type_key": "runtime.String", "repr_str": "x"}):
        graph = copy.deepcopy(GOOD)
        graph["nodes"][call]["attrs"]["attrs"] = str(len(nodes))
        graph["nodes"].append(node)
        check(f"attributes {node}", graph, "E0122", f"node {len(nodes)} (", "are a record")
    graph = copy.deepcopy(GOOD)
    graph["nodes"][call]["attrs"]["attrs"] = str(len(nodes))
    graph["nodes"].append({"type_key": "attrs.TestAttrs", "attrs": {"name": "abc"}})
    reads_back("a record of attributes", graph)
    graph["nodes"][-1] = {"type_key": "DictAttrs", "attrs": {"__dict__": str(len(nodes) + 1)}}
    graph["nodes"].append({"type_key": "Map", "keys": ["a"], "data": [find(GOOD, "IntImm")]})
    reads_back("a dictionary of attributes", graph)
    params = {i for n in nodes if n["type_key"] == "relay.Function"
              for i in nodes[int(n["attrs"]["params"])].get("data", [])}
    for at, node in enumerate(nodes):
        if node["type_key"] != "relay.Var":
            continue
        for device in ({"type_key": "runtime.String", "repr_str": ""},
                       {"type_key": "VirtualDevice", "attrs": {
                           "device_type_int": "1", "memory_scope": "0", "target": "0",
                           "virtual_device_id": "0"}}):
            graph = copy.deepcopy(GOOD)
            graph["nodes"][at]["attrs"]["virtual_device_"] = str(len(nodes))
            graph["nodes"].append(device)
            reads_back(f"{'parameter' if at in params else 'variable'} {at} {device}", graph)


def swept():
    """Each field of each node in turn becomes something else: an answer, whatever it is."""
    n = len(GOOD["nodes"])
    for at, node in enumerate(GOOD["nodes"]):
        for field in node.get("attrs", {}):
            for value in ("0", str(at), str((at * 7 + 3) % n), None):
                graph = copy.deepcopy(GOOD)
                if value is None:
                    del graph["nodes"][at]["attrs"][field]
                else:
                    graph["nodes"][at]["attrs"][field] = value
                done = fmt(json.dumps(graph), "--from", "json")
                if done.returncode not in (0, 1):
                    failures.append(f"node {at}, {field}={value}: exit {done.returncode} "
                                    f"{done.stderr.decode()[:300]}")


named()
shared()
unbound()
in_attributes()
not_in_text()
swept()
print("\n".join(failures[:10]))
sys.exit(bool(failures))
