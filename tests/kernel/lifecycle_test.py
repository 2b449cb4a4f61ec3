"""From the first to the last word of a kernel: start, interrupts, several clients, shutdown, transports."""

import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import zmq

from client import CHANNELS, DELIMITER, Kernel, slowness, types

# A cell that never ends: the call is in tail position, so its depth does not grow.
LOOP = "def @loop(%n: int32) -> int32 { @loop(%n) } @loop(0)"


def takes_errors(kernel):
    """Whether what its process writes to standard error comes to the kernel."""
    try:
        return os.readlink(f"/proc/{kernel.process.pid}/fd/2").startswith("pipe:")
    except FileNotFoundError:       # it has ended
        return False


class Interrupts(unittest.TestCase):
    def interrupted(self, kernel, interrupt, before="1 + 2", code=LOOP):
        client = kernel.client()
        if client.execute(before)[0]["status"] != "ok":
            self.skipTest(f"{before} cannot be had")
        request = client.send("execute_request", {"code": code})
        time.sleep(0.3)
        started = time.monotonic()
        interrupt(client)
        reply = client.receive("shell", 10)
        self.assertIsNotNone(reply, "the cell goes on")
        self.assertLess(time.monotonic() - started, 1)
        self.assertEqual(reply["content"]["status"], "error")
        self.assertEqual(types(client.published(request))[-1], "error")
        self.assertEqual(client.execute("1 + 2")[0]["status"], "ok")

    def test_message(self):
        with Kernel() as kernel:
            self.interrupted(kernel, lambda client: client.ask("interrupt_request", {}, "control"))

    def test_compiled_code(self):
        with Kernel() as kernel:
            self.interrupted(kernel, lambda client: client.ask("interrupt_request", {}, "control"), ":engine jit")

    def test_measurement(self):
        with Kernel() as kernel:
            self.interrupted(kernel, lambda client: client.ask("interrupt_request", {}, "control"),
                             "let %x = 1;", ":bench seconds=60 %x + 2")

    def test_signal(self):
        with Kernel() as kernel:
            self.interrupted(kernel, lambda client: os.killpg(kernel.process.pid, signal.SIGINT))

    def test_signal_at_any_time(self):
        with Kernel(wait=False) as kernel:
            kernel.await_interruptible()
            for _ in range(20):
                kernel.process.send_signal(signal.SIGINT)
                time.sleep(0.005)
            kernel.await_start()
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")

    def test_queue_is_aborted(self):
        with Kernel() as kernel:
            client = kernel.client()
            for code in (LOOP, "1 + 1"):
                client.send("execute_request", {"code": code})
            time.sleep(0.3)
            client.ask("interrupt_request", {}, "control")
            client.receive("shell")
            self.assertEqual(client.receive("shell")["content"]["ename"], "ExecutionAborted")

    def test_others_are_served_meanwhile(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.send("execute_request", {"code": LOOP})
            for _ in range(5):
                time.sleep(0.05)
                self.assertTrue(client.beat(), "no heartbeat while a cell runs")
                self.assertEqual(client.ask("kernel_info_request", {}, "control", timeout=1)[0]["status"], "ok")
            client.ask("interrupt_request", {}, "control")
            self.assertEqual(client.receive("shell")["content"]["status"], "error")


class Startup(unittest.TestCase):
    """The file that a person wants to be run first may take long."""

    def kernel(self, text):
        config = tempfile.mkdtemp(prefix="relay-config-")
        self.addCleanup(shutil.rmtree, config)
        os.mkdir(os.path.join(config, "relay"))
        with open(os.path.join(config, "relay", "startup.rly"), "w") as file:
            file.write(text)
        return Kernel(environment={"XDG_CONFIG_HOME": config})

    def interrupted(self, interrupt):
        with self.kernel("let %first = 41;\n" + LOOP + "\n") as kernel:
            client = kernel.client()
            self.assertEqual(client.ask("kernel_info_request", {})[0]["status"], "ok")
            request = client.send("execute_request", {"code": "%first + 1"})
            time.sleep(0.3)
            self.assertFalse(client.sockets["shell"].poll(0), "the cell did not wait")
            interrupt(kernel, client)
            reply = client.receive("shell", 10)
            self.assertIsNotNone(reply, "the start goes on")
            self.assertEqual(reply["content"]["status"], "ok")
            self.assertEqual([m["content"]["data"]["text/plain"] for m in client.published(request)
                              if m["header"]["msg_type"] == "execute_result"], ["42"])
            self.assertIn("at the start: interrupted", kernel.output())

    def test_interrupt_message(self):
        self.interrupted(lambda kernel, client: client.ask("interrupt_request", {}, "control"))

    def test_interrupt_signal(self):
        self.interrupted(lambda kernel, client: kernel.process.send_signal(signal.SIGINT))

    def test_shutdown(self):
        with self.kernel(LOOP) as kernel:
            client = kernel.client()
            self.assertEqual(client.ask("shutdown_request", {"restart": False}, "control")[0]["status"], "ok")
            self.assertEqual(kernel.wait(5), 0, kernel.output())

    def test_terminate(self):
        with self.kernel(LOOP) as kernel:
            kernel.process.terminate()
            self.assertEqual(kernel.wait(5), 0, kernel.output())


class Clients(unittest.TestCase):
    def test_two(self):
        with Kernel() as kernel:
            one, two = kernel.client(), kernel.client()
            # One has seen the welcome of two: subscriptions are for everybody to know.
            self.assertEqual(types([one.receive("iopub")]), ["iopub_welcome"])
            requests = [(client, client.send("execute_request", {"code": code}))
                        for client, code in ((one, "1 + 2"), (two, "3 * 4"), (one, "5 + 6"))]
            for client, request in requests:
                self.assertEqual(client.receive("shell")["parent_header"]["msg_id"], request)
            for client in (one, two):
                results = [client.published(request)[1]["content"]["data"]["text/plain"] for _, request in requests]
                self.assertEqual(results, ["3", "12", "11"])
            two.close()
            self.assertEqual(one.execute("1 + 2")[0]["status"], "ok")

    def test_one_session_in_all_messages(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.send("execute_request", {"code": "1 + 2"})
            messages = [client.receive("shell")] + [client.receive("iopub") for _ in range(4)]
            self.assertEqual(len({m["header"]["session"] for m in messages}), 1)
            self.assertNotEqual(messages[0]["header"]["session"], client.session)

    def test_parent_is_the_request_byte_for_byte(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.send("kernel_info_request", {}, extra={"π": [1.50, None]}, date="yesterday")
            parent = client.receive("shell")["parent_header"]
            self.assertEqual(parent["extra"], {"π": [1.5, None]})
            self.assertEqual(parent["date"], "yesterday")


class Ends(unittest.TestCase):
    def ended(self, kernel, seconds=2):
        started = time.monotonic()
        self.assertEqual(kernel.wait(), 0, kernel.output())
        self.assertLess(time.monotonic() - started, seconds)
        self.assertEqual(kernel.output(), "")

    def test_shutdown(self):
        for channel in ("control", "shell"):
            with self.subTest(channel=channel), Kernel() as kernel:
                client = kernel.client()
                content, published = client.ask("shutdown_request", {"restart": True}, channel)
                self.assertEqual(content, {"status": "ok", "restart": True})
                self.assertEqual([m["content"] for m in published], [content])
                self.ended(kernel)

    def test_shutdown_while_a_cell_runs(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.send("execute_request", {"code": LOOP})
            client.send("execute_request", {"code": LOOP})
            time.sleep(0.3)
            self.assertEqual(client.ask("shutdown_request", {"restart": False}, "control")[0]["status"], "ok")
            self.ended(kernel)

    def test_restart_on_the_same_ports(self):
        with Kernel() as kernel:
            for count in range(3):
                client = kernel.client()
                self.assertEqual(client.execute("1 + 2")[0]["execution_count"], 1)
                history = client.ask("history_request", {"hist_access_type": "tail", "n": 9, "output": False, "raw": True})
                self.assertEqual(history[0]["history"], [[n + 1, 1, "1 + 2"] for n in range(count + 1)])
                client.ask("shutdown_request", {"restart": True}, "control")
                self.ended(kernel)
                client.close()
                kernel.start()

    def test_another_session_after_a_restart(self):
        sessions = set()
        with Kernel() as kernel:
            for count in range(2):
                client = kernel.client()
                sessions.add(client.reply_to(client.send("kernel_info_request", {}))["header"]["session"])
                client.ask("shutdown_request", {"restart": True}, "control")
                self.ended(kernel)
                kernel.start()
        self.assertEqual(len(sessions), 2)

    def test_comms_are_closed(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.send("comm_open", {"comm_id": "mine", "target_name": "relay.check", "data": {}})
            client.ask("kernel_info_request", {})
            client.ask("shutdown_request", {"restart": False}, "control")
            while message := client.receive("iopub", 10):
                if message["header"]["msg_type"] == "comm_close":
                    break
            self.assertEqual((message["content"], message["parent_header"]), ({"comm_id": "mine", "data": {}}, {}))
            self.ended(kernel)

    def test_why_it_died(self):
        """The next kernel says it below its first cell, and once."""
        if slowness() > 1:
            self.skipTest("the sanitizer looks after these signals")
        with Kernel() as kernel:
            client = kernel.client()
            running = client.send("execute_request", {"code": LOOP})
            while client.receive("iopub")["header"]["msg_type"] != "execute_input":
                pass
            time.sleep(0.2)
            kernel.process.send_signal(signal.SIGSEGV)
            self.assertEqual(kernel.wait(), -signal.SIGSEGV)
            self.assertRegex(kernel.output(), r"^relay kernel: [^\n]*SIGSEGV[^\n]* In\[1\]\.[^\n]*\n$")
            client.close()
            kernel.start()
            client = kernel.client()
            client.execute("1 + 2", silent=True)
            shown = [client.execute("1 + 2")[1] for _ in range(2)]
            self.assertEqual([types(one) for one in shown],
                             [["execute_input", "stream", "execute_result"], ["execute_input", "execute_result"]])
            self.assertEqual((shown[0][1]["content"]["name"], shown[0][1]["content"]["text"]), ("stderr", kernel.output()))
            self.assertFalse(os.path.exists(kernel.file + ".crash"))

    def test_quit(self):
        with Kernel() as kernel:
            content, _ = kernel.client().execute(":quit")
            self.assertEqual(content["status"], "ok")
            self.assertEqual(content["payload"], [{"source": "ask_exit", "keepkernel": False}])
            self.ended(kernel)

    def test_few_descriptors(self):
        """Where the system gives it too few it says so and ends; the first that goes on takes what libraries print."""
        usual = resource.getrlimit(resource.RLIMIT_NOFILE)
        for most in range(8, 200):
            kernel = Kernel(wait=False, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, usual[1])))
            self.addCleanup(kernel.close)
            until = time.monotonic() + 30
            while kernel.process.poll() is None and not takes_errors(kernel):
                self.assertLess(time.monotonic(), until, f"with {most} descriptors it neither ends nor has all")
                time.sleep(0.005)
            if kernel.wait(0.3) is None:
                break
            self.assertIn(kernel.process.returncode, (2, 3), kernel.output())
            self.assertRegex(kernel.output(), r"(^|\n)relay kernel: [^\n]+\n$")
        resource.prlimit(kernel.process.pid, resource.RLIMIT_NOFILE, usual)     # a client needs some
        kernel.await_start()
        self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")

    def test_terminate(self):
        for code in ("1 + 2", LOOP):
            with self.subTest(code=code), Kernel() as kernel:
                client = kernel.client()
                client.send("execute_request", {"code": code})
                time.sleep(0.3)
                kernel.process.terminate()
                self.ended(kernel)

    def test_parent_dies(self):
        parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        with Kernel(environment={"JPY_PARENT_PID": str(parent.pid)}) as kernel:
            time.sleep(1.2)
            self.assertIsNone(kernel.process.poll(), "the kernel ends before its parent")
            parent.communicate(b"\n")
            self.ended(kernel, 3)

    def test_killed_by_nobody(self):
        with Kernel(environment={"JPY_PARENT_PID": "1"}) as kernel:
            time.sleep(1.2)
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")


class Connections(unittest.TestCase):
    def test_transports(self):
        for arguments in ({"transport": "ipc"}, {"key": ""}, {"key": "k" * 100}, {"curve": True},
                          {"connection": {"ip": "*"}}, {"connection": {"shell_port": "0", "hb_port": 0}}):
            with self.subTest(**arguments), Kernel(**arguments) as kernel:
                if kernel.connection["ip"] == "*":
                    kernel.connection["ip"] = "127.0.0.1"
                client = kernel.client()
                self.assertTrue(client.beat())
                self.assertEqual(client.execute("1 + 2")[0]["status"], "ok")

    def test_bad_files(self):
        bad = ["", "[]", "{", '{"transport": "udp"}', '{"signature_scheme": "hmac-md5"}', '{"shell_port": 70000}',
               '{"shell_port": -1}', '{"iopub_port": [1]}', '{"ip": "no such place"}', '{"curve_publickey": "short"}',
               '{"curve_publickey": "' + 40 * " " + '", "curve_secretkey": "' + 40 * "?" + '"}']
        with Kernel() as kernel:
            path = os.path.join(kernel.folder, "bad.json")
            for text in bad:
                with self.subTest(text=text):
                    with open(path, "w") as file:
                        file.write(text)
                    self.refused(path)
            self.refused(os.path.join(kernel.folder, "none.json"))
            self.refused(kernel.file, "in use")

    def refused(self, path, why=""):
        process = subprocess.run([os.environ["RELAY"], "kernel", "run", "-f", path], capture_output=True, text=True,
                                 timeout=30)
        self.assertEqual(process.returncode, 2, process.stderr)
        self.assertRegex(process.stderr, rf"^relay kernel: [^\n]*{why}[^\n]*\n$")

    def test_without_a_file(self):
        with Kernel() as kernel:
            process = subprocess.Popen([os.environ["RELAY"], "kernel", "run"], env=kernel.environment,
                                       stderr=subprocess.PIPE, text=True)
            path = process.stderr.readline().split()[-1]
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path) as file:
                kernel.connection = json.load(file)
            kernel.key = kernel.connection["key"]
            client = kernel.client()
            self.assertEqual(client.execute("1 + 2")[0]["status"], "ok")
            client.ask("shutdown_request", {"restart": False}, "control")
            self.assertEqual(process.wait(10), 0)
            process.stderr.close()
            self.assertFalse(os.path.exists(path), "the file stays behind")
            kernel.process.terminate()
            self.assertEqual(kernel.wait(), 0)

    def test_handshake(self):
        context = zmq.Context()
        launcher = context.socket(zmq.ROUTER)
        port = launcher.bind_to_random_port("tcp://127.0.0.1")
        registration = {"kernel_id": "some id", "registration_ip": "127.0.0.1", "registration_port": port}
        with Kernel(connection=registration, wait=False) as kernel:
            self.assertTrue(launcher.poll(10000), "nobody registers")
            identity, delimiter, signature, content = launcher.recv_multipart()
            self.assertEqual((delimiter, signature), (DELIMITER, kernel.sign([content])))
            ports = json.loads(content)
            self.assertEqual(ports.pop("kernel_id"), "some id")
            self.assertEqual(set(ports), {f"{name}_port" for name in CHANNELS})
            # An acknowledgement that somebody else signed counts for nothing.
            launcher.send_multipart([identity, DELIMITER, b"0" * 64, b"{}"])
            launcher.send_multipart([identity, DELIMITER, kernel.sign([b"{}"]), b"{}"])
            kernel.connection.update({name: int(value) for name, value in ports.items()})
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")
            with open(os.path.join(kernel.folder, f"kernel-{kernel.process.pid}.json")) as file:
                self.assertEqual(json.load(file)["shell_port"], kernel.connection["shell_port"])
        launcher.close()
        context.term()


    def test_nobody_acknowledges(self):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as launcher:
            port = launcher.bind_to_random_port("tcp://127.0.0.1")
            kernel = Kernel(connection={"kernel_id": "some id", "registration_ip": "127.0.0.1", "registration_port": port}, wait=False)
            try:
                self.assertEqual(kernel.wait(60), 2)
                self.assertRegex(kernel.output(), r"^relay kernel: [^\n]+\n$")
            finally:
                kernel.close()

    def test_ipv6(self):
        with socket.socket(socket.AF_INET6) as one:
            try:
                one.bind(("::1", 0))
            except OSError:
                self.skipTest("there is no IPv6 here")
        with Kernel(connection={"ip": "::1"}) as kernel:
            self.assertEqual(kernel.client().execute("1 + 2")[0]["status"], "ok")


class Early(unittest.TestCase):
    def test_ports_listen_before_the_kernel_is_loaded(self):
        """A plug-in that does not come is a pipe that nobody writes to."""
        with tempfile.TemporaryDirectory() as folder:
            program = shutil.copy(os.environ["RELAY"], folder)
            os.mkfifo(os.path.join(folder, "relay-kernel.so"))
            sockets = [socket.create_server(("127.0.0.1", 0)) for _ in CHANNELS]
            ports = {f"{name}_port": one.getsockname()[1] for name, one in zip(CHANNELS, sockets)}
            for one in sockets:
                one.close()
            file = os.path.join(folder, "connection.json")
            with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as out:
                json.dump({"transport": "tcp", "ip": "127.0.0.1", "key": "k", **ports}, out)
            process = subprocess.Popen([program, "kernel", "run", "-f", file])
            try:
                end = time.monotonic() + 20
                while ports:
                    self.assertLess(time.monotonic(), end, f"nobody listens at {ports}")
                    self.assertIsNone(process.poll())
                    for name, port in list(ports.items()):
                        with socket.socket() as one:
                            if one.connect_ex(("127.0.0.1", port)) == 0:
                                del ports[name]
                    time.sleep(0.005)
                process.send_signal(signal.SIGINT)
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(0.5)
            finally:
                process.kill()
                process.wait()


class Times(unittest.TestCase):
    def test_simultaneous_kernels_share_the_history(self):
        with Kernel() as one, Kernel() as two:
            kernels = [one, two]
            two.environment["XDG_STATE_HOME"] = one.folder
            two.process.terminate()
            self.assertEqual(two.wait(), 0)
            two.start()

            def work(kernel):
                client = kernel.client()
                for number in range(30):
                    client.execute(f"{number} + 1")
                client.ask("history_request", {"hist_access_type": "tail", "n": 1})     # what waits is written

            threads = [threading.Thread(target=work, args=(kernel,)) for kernel in kernels]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with sqlite3.connect(os.path.join(one.folder, "relay", "history.sqlite")) as base:
                rows = base.execute("SELECT session, line, input FROM entries").fetchall()
            self.assertEqual(sorted(rows), sorted((session, number + 1, f"{number} + 1")
                                                  for session in (1, 2) for number in range(30)))

    def test_killed_in_the_middle_of_many_cells(self):
        """What was answered is in the history of the next, without what may have been under way."""
        with Kernel() as kernel:
            client = kernel.client()
            requests = [client.send("execute_request", {"code": f"{number} + 1", "silent": False}) for number in range(120)]
            for request in requests[:100]:
                client.reply_to(request)
            kernel.process.kill()
            kernel.process.wait()
            folder = os.path.join(kernel.folder, "relay")
            self.assertTrue([name for name in os.listdir(folder) if "-waiting-" in name])
            kernel.start()
            rows = kernel.client().ask("history_request", {"hist_access_type": "tail", "n": 500, "raw": True, "output": True})[0]["history"]
            self.assertFalse([name for name in os.listdir(folder) if "-waiting-" in name])
            self.assertGreaterEqual(len(rows), 100)
            self.assertEqual([(row[1], row[2]) for row in rows],
                             [(number + 1, [f"{number} + 1", str(number + 1)]) for number in range(len(rows))])


if __name__ == "__main__":
    unittest.main()
