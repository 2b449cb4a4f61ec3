"""Run All beside ipykernel: how often a cell ran that was sent behind one that fails, for gaps between the requests of 0 to 10 ms.

    RELAY=build/release/relay .venv/bin/python tests/kernel/run_all_beside.py [TRIES]

Both kernels are asked in turn, by the same client on the same machine. `make notebook` installs ipykernel."""

import os
import sys
import tempfile
import time

from jupyter_client.manager import KernelManager

BEHIND = 3
GAPS = (0, 1, 2, 3, 5, 7, 10)
KERNELS = {
    "relay": ([os.environ["RELAY"], "kernel", "run", "-f", "{connection_file}"], "%nothing", "1 + 1"),
    "ipykernel": ([sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"], "nothing", "1 + 1"),
}


class Asked:
    def __init__(self, command, wrong, right, folder):
        self.manager = KernelManager(connection_file=os.path.join(folder, f"{wrong.strip('%')}-{id(self)}.json"))
        self.manager.kernel_spec.argv = command
        self.manager.start_kernel()
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        self.wrong, self.right = wrong, right

    def ran_behind(self, gap):
        sent = [self.client.execute(self.wrong)]
        for _ in range(BEHIND):
            time.sleep(gap / 1000)
            sent.append(self.client.execute(self.right))
        replies = {}
        # Answers to what was asked while it started may still come.
        while not all(number in replies for number in sent):
            reply = self.client.get_shell_msg(timeout=60)
            replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
        # What runs after an abort is the next try.
        time.sleep(0.03)
        return any(replies[number] == "ok" for number in sent[1:])

    def end(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def main():
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        asked = {name: Asked(*how, folder) for name, how in KERNELS.items()}
        print(f"tries of {tries} in which a cell behind the failing one ran")
        print("gap       " + "".join(f"{name:>12}" for name in asked))
        for gap in GAPS:
            ran = {name: 0 for name in asked}
            for _ in range(tries):
                for name, kernel in asked.items():
                    ran[name] += kernel.ran_behind(gap)
            print(f"{gap:3} ms    " + "".join(f"{ran[name]:12}" for name in asked), flush=True)
        for kernel in asked.values():
            kernel.end()


main()
