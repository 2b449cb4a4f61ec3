"""A part of what assemble.py gives to NVIDIA's assembler, where there is one."""
import sys

from assemble import main

sys.exit(main(["--part", "19"]))
