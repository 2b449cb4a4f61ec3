"""Writes tests/exchange/small.onnx, the model of docs/import.md: a layer, and a loop that halves until the sum is small."""
import os

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info

body = helper.make_graph(
    [node("Mul", ["now", "half"], ["next"]), node("ReduceSum", ["next"], ["sum"], keepdims=0), node("Greater", ["sum", "one"], ["more"])],
    "body", [value("turn", INT64, []), value("go", BOOL, []), value("now", FLOAT, ["batch", 2])],
    [value("more", BOOL, []), value("next", FLOAT, ["batch", 2])])
arrays = {"fc.weight": np.arange(8, dtype="float32").reshape(2, 4), "fc.bias": np.array([0.5, -0.5], "float32"), "half": np.array(0.5, "float32"),
          "one": np.array(1, "float32"), "yes": np.array(True)}
graph = helper.make_graph(
    [node("Gemm", ["x", "fc.weight", "fc.bias"], ["/fc/Gemm_output_0"], transB=1), node("Relu", ["/fc/Gemm_output_0"], ["/Relu_output_0"]),
     node("Loop", ["", "yes", "/Relu_output_0"], ["halved"], body=body)],
    "small", [value("x", FLOAT, ["batch", 4])], [value("halved", FLOAT, ["batch", 2])],
    [numpy_helper.from_array(v, k) for k, v in arrays.items()])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), os.path.join(os.path.dirname(__file__), "small.onnx"))
