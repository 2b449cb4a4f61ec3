"""A history of a hundred thousand entries: what a front end asks of it is answered within 20 ms, whatever the pattern.

Held to twice this, for machines differ, is the processor's time in the kernel, of the quickest of some, so that it does not matter what else
the machine does.
"""

import os
import sqlite3
import time
import unittest

from client import Kernel, slowness

ENTRIES, SESSION = 100000, 100
ANSWER_MS = 20
QUESTIONS = [
    (dict(hist_access_type="tail", n=20), 20),
    (dict(hist_access_type="tail", n=1000), 1000),
    (dict(hist_access_type="tail", n=1000, output=True), 1000),
    (dict(hist_access_type="range", session=500, start=1, stop=50), 49),
    (dict(hist_access_type="range", session=-1, start=1, stop=50), 1),
    (dict(hist_access_type="search", pattern="let*", n=100), 100),
    (dict(hist_access_type="search", pattern="let*", n=100, unique=True), 100),
    (dict(hist_access_type="search", pattern="*%x99999 *", n=1), 1),
    (dict(hist_access_type="search", pattern="*%x17 =*"), 1),
    (dict(hist_access_type="search", pattern="*softmax*+ 7f*"), 1),
    (dict(hist_access_type="search", pattern="*s[n-p]ftmax*+ 7??[f]*", n=10), 10),
    (dict(hist_access_type="search", pattern="*nothing at all*"), 0),
    (dict(hist_access_type="search", pattern="zz[0-9]?*", unique=True), 0),
]


class History(unittest.TestCase):
    def test_a_hundred_thousand(self):
        with Kernel() as kernel:
            kernel.client().execute("1 + 2")
            kernel.client().ask("history_request", {"hist_access_type": "tail", "n": 1})
            kernel.process.terminate()
            self.assertEqual(kernel.wait(), 0)
            with sqlite3.connect(os.path.join(kernel.folder, "relay", "history.sqlite")) as base:
                base.execute("DELETE FROM entries")
                base.executemany("INSERT INTO entries (session, line, input, output) VALUES (?, ?, ?, ?)", (
                    (i // SESSION + 1, i % SESSION + 1,
                     f"let %x{i} = nn.softmax(ones(shape=[{i % 50 + 1}, 8], dtype=\"float32\")) + {i}f;\n%x{i} * 2f",
                     f"Tensor[({i % 50 + 1}, 8), float32] = [[0.125, 0.125]]") for i in range(ENTRIES)))
                base.execute("INSERT INTO sessions (id) VALUES (?)", (ENTRIES // SESSION,))
                base.execute("INSERT INTO entries (session, line, input) SELECT max(id) + 1, 1, 'newest' FROM sessions")
                base.execute("INSERT INTO sessions DEFAULT VALUES")
            kernel.start()
            client = kernel.client()

            def answer(content):
                """What is found, and milliseconds of the processor and of the clock."""
                began, before = time.perf_counter(), self.processor(kernel)
                found = client.ask("history_request", {"raw": True, "output": False, **content})[0]["history"]
                return found, self.processor(kernel) - before, (time.perf_counter() - began) * 1000

            _, took, waited = answer(QUESTIONS[0][0])
            print(f"opened and asked first: {took:.2f} ms, by the clock {waited:.2f} ms")
            self.assertLess(took, 3 * ANSWER_MS * slowness())
            for content, many in QUESTIONS:
                times = [answer(content) for _ in range(5)]
                while min(one[1] for one in times) >= ANSWER_MS and len(times) < 40:   # others use the caches, too
                    times.append(answer(content))
                took, waited = (min(column) for column in list(zip(*times))[1:])
                print(f"{content}: {took:.2f} ms, by the clock {waited:.2f} ms")
                self.assertEqual(len(times[0][0]), many, content)
                self.assertLess(took, 2 * ANSWER_MS * slowness(), content)

    @staticmethod
    def processor(kernel):
        """Milliseconds of all threads so far."""
        total = 0
        for thread in os.listdir(f"/proc/{kernel.process.pid}/task"):
            with open(f"/proc/{kernel.process.pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e6


if __name__ == "__main__":
    unittest.main()
