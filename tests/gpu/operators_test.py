"""A part of what tests/ops/against_numpy.py compares, on the stand-in."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ops"))

from against_numpy import main

sys.exit(main(["--engine", "gpu", "--part", "43"]))
