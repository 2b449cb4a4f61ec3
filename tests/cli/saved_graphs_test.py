"""Graphs as the original writes them: strings are nodes, and what nobody here knows comes through whole."""
import base64
import json
import os
import subprocess
import sys

relay = os.environ["RELAY"]
HEADER = '#[version = "0.0.5"]\n'
failures = []


def fmt(text, *options):
    done = subprocess.run([relay, "fmt", *options, "-"], input=text.encode(), capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def same(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}:\n--- got\n{got}\n--- wanted\n{wanted}")


def layout(graph):
    """The original's: items on their own lines, a comma and a blank at each end."""
    def fields(pairs, open_, close, depth):
        pad = "\n" + "  " * depth
        return open_ + ", ".join(pad + p for p in pairs) + "\n" + "  " * (depth - 1) + close

    def node(n):
        out = [f'"type_key": {json.dumps(n["type_key"])}']
        if "repr_str" in n:
            out.append(f'"repr_str": {json.dumps(n["repr_str"])}')
        if "repr_b64" in n:
            out.append(f'"repr_b64": "{n["repr_b64"]}"')
        attrs = [f'"{k}": "{v}"' for k, v in sorted(n.get("attrs", {}).items())]
        if len(attrs) == 1:
            out.append('"attrs": {' + attrs[0] + "}")
        elif attrs:
            out.append('"attrs": ' + fields(attrs, "{", "}", 4))
        if "keys" in n:
            out.append('"keys": ' + fields([json.dumps(k) for k in n["keys"]], "[", "]", 4))
        if "data" in n:
            out.append(f'"data": {json.dumps(n["data"])}')
        return fields(out, "{", "}", 3)

    arrays = fields([f'"{a}"' for a in graph["b64ndarrays"]], "[", "]", 2) if graph["b64ndarrays"] else "[]"
    return fields([f'"root": {graph["root"]}', '"nodes": ' + fields([node(n) for n in graph["nodes"]], "[", "]", 2),
                   '"b64ndarrays": ' + arrays, '"attrs": ' + json.dumps(graph["attrs"])], "{", "}", 1) + "\n"


def nodes(*rest):
    return [{"type_key": ""}, *rest]


def node(key, **attrs):
    return {"type_key": key, "attrs": {k: str(v) for k, v in attrs.items()}}


def string(text):
    return {"type_key": "runtime.String", **({"repr_str": text} if text else {})}


def call_of_numbers():
    """`%7 + %7` by names that are numbers: an index and a name never mix."""
    return {"root": 1, "nodes": nodes(
        node("relay.Call", _checked_type_=0, args=3, attrs=0, op=2, span=0, type_args=11, virtual_device_=9),
        {"type_key": "Op", "repr_str": "add"}, {"type_key": "Array", "data": [4, 12]},
        node("relay.Var", _checked_type_=0, span=0, type_annotation=7, vid=5, virtual_device_=9),
        node("relay.Id", name_hint=6), string("v3"),
        node("relay.TensorType", dtype="float32", shape=8, span=0), {"type_key": "Array"},
        node("VirtualDevice", device_type_int=-1, memory_scope=10, target=0, virtual_device_id=-1),
        string(""), {"type_key": "Array"},
        node("relay.Var", _checked_type_=0, span=0, type_annotation=7, vid=13, virtual_device_=9),
        node("relay.Id", name_hint=14), string("7")),
        "b64ndarrays": [], "attrs": {"tvm_version": "0.9.0"}}


def names():
    graph = call_of_numbers()
    text = layout(graph)
    same("names", fmt(text)[1], HEADER + "free_var %v3: float32;\nfree_var %v7: float32;\nadd(%v3, %v7)\n")
    same("as it was read", fmt(json.dumps(graph), "--to", "json")[1], text)
    for wrong in ("5", "99", "-1"):
        graph["nodes"][13]["attrs"]["name_hint"] = wrong
        code, _, said = fmt(json.dumps(graph))
        if code != 1 or "node 13 (relay.Id), field `name_hint`" not in said:
            failures.append(f"a name that is node {wrong}: {code} {said}")
    written = json.loads(fmt(HEADER + "type T[A] { C(A) } def @f(%x: T[int32]) { @f(%x) }", "--to", "json")[1])
    for n in written["nodes"]:
        at = n.get("attrs", {}).get("name_hint")
        if at is not None and written["nodes"][int(at)]["type_key"] != "runtime.String":
            failures.append(f"written: {n}")


def earlier_releases():
    """Before 0.7 a text stood in the field, and several kinds had other names."""
    graph = {"root": 1, "nodes": nodes(
        node("relay.Module", functions=2, global_var_map_=15, type_definitions=14, global_type_var_map_=16),
        {"type_key": "Map", "data": [3, 4]}, node("relay.GlobalVar", name_hint="5", span=0),
        node("relay.Function", params=5, body=10, ret_type=0, type_params=0, attrs=0, span=0),
        {"type_key": "Array", "data": [6]}, node("relay.Var", vid=7, type_annotation=8, span=0),
        node("relay.Id", name_hint="4"), node("relay.TensorType", dtype="float32", shape=9, span=0),
        {"type_key": "Array", "data": [17]},
        node("relay.Call", op=11, args=12, attrs=13, type_args=0, span=0),
        {"type_key": "relay.Op", "global_key": "nn.pad"}, {"type_key": "Array", "data": [6, 20]},
        node("relay.attrs.PadAttrs", pad_width=18, pad_mode="edge"),
        {"type_key": "Map"}, {"type_key": "StrMap", "keys": ["5"], "data": [3]}, {"type_key": "StrMap"},
        node("Variable", name="9", dtype="int32"), {"type_key": "Array", "data": [19]},
        {"type_key": "Array", "data": [21, 21]}, node("relay.Constant", data=0),
        node("IntImm", dtype="int32", value=1)),
        "b64ndarrays": [base64.b64encode(bytes.fromhex(
            "3fa1b496f0405edd000000000000000001000000000000000000000002200100040000000000000000004040")).decode()],
        "attrs": {"tvm_version": "0.6.1"}}
    code, text, said = fmt(json.dumps(graph))
    wanted = HEADER + ("def @5(%v4: Tensor[(meta[tir.Var][0]), float32]) {\n"
                       "  nn.pad(%v4, 3f, pad_width=[[1, 1]], pad_mode=\"edge\")\n}\n\n#[metadata]\n")
    same("0.6", text[:len(wanted)] + said, wanted)
    written = json.loads(fmt(json.dumps(graph), "--to", "json")[1])
    same("0.6 becomes 0.9", sorted({n["type_key"] for n in written["nodes"]} &
                                   {"relay.Module", "relay.GlobalVar", "relay.Op", "StrMap", "Variable"}), [])


def earlier_attributes():
    """Before 0.9 a device was a number in the record, and the flag beside it had another name."""
    graph = json.loads(fmt(HEADER + "def @f(%x: int32) { on_device(%x, virtual_device=\"cuda:0\", constrain_result=True) }",
                           "--to", "json")[1])
    record = next(n["attrs"] for n in graph["nodes"] if n["type_key"] == "relay.attrs.OnDeviceAttrs")
    record.clear()
    record |= {"device_type": "2", "is_fixed": "1"}
    code, text, said = fmt(json.dumps(graph))
    same("attributes of 0.7", said or text, HEADER + "def @f(%x: int32) {\n"
         "  on_device(%x, virtual_device=\"cuda\", constrain_result=True)\n}\n")


def fields_of(graph, key):
    return [n["attrs"] for n in json.loads(graph)["nodes"] if n["type_key"] == key]


def numbers_that_refer_to_nothing():
    """A number in an object that nobody knows stays what it is when the nodes around it get other numbers."""
    numbers = {f"n{i}": str(i) for i in range(8, 20)}
    texts = {**numbers, "a": "08", "b": "+8", "c": "0", "d": "0+1", "e": "+", "f": "00"}
    graph = {"root": 1, "nodes": nodes(
        node("relay.Call", op=2, args=4, attrs=5, type_args=0), node("relay.Var", vid=3, type_annotation=0),
        node("relay.Id", name_hint="f"), {"type_key": "Array"}, node("my.Thing", **texts, inner=6),
        {"type_key": "Array", "data": [7]}, node("IntImm", dtype="int32", value=5)),
        "b64ndarrays": [], "attrs": {"tvm_version": "0.6.0"}}
    written = fmt(json.dumps(graph), "--to", "json")[1]
    same("the text of a graph", fmt(written)[1], fmt(json.dumps(graph))[1])
    same("by way of the text", fmt(fmt(written)[1], "--to", "json")[1], written)
    thing, = fields_of(written, "my.Thing")
    same("as numbers", {k: str(int(thing[k])) for k in numbers}, numbers)


def objects():
    """Devices, symbolic extents and objects of kinds that nobody knows, shared as they are."""
    section = {"root": 1, "nodes": nodes(
        {"type_key": "Map", "keys": ["VirtualDevice", "tir.SizeVar", "my.Thing"], "data": [2, 15, 18]},
        {"type_key": "Array", "data": [3, 14]},
        node("VirtualDevice", device_type_int=2, memory_scope=13, target=4, virtual_device_id=0),
        node("Target", attrs=12, features=0, host=0, keys=7, kind=5, tag=6),
        {"type_key": "TargetKind", "repr_str": "cuda"}, string(""), {"type_key": "Array", "data": [8, 9]},
        string("cuda"), string("gpu"), node("IntImm", dtype="int32", span=0, value=1024), string("sm_90"),
        {"type_key": "Map", "keys": ["max_num_threads", "arch"], "data": [10, 11]}, string("global"),
        node("VirtualDevice", device_type_int=2, memory_scope=13, target=4, virtual_device_id=3),
        {"type_key": "Array", "data": [16]},
        node("tir.SizeVar", dtype="int64", name=17, span=0, type_annotation=0), string("8"),
        {"type_key": "Array", "data": [19, 24]},
        node("my.Thing", count=19, inner=20, label="hello", size=400, null=0, shared=21),
        node("my.Other", name=21, n=1, list=22), string("x"), {"type_key": "Map", "data": [23, 21]},
        node("FloatImm", dtype="float64", value=0.5), {**node("my.Thing", inner=20, target=4), "data": [20, 21]}),
        "b64ndarrays": [], "attrs": {"tvm_version": "0.9.0"}}
    program = HEADER + """\
def @main(%x {virtual_device=meta[VirtualDevice][0]}: Tensor[(meta[tir.SizeVar][0], 4), float32], \
%y {virtual_device=meta[VirtualDevice][1]}: float32, a=meta[my.Thing][0], b=meta[my.Thing][0], c=meta[my.Thing][1]) {
  (%x, %y)
}

#[metadata]
"""
    code, text, said = fmt(program + json.dumps(section))
    same("what refers to it", text[:len(program)] + said, program)
    again = fmt(text)[1]
    same("printed and read", again, text)
    found = json.loads(text[len(program):])["nodes"]
    kinds = [n["type_key"] for n in found]
    for kind, n in (("Target", 1), ("my.Other", 1), ("my.Thing", 2), ("VirtualDevice", 2), ("tir.SizeVar", 1)):
        same(f"nodes of {kind}", kinds.count(kind), n)
    thing = found[kinds.index("my.Thing")]["attrs"]
    other = found[kinds.index("my.Other")]["attrs"]
    same("what is no reference", [thing[k] for k in ("count", "label", "size", "null")], ["019", "hello", "400", "0"])
    same("what is shared", int(thing["shared"]), int(other["name"]))
    same("a name that is a number", found[int(found[kinds.index("tir.SizeVar")]["attrs"]["name"])]["repr_str"], "8")
    for graph in (fmt(text, "--to", "json")[1],):
        back = json.loads(fmt(graph)[1][len(program):])["nodes"]
        same("kinds by way of a graph", [n["type_key"] for n in back], kinds)


def texts_in_base64():
    """With its length in front, as the original writes it, or without."""
    for text in ("YWJj", "AwAAAAAAAABhYmM=", "AAAAAAAAAAA="):
        graph = call_of_numbers()
        del graph["nodes"][14]["repr_str"]
        graph["nodes"][14]["repr_b64"] = text
        written = fmt(json.dumps(graph), "--to", "json")[1]
        same(text, fmt(written)[1], fmt(json.dumps(graph))[1])
        same(f"{text} as text", "abc" in fmt(written)[1], not text.startswith("AAAA"))


def numbers_as_texts():
    """Numbers of nodes may be texts anywhere, and what is written is the same."""
    graph = call_of_numbers()
    wanted = fmt(json.dumps(graph), "--to", "json")[1]
    graph["root"] = "1"
    for n in graph["nodes"]:
        if "data" in n:
            n["data"] = [str(i) for i in n["data"]]
    same("numbers as texts", fmt(json.dumps(graph), "--to", "json")[1], wanted)
    graph["nodes"].append({"type_key": "Map", "keys": "no list", "data": [2, 3]})
    written = json.loads(fmt(json.dumps(graph), "--to", "json")[1])
    same("keys that are no list", "keys" in written["nodes"][-1], False)


def nothing():
    """Nodes that stand for nothing are as node 0 is."""
    graph = {"root": 1, "nodes": nodes(
        node("relay.Call", op=2, args=4, attrs=5, type_args=0), node("relay.Var", vid=3, type_annotation=0),
        node("relay.Id", name_hint="f"), {"type_key": "Array"}, node("my.Thing", a=0, b=6, c=7, d=8),
        {"type_key": ""}, {"type_key": "Array", "data": [6, 0]}, {}),
        "b64ndarrays": [], "attrs": {"tvm_version": "0.6.0"}}
    written = fmt(json.dumps(graph), "--to", "json")[1]
    same("nothing", fmt(written)[1], fmt(json.dumps(graph))[1])
    thing, = fields_of(written, "my.Thing")
    same("fields without a node", [thing[k] for k in "abd"], ["0", "0", "0"])
    same("it is one program", fmt(written, "--to", "json")[1], written)


def field_without_a_name():
    """Nobody knows it, in an object that is known as in others."""
    graph = call_of_numbers()
    for node_ in graph["nodes"]:
        if node_["type_key"] in ("VirtualDevice", "relay.Var"):
            node_["attrs"] |= {"": "int9", "memory_scope target": "5", "target memory_scope": "5"}
    written = fmt(json.dumps(graph), "--to", "json")[1]
    same("a field without a name", [n["attrs"].get("") for n in json.loads(written)["nodes"]
                                    if n["type_key"] == "VirtualDevice"], ["int9"])
    same("its text", fmt(written)[1], fmt(json.dumps(graph))[1])


def compiled():
    graph = {"nodes": [{"op": "null", "name": "x", "inputs": []},
                       {"op": "tvm_op", "name": "f", "attrs": {"func_name": "f"}, "inputs": [[0, 0, 0]]}],
             "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {}, "node_row_ptr": [0, 1, 2]}
    code, _, said = fmt(json.dumps(graph))
    if code != 1 or "names kernels" not in said or "no way back" not in said:
        failures.append(f"a compiled graph: {code} {said}")


names()
earlier_releases()
earlier_attributes()
numbers_that_refer_to_nothing()
objects()
texts_in_base64()
numbers_as_texts()
nothing()
field_without_a_name()
compiled()
print("\n".join(failures[:10]))
sys.exit(bool(failures))
