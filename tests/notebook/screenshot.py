"""The tour in JupyterLab, in a browser without a window: runs every cell, checks what is on the page and takes
pictures of it.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/screenshot.py [FOLDER]

With a folder the pictures stay there, in both themes: NAME-light.png and NAME-dark.png for each of the places in
PLACES. Skipped (77) without JupyterLab (`make notebook` installs it) or without Chromium.
"""
# LABELS: slow

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
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
# Name of the picture: the text of the cell that stands at its top.
PLACES = {
    "start": "# A walk through Relay",
    "error": "A `match` must name every case",
    "shape": "A type is known before",
    "passes": "## Passes",
    "engines": "## Two engines",
    "digits": "The first ten of the 450",
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


class Page:
    """A tab of Chromium, through the DevTools protocol."""

    def __init__(self, url):
        import websocket
        self.socket = websocket.create_connection(url, timeout=60, suppress_origin=True)
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
    """JupyterLab on a copy of the examples with the kernel of this build, as `make notebook` starts it."""
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
    return start([sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
                  "--ServerApp.port_retries=50", "--expose-app-in-browser",
                  f"--ServerApp.root_dir={os.path.join(folder, 'examples')}",
                  f"--LabApp.extra_labextensions_path={os.path.join(folder, 'share', 'jupyter', 'labextensions')}"],
                 r"(http://127\.0\.0\.1:\d+)/lab\?token=(\w+)", os.path.join(folder, "lab.log"), environment)


def start_browser(browser, folder):
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--remote-debugging-port=0", f"--user-data-dir={os.path.join(folder, 'browser')}", "--hide-scrollbars",
               f"--window-size={WIDTH},{HEIGHT}", "about:blank"]
    process, found = start(command, r"ws://127\.0\.0\.1:(\d+)/", os.path.join(folder, "browser.log"))
    with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/json/list", timeout=30) as reply:
        tabs = json.load(reply)
    return process, Page(next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"))


PANEL = "[...jupyterapp.shell.widgets('main')].find(panel => panel.title.label === 'tour.ipynb')"


def command(page, name, arguments=None):
    page.value(f"jupyterapp.commands.execute({json.dumps(name)}, {json.dumps(arguments or {})}).then(() => true)")


def open_tour(page, address, token):
    page.call("Page.enable")
    page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
    page.call("Page.navigate", url=f"{address}/lab/tree/tour.ipynb?token={token}")
    page.wait(f"window.jupyterapp && {PANEL}?.content?.widgets?.length > 10", 120, "the notebook opens")
    page.value(f"jupyterapp.shell.activateById({PANEL}.id), true")
    page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'", 60, "the kernel starts")
    page.value("jupyterapp.shell.collapseLeft(), jupyterapp.shell.collapseRight(), true")


def run_cells(page):
    """Runs all cells one by one: an error that is meant does not end the run."""
    page.value(f"""(async () => {{
        const panel = {PANEL};
        for (const cell of panel.content.widgets)
            if (cell.model.type === 'code') {{
                panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
                await jupyterapp.commands.execute('notebook:run-cell');
            }}
        return true;
    }})()""")
    page.wait(f"{PANEL}.content.widgets.every(cell => cell.model.type !== 'code' || cell.model.executionCount)", 120,
              "all cells ran")


def outputs(page):
    """Text and output bundles of the code cells."""
    return page.value(f"""{PANEL}.content.widgets.filter(cell => cell.model.type === 'code').map(cell => ({{
        source: cell.model.sharedModel.getSource(), tags: cell.model.getMetadata('tags') || [],
        outputs: cell.model.outputs.toJSON()}}))""")


def show(page, text):
    """Scrolls the cell with this text to the top."""
    index = page.value(f"""{PANEL}.content.widgets.findIndex(
        cell => cell.model.sharedModel.getSource().startsWith({json.dumps(text)}))""")
    assert index >= 0, text
    page.value(f"{PANEL}.content.scrollToItem({index}, 'start').then(() => true)")
    time.sleep(1)
    page.value(f"{PANEL}.content.widgets[{index}].node.scrollIntoView({{block: 'start'}}), true")
    time.sleep(1)
    box = page.value(f"""(() => {{ const b = {PANEL}.content.node.getBoundingClientRect();
        return {{x: b.x, y: b.y, width: b.width, height: b.height}}; }})()""")
    return box


def check(cells):
    errors = [cell["source"] for cell in cells if any(o["output_type"] == "error" for o in cell["outputs"])]
    meant = [cell["source"] for cell in cells if "raises-exception" in cell["tags"]]
    assert errors == meant, f"errors in {errors}, meant in {meant}"
    bundles = [o["data"] for cell in cells for o in cell["outputs"] if "data" in o]
    assert sum("image/svg+xml" in bundle for bundle in bundles) == 2
    assert sum("text/html" in bundle for bundle in bundles) >= 5


def check_page(page):
    """What is really drawn: pictures with a size, programs in a monospaced font, cells in colours."""
    show(page, PLACES["digits"])
    page.wait("""[...document.querySelectorAll('.jp-RenderedSVG img, .jp-RenderedSVG svg')].some(
        picture => picture.getBoundingClientRect().width > 100)""", 20, "the digits are drawn")
    show(page, PLACES["passes"])
    page.wait("document.querySelectorAll('.relay-program .relay-keyword').length > 0", 20, "programs have colours")
    assert "mono" in page.value("getComputedStyle(document.querySelector('.relay-program')).fontFamily")
    colors = page.value("""new Set([...document.querySelectorAll('.jp-CodeCell .cm-line span')].map(
        span => getComputedStyle(span).color)).size""")
    assert colors >= 4, f"{colors} colours in cells"


def take_pictures(page, folder):
    os.makedirs(folder, exist_ok=True)
    for name, theme in THEMES.items():
        command(page, "apputils:change-theme", {"theme": theme})
        time.sleep(2)
        for place, text in PLACES.items():
            page.picture(os.path.join(folder, f"{place}-{name}.png"), show(page, text))


def main():
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not importlib.util.find_spec("jupyterlab"):
        skip("no JupyterLab in this environment; `make notebook` installs it")
    if not browser:
        skip("no Chromium on this machine")
    folder = tempfile.mkdtemp(prefix="relay-screenshot-")
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        lab, found = start_lab(folder)
        started.append(lab)
        chromium, page = start_browser(browser, folder)
        started.append(chromium)
        open_tour(page, found[1], found[2])
        run_cells(page)
        check(outputs(page))
        check_page(page)
        take_pictures(page, sys.argv[1] if len(sys.argv) > 1 else os.path.join(folder, "pictures"))
    finally:
        for process in reversed(started):
            stop(process)
        shutil.rmtree(folder, ignore_errors=True)


main()
