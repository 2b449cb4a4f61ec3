"""The measurement of bandwidth runs; on the stand-in its numbers mean nothing."""
# LABELS: slow
# (What Python loads beside the sanitizers' build would have to be loaded before Python.)
import subprocess
import sys

from bandwidth import RELAY, main

if subprocess.run([RELAY, "run", "-", "--exec", "gpu"], input="1", text=True, capture_output=True).returncode:
    print("skipped: no engine gpu")
    sys.exit(77)
sys.exit(main(["--mib", "1", "--seconds", "0"]))
