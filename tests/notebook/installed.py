"""What `relay kernel install` brings, in what people run notebooks with: Notebook 7, nbconvert to a page and to PDF, and a server that
JupyterHub's spawner starts for somebody.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/installed.py [FOLDER]

With a folder, a picture of Notebook and the files of nbconvert stay there. PDF is made by Chromium, and by XeLaTeX where that is installed.
Skipped (77) without JupyterLab (`make notebook` installs all of these) or without Chromium.
"""
# LABELS: slow

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from browser import PANEL, RELAY, Lab, skip, start, stop

CELLS = {"definition": "def @twice(%x: int32) -> int32 { %x * 2 }", "use": "@twice(21) // a call", "wrong": "%x + 1"}
BIN = os.path.dirname(sys.executable)
USER = "ada"
TOKEN = "a-token-of-this-test"


def check_notebook(lab, folder):
    """Notebook 7: the cells run, are coloured by the lexer of the extension, and an error has its page."""
    lab.write("one.ipynb", CELLS)
    process, found = start(
        [sys.executable, "-m", "notebook", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--expose-app-in-browser",
         "--ServerApp.port_retries=50", f"--ServerApp.root_dir={os.path.join(lab.folder, 'examples')}",
         f"--LabApp.extra_labextensions_path={os.path.join(lab.folder, 'share', 'jupyter', 'labextensions')}"],
        r"(http://127\.0\.0\.1:\d+)/tree\?token=(\w+)", os.path.join(lab.folder, "notebook.log"), lab.environment)
    try:
        page = lab.page
        page.call("Page.enable")
        page.call("Page.navigate", url=f"{found[1]}/notebooks/one.ipynb?token={found[2]}")
        page.wait(f"window.jupyterapp && {PANEL}?.content?.widgets?.length >= {len(CELLS)}", 120, "Notebook opens")
        assert page.value("jupyterapp.name") == "Jupyter Notebook", page.value("jupyterapp.name")
        page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'", 60, "the kernel starts")
        page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        page.wait(f"{PANEL}.content.widgets.every(cell => cell.model.executionCount)", 60, "all cells ran")
        page.wait(f"{PANEL}.content.widgets[2].model.outputs.length", 30, "the error is shown")
        outputs = page.value(f"{PANEL}.content.widgets.map(cell => cell.model.outputs.toJSON())")
        assert outputs[1][-1]["data"]["text/plain"] == "42", outputs[1]
        assert outputs[2][-1]["output_type"] == "error" and "E0110" in str(outputs[2]), outputs[2]
        comment = page.value(f"[...{PANEL}.content.widgets[1].node.querySelectorAll('.cm-line span')]"
                             ".map(span => span.textContent)")
        assert "// a call" in comment, f"the cell is not coloured: {comment}"
        page.value("jupyterapp.commands.execute('docmanager:save').then(() => true)")
        if folder:
            page.picture(os.path.join(folder, "notebook7.png"))
    finally:
        stop(process)


def chromium_for_playwright(lab):
    """nbconvert makes PDF by playwright's own Chromium: the one of this machine stands in its place."""
    import playwright
    with open(os.path.join(os.path.dirname(playwright.__file__), "driver", "package", "browsers.json")) as file:
        number = next(one["revision"] for one in json.load(file)["browsers"] if one["name"] == "chromium-headless-shell")
    browsers = os.path.join(lab.folder, "playwright")
    place = os.path.join(browsers, f"chromium_headless_shell-{number}", "chrome-headless-shell-linux64")
    os.makedirs(place)
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    os.symlink(browser, os.path.join(place, "chrome-headless-shell"))
    return browsers


def check_nbconvert(lab, folder):
    """The notebook as Notebook saved it, which says the language then, run again and written in other forms."""
    packages = os.path.join(lab.folder, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
    os.makedirs(packages)
    subprocess.run([RELAY, "kernel", "install", "--prefix", lab.folder], check=True, stdout=subprocess.DEVNULL)
    environment = {**lab.environment, "PLAYWRIGHT_BROWSERS_PATH": chromium_for_playwright(lab),
                   "PYTHONPATH": packages}
    kinds = {"html": "html", "webpdf": "pdf"}
    if shutil.which("xelatex") and shutil.which("pandoc"):
        kinds["pdf"] = "pdf"
    else:
        print("without XeLaTeX and pandoc: PDF by Chromium alone")
    notebook = os.path.join(lab.folder, "examples", "one.ipynb")
    for kind, suffix in kinds.items():
        done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", kind, "--execute", "--allow-errors",
                               *(["--disable-chromium-sandbox"] if kind == "webpdf" else []),
                               "--output-dir", lab.folder, "--output", kind, notebook],
                              env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{kind}: {done.stderr}"
        path = os.path.join(lab.folder, f"{kind}.{suffix}")
        with open(path, "rb") as file:
            made = file.read()
        if kind == "html":
            assert b"<pre>42</pre>" in made and b"E0110" in made, "the notebook did not run"
            assert b'<span class="c1">// a call</span>' in made, "no colours"
        else:
            assert made.startswith(b"%PDF-") and len(made) > 5000, f"{kind} is no PDF: {len(made)} bytes"
        print(f"nbconvert to {kind}: {len(made)} bytes")
        if folder:
            shutil.copy(path, folder)


