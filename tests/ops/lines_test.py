"""docs/architecture.md tells how many lines an operator takes, within a tenth."""
import os
import subprocess
import sys

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/op_lines.py")
sys.exit(subprocess.run([sys.executable, SCRIPT, "--check"]).returncode)
