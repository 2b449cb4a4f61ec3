"""A part of the node tests of ONNX, by both engines; against_onnx.py runs all."""
import sys

from against_onnx import main

sys.exit(main(["--part", "4"]) or main(["--engine", "jit", "--part", "40"]))
