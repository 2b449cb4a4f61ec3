"""The engine `auto` decides by what was counted: two runs give the same bits, whatever else the machine does meanwhile, whether code is
made or was kept; definitions that were read again, types and shapes included."""
import os
import subprocess
import tempfile

SCRIPT = """
def @walk(%i: int32, %x: float32, %y: float32) -> float32 {
  if (%i == 0) { %x } else { @walk(%i - 1, %x * 0.999f + %y / 3f, %y * 0.5f - %x * 0.3f) }
}
def @norm(%x: Tensor[(1000), float32]) -> float32 { sum(exp(%x * 0.01f) * %x + sqrt(%x), axis=[0]) }
def @norms(%n: int32, %x: Tensor[(1000), float32], %s: float32) -> float32 {
  if (%n == 0) { %s } else { @norms(%n - 1, %x * 0.99f, %s * 0.5f + @norm(%x)) }
}
def @any(%x: Tensor[(?), float32]) -> float32 { sum(%x * %x, axis=[0]) }
def @down[A](%f: fn(A) -> A, %n: int32, %a: A) -> A { if (%n == 0) { %a } else { @down(%f, %n - 1, %f(%a)) } }
let %v: Tensor[(1000), float32] = arange(0f, 370f, 0.37f, dtype="float32");
""" + "\n".join(
    f"@walk({n}, 1f, 2f)\n@norms({n} / 20, %v, 0f)\n@any(%v * {n}f)\n"
    f"@down(fn (%x: float32) {{ %x * 1.1f - %x * %x }}, {n}, 0.3f)\n"
    for n in (10, 3000, 5000, 5000, 50000, 300)) + """
:engine
def @walk(%i: int32, %x: float32, %y: float32) -> float32 {
  if (%i == 0) { %x } else { @walk(%i - 1, %x * 0.998f + %y / 3f, %y * 0.5f - %x * 0.3f) }
}
@walk(100, 1f, 2f)
@walk(100000, 1f, 2f)
"""


def run(**environment):
    done = subprocess.run([os.environ["RELAY"]], input=SCRIPT, text=True, capture_output=True,
                          env=dict(os.environ, **environment))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


first = run(RELAY_CACHE="off")
for name in ("@walk", "@norms", "@down"):
    assert name in first.split("compiled: ")[1], first
busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
try:
    assert run(RELAY_CACHE="off") == first
finally:
    for process in busy:
        process.kill()
        process.wait()
with tempfile.TemporaryDirectory() as folder:
    for _ in range(2):
        assert run(RELAY_CACHE=folder) == first
