"""A part of what against_numpy.py compares, by both engines."""
import sys

from against_numpy import main

sys.exit(main(["--part", "7"]) or main(["--engine", "jit", "--part", "41"]))
