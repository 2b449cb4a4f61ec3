"""Each call of the driver fails once, in a session that goes on: the cell in which it happens says so, the next one is right. An interrupt
gives the prompt back while the card works on."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

RELAY = os.environ["RELAY"]
CELLS = "let %x = reshape(arange(0f, 12f, 1f, dtype=\"float32\"), newshape=[3, 4]);\n" + 3 * "sum(nn.relu(%x) + tanh(%x))\n"


def entries():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/cuda.def")) as f:
        return re.findall(r"^CUDA_(?:ENTRY|OPTIONAL)\(\w+, (\w+),", f.read(), re.M)


def relay(text, *args, **environment):
    return subprocess.run([RELAY, *args], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=100, input=text)


class Failures(unittest.TestCase):
    def test_every_entry(self):
        right = relay(CELLS, "--exec", "gpu").stdout
        self.assertEqual(right.count("\n"), 4, right)
        value = right.split("\n")[-2]
        unopened = failed = 0
        for entry in entries():
            for nth, code in ((1, 719), (2, 2)):
                # Where machine code is kept, the driver is asked for it.
                with tempfile.TemporaryDirectory() as folder:
                    kept = {"XDG_CACHE_HOME": folder, "RELAY_CACHE": "64"} if entry.startswith("cuLink") else {}
                    done = relay(CELLS, "--exec", "gpu", STANDIN_FAIL="%s:%d:%d" % (entry, nth, code), **kept)
                what = "%s:%d:%d\n%s%s" % (entry, nth, code, done.stdout, done.stderr)
                self.assertIn(done.returncode, (0, 2, 3), what)
                if "E0407" in done.stderr:
                    unopened += 1
                elif done.returncode:
                    failed += 1
                    self.assertRegex(done.stderr, r"error\[E040[89]\]: .*: the driver says: .*\(CUDA_ERROR_\w+, \d+\)", what)
                    self.assertEqual(done.stderr.count("error["), 1, what)
                    self.assertEqual(done.stdout.count(value), 2, what)
                else:
                    self.assertTrue(done.stdout.endswith(right), what)
        self.assertGreater(unopened, 4)
        self.assertGreater(failed, 12)

    def test_kept_machine_code(self):
        """The driver assembles a text once; what is damaged in the file is made again."""
        with tempfile.TemporaryDirectory() as folder:
            kept = {"XDG_CACHE_HOME": folder, "RELAY_CACHE": "64", "STANDIN_COUNT": os.path.join(folder, "count")}
            right = relay(CELLS, "--exec", "gpu").stdout
            for damage, times in ((False, 1), (False, 0), (True, 1), (False, 0)):
                files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
                for path in files:
                    with open(path, "r+b") as file:
                        if damage and b"\177ELF ptx" in file.read(64):
                            file.seek(-20, os.SEEK_END)
                            file.write(b"?")
                if os.path.exists(kept["STANDIN_COUNT"]):
                    os.remove(kept["STANDIN_COUNT"])
                done = relay(CELLS, "--exec", "gpu", **kept)
                self.assertEqual((done.returncode, done.stdout), (0, right), done.stderr)
                with open(kept["STANDIN_COUNT"]) as file:
                    counts = dict(line.split() for line in file)
                self.assertEqual(int(counts.get("cuLinkComplete", 0)), times, (damage, counts))

    def test_graphs(self):
        """The same in the middle of what was asked for before, which is a graph by then."""
        step = "def @f(%n: int32, %x: Tensor[(3, 4), float32]) -> float32 { if (%n == 0) { sum(%x) } else { @f(%n - 1, nn.softmax(tanh(%x)) * cast(%n, dtype=\"float32\")) } }\n"
        again = ("def @again(%k: int32, %x: Tensor[(3, 4), float32]) -> float32 { if (%k == 0) { 0f } else { let %s = @f(5, %x); "
                 "if (%s > 100f) { %s } else { %s + @again(%k - 1, %x) } } }\n")
        cells = CELLS.split("\n")[0] + "\n" + step + again + 2 * "@again(6, %x)\n"
        value = relay(cells, "--exec", "gpu").stdout.split("\n")[-2]
        failed = 0
        for entry in "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags", "cuGraphDestroy", "cuGraphLaunch", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemAlloc_v2":
            for nth in 1, 2, 5, 9:
                for code in 719, 2:
                    done = relay(cells, "--exec", "gpu", STANDIN_FAIL="%s:%d:%d" % (entry, nth, code))
                    failed += done.returncode != 0
                    self.assertIn(done.returncode, (0, 2, 3), done.stderr)
                    self.assertEqual(done.stderr.count("error["), done.returncode != 0, (entry, nth, code, done.stderr))
                    self.assertEqual(done.stdout.count(value), 2 - (done.returncode != 0), (entry, nth, code, done.stderr))
        self.assertGreater(failed, 24)

    def test_no_memory(self):
        done = relay(CELLS, "--exec", "gpu", STANDIN_MEMORY="100")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("error[E0409]: taking ", done.stderr)

    def test_interrupt(self):
        session = subprocess.Popen([RELAY, "--exec", "gpu"], env={**os.environ, "STANDIN_BUSY": "-1"}, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        session.stdin.write("let %x = 1f;\n" + "sum(tanh(full(%x, shape=[64], dtype=\"float32\")))\n" + "40 + 2\n")
        session.stdin.close()
        deadline = time.time() + 60
        while session.poll() is None and time.time() < deadline:
            time.sleep(1)
            session.send_signal(signal.SIGINT)
        out, err = session.stdout.read(), session.stderr.read()
        session.stdout.close()
        session.stderr.close()
        self.assertEqual(session.wait(), 3, err)
        self.assertIn("error[E0501]", err)

    def test_measured(self):
        done = relay("def @main(%x: Tensor[(3, 4), float32]) { nn.softmax(%x) }", "bench", "--exec", "gpu", "--random", "1",
                     "--seconds", "0", "--runs", "2", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r'"exec": "gpu".*"gpu_ms": \d')


unittest.main()
