"""A part of the node tests of ONNX, through files that `relay import` reads; against_onnx_files.py runs all."""
import sys

from against_onnx_files import main

sys.exit(main(["--part", "10"]) or main(["--engine", "jit", "--part", "120"]) or main(["--engine", "back", "--part", "30"]))