HUB = """
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub}
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allowed_users = {{"{user}"}}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/home/{{username}}"
c.Spawner.args = ["--allow-root"]
c.Spawner.cmd = ["{python}", "-m", "jupyterhub.singleuser"]
c.ConfigurableHTTPProxy.command = ["{bin}/configurable-http-proxy"]
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.ConfigurableHTTPProxy.pid_file = "{folder}/proxy.pid"
c.JupyterHub.services = [{{"name": "test", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "test", "services": ["test"],
                             "scopes": ["admin:users", "admin:servers", "access:servers"]}}]
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def ask(address, body=None):
    """What a page of the hub, or of somebody's server behind it, answers."""
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(address, data, {"Authorization": f"token {TOKEN}"})
    with urllib.request.urlopen(request, timeout=30) as reply:
        text = reply.read()
    return json.loads(text) if text else None


def until(address, what, log):
    end = time.monotonic() + 90
    while True:
        try:
            answer = ask(address)
            if what(answer):
                return answer
        except (urllib.error.URLError, ConnectionError):
            pass
        if time.monotonic() > end:
            with open(log) as file:
                raise AssertionError(f"{address}: not within 90 s\n{file.read()}")
        time.sleep(0.2)


def cell_through(address, code):
    """What a cell gives, over the same way that a browser takes."""
    import websocket
    kernel = ask(f"{address}/api/kernels", {"name": "relay"})["id"]
    channel = websocket.create_connection(f"{address.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels", timeout=60,
                                          header=[f"Authorization: token {TOKEN}"])
    channel.send(json.dumps({"channel": "shell", "parent_header": {}, "metadata": {}, "buffers": [], "content": {"code": code},
                             "header": {"msg_id": "1", "msg_type": "execute_request", "session": "s", "username": USER,
                                        "date": "2024-01-01T00:00:00Z", "version": "5.5"}}))
    while True:
        message = json.loads(channel.recv())
        if message["parent_header"].get("msg_id") != "1":
            continue
        assert message["msg_type"] != "error", message
        if message["msg_type"] == "execute_result":
            channel.close()
            return message["content"]["data"]["text/plain"]


def check_hub(lab):
    """JupyterHub on this machine: what a person installed at home is in the server that the hub starts for them."""
    folder = os.path.join(lab.folder, "hub")
    home = os.path.join(folder, "home", USER)
    os.makedirs(home)
    drop = ("JUPYTER_", "XDG_", "VIRTUAL_ENV")
    environment = {**{k: v for k, v in os.environ.items() if not k.startswith(drop)}, "HOME": home}
    subprocess.run([RELAY, "kernel", "install", "--user"], check=True, stdout=subprocess.DEVNULL, env=environment)
    port, hub, api = free_ports(3)
    config = os.path.join(folder, "config.py")
    with open(config, "w") as file:
        file.write(HUB.format(port=port, hub=hub, api=api, folder=folder, user=USER, token=TOKEN, bin=BIN, python=sys.executable))
    log = os.path.join(folder, "hub.log")
    process, _ = start([sys.executable, "-m", "jupyterhub", "-f", config], r"JupyterHub is now running", log,
                       {**environment, "PATH": f"{BIN}:{os.environ['PATH']}"})
    try:
        api = f"http://127.0.0.1:{port}/hub/api/users/{USER}"
        until(api, lambda user: True, log)
        ask(f"{api}/server", {})
        until(api, lambda user: user["servers"].get("", {}).get("ready"), log)
        server = f"http://127.0.0.1:{port}/user/{USER}"
        spec = ask(f"{server}/api/kernelspecs")["kernelspecs"]["relay"]["spec"]
        assert spec["metadata"]["debugger"], spec
        assert cell_through(server, "1 + 2") == "3"
        print("JupyterHub: a cell ran in the server that the spawner started")
        request = urllib.request.Request(f"{api}/server", method="DELETE", headers={"Authorization": f"token {TOKEN}"})
        urllib.request.urlopen(request, timeout=30).close()
        until(api, lambda user: not user["servers"], log)
    finally:
        stop(process)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    with Lab() as lab:
        missing = [name for name in ("notebook", "nbconvert", "playwright", "jupyterhub") if not importlib.util.find_spec(name)]
        if missing:
            skip(f"no {', '.join(missing)} in this environment; `make notebook` installs them")
        check_notebook(lab, folder)
        check_nbconvert(lab, folder)
        check_hub(lab)


main()
