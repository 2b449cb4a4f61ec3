"""Batches and steps of training of small networks, on the stand-in and on this machine's processor."""
import sys

from networks import main

sys.exit(main(["--check", "--batch", "3", "mlp", "mlp:step", "dqn:step"]))
