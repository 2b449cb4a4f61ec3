"""JupyterLab in a browser without a window, for tests that look at pages as they are drawn.

    with Lab() as lab:                                  # on a copy of the examples, with the kernel of this build
        lab.write("mine.ipynb", {"name of a cell": "its text"})
        page = lab.open("mine.ipynb", 1)
        page.value(f"{PANEL}.content.widgets.length")

Leaves with 77, which means skipped, without JupyterLab (`make notebook` installs it) or without Chromium.
"""

import base64
import importlib.util
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

SOURCE = os.path.abspath(os.environ["RELAY_SOURCE"])
RELAY = os.path.abspath(os.environ["RELAY"])
FAILURE = os.path.join(tempfile.gettempdir(), f"relay-screenshot-failure-{os.getpid()}.png")
WIDTH, HEIGHT = 1100, 1400


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Page:
    """A tab of Chromium, through the DevTools protocol."""

    def __init__(self, url):
        import websocket
        self.socket = websocket.create_connection(url, timeout=240, suppress_origin=True)
        self.ids = itertools.count(1)

    def call(self, method, **params):
        """One command and its result."""
        number = next(self.ids)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]

    def value(self, script):
        """What an expression, or the promise that it gives, comes to."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script, seconds, what):
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(script):
            if time.monotonic() > end:
                self.picture(FAILURE)
                raise AssertionError(f"{what}: not within {seconds} s; the page is in {FAILURE}")
            time.sleep(0.2)

    def picture(self, path, clip=None):
        options = {"clip": {**clip, "scale": 1}} if clip else {}
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png", **options)["data"]))


def start(command, pattern, log, environment=None):
    """A process, which leads a group of its own, and what `pattern` finds in its output."""
    with open(log, "w") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=SOURCE,
                                   env=environment, start_new_session=True)
    end = time.monotonic() + 60
    while True:
        with open(log) as file:
            text = file.read()
        found = re.search(pattern, text)
        if found:
            return process, found
        assert process.poll() is None and time.monotonic() < end, text
        time.sleep(0.1)


def stop(process):
    """Ends a process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    except ProcessLookupError:
        pass


def start_lab(folder):
    """JupyterLab on a copy of the examples with the kernel of this build, as `make notebook` starts it, and its environment."""
    shutil.copytree(os.path.join(SOURCE, "examples"), os.path.join(folder, "examples"))
    subprocess.run([RELAY, "kernel", "install", "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    notifications = os.path.join(folder, "settings", "@jupyterlab", "apputils-extension")
    os.makedirs(notifications)
    with open(os.path.join(notifications, "notification.jupyterlab-settings"), "w") as file:
        json.dump({"fetchNews": "false", "checkForUpdates": False}, file)
    environment = {**os.environ, "JUPYTER_PATH": os.path.join(folder, "share", "jupyter"), "HOME": folder,
                   "XDG_STATE_HOME": folder, "JUPYTER_CONFIG_DIR": os.path.join(folder, "config"),
                   "JUPYTER_DATA_DIR": os.path.join(folder, "share", "jupyter"),
                   "JUPYTER_RUNTIME_DIR": os.path.join(folder, "runtime"),
                   "JUPYTERLAB_WORKSPACES_DIR": os.path.join(folder, "workspaces"),
                   "JUPYTERLAB_SETTINGS_DIR": os.path.join(folder, "settings")}
    return *start([sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
                  "--ServerApp.port_retries=50", "--expose-app-in-browser",
                  f"--ServerApp.root_dir={os.path.join(folder, 'examples')}",
                  f"--LabApp.extra_labextensions_path={os.path.join(folder, 'share', 'jupyter', 'labextensions')}"],
                 r"(http://127\.0\.0\.1:\d+)/lab\?token=(\w+)", os.path.join(folder, "lab.log"), environment), environment


def start_browser(browser, folder):
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--remote-debugging-port=0", f"--user-data-dir={os.path.join(folder, 'browser')}", "--hide-scrollbars",
               f"--window-size={WIDTH},{HEIGHT}", "about:blank"]
    process, found = start(command, r"ws://127\.0\.0\.1:(\d+)/", os.path.join(folder, "browser.log"))
    with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/json/list", timeout=30) as reply:
        tabs = json.load(reply)
    return process, Page(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))


PANEL = "[...jupyterapp.shell.widgets('main')].find(panel => panel.title.label.endsWith('.ipynb') && panel.isVisible)"


def command(page, name, arguments=None):
    page.value(f"jupyterapp.commands.execute({json.dumps(name)}, {json.dumps(arguments or {})}).then(() => true)")


class Lab:
    """JupyterLab and a browser; ends both, and takes its folder away."""

    def __enter__(self):
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if not importlib.util.find_spec("jupyterlab"):
            skip("no JupyterLab in this environment; `make notebook` installs it")
        if not browser:
            skip("no Chromium on this machine")
        self.folder = tempfile.mkdtemp(prefix="relay-screenshot-")
        self.started = []
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        try:
            lab, found, self.environment = start_lab(self.folder)
            self.started.append(lab)
            self.address, self.token = found[1], found[2]
            chromium, self.page = start_browser(browser, self.folder)
            self.started.append(chromium)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.started):
            stop(process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, cells, kernel="relay"):
        """A notebook of code cells: their names and texts."""
        cells = [{"cell_type": "code", "id": id, "metadata": {}, "outputs": [], "execution_count": None,
                  "source": source} for id, source in cells.items()]
        spec = {"name": kernel, "display_name": kernel}
        with open(os.path.join(self.folder, "examples", name), "w") as file:
            json.dump({"cells": cells, "metadata": {"kernelspec": spec}, "nbformat": 4, "nbformat_minor": 5}, file)

    def open(self, name, cells):
        """The page with this notebook, which has so many cells at least, and its kernel ready."""
        page = self.page
        page.call("Page.enable")
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        page.call("Page.navigate", url=f"{self.address}/lab/tree/{name}?token={self.token}")
        page.wait(f"window.jupyterapp && {PANEL}?.content?.widgets?.length >= {cells}", 120, "the notebook opens")
        page.value(f"jupyterapp.shell.activateById({PANEL}.id), true")
        page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'", 60, "the kernel starts")
        page.value("jupyterapp.shell.collapseLeft(), jupyterapp.shell.collapseRight(), true")
        return page
