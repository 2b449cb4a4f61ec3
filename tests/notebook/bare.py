"""Views where nothing runs: in a notebook that is not trusted, which keeps no script and no style, and on paper, where nobody clicks or scrolls.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/bare.py [FOLDER]

What the text of an answer says is to be seen there too, without a pointer over anything. With a folder pictures stay there.
"""
# LABELS: slow

import json
import os
import sys
import time

import browser
from browser import PANEL, Lab, command

os.environ["RELAY_SOURCE"] = browser.SOURCE
sys.path.insert(0, os.path.join(browser.SOURCE, "tests", "kernel"))
from views_test import BEFORE, ONLY_TEXT, PLACES, VIEWS, facts  # noqa: E402

VALUES = ["reshape(arange(0, 400, 1, dtype=\"int32\"), newshape=[20, 20])", "zeros(shape=[12, 3, 4], dtype=\"float32\")",
          "stack((1f / 0f, 0f / 0f, 2f), axis=0)", "Cons(Some((1, 2f)), Cons(None, Nil))", "@fact"]
CELLS = {f"{name}-{i}": cell for name, cells in {**VIEWS, "value": VALUES}.items() for i, cell in enumerate(cells)}
STAGES = {"passes", "loops", "llvm", "asm"}  # a page has titles for them
PAPER = 794  # columns of pixels of a sheet


def run_all(page):
    page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
    page.wait(f"{PANEL}.content.widgets.slice(1).every(cell => cell.model.type !== 'code' || cell.model.outputs.length)", 120,
              "all cells ran")
    page.wait(f"{PANEL}.sessionContext.session?.kernel?.status === 'idle'", 120, "the kernel rests")
    command(page, "docmanager:save")
    page.wait(f"!{PANEL}.context.model.dirty", 30, "the notebook is saved")


def missing(name, text, seen):
    """What the text of an answer says and the page does not show."""
    name = name.rpartition("-")[0]
    lost = facts(text.lower()) - facts(seen.lower()) - {word.lower() for word in ONLY_TEXT.get(name, set())} - STAGES
    # A page has a corner of a large tensor.
    return {word for word in lost if not (name in PLACES | {"value"} and word.isdigit())}


def data_of(cell):
    return [{kind: "".join(part) if isinstance(part, list) else part for kind, part in output["data"].items()}
            for output in cell["outputs"] if "data" in output]


def not_trusted(lab, notebook, folder):
    """The same notebook from elsewhere: no signature fits it."""
    notebook["metadata"]["from"] = "elsewhere"
    with open(os.path.join(lab.folder, "examples", "strange.ipynb"), "w") as file:
        json.dump(notebook, file)
    page = lab.open("strange.ipynb", len(notebook["cells"]))
    opened = "[...jupyterapp.shell.widgets('main')]"
    page.wait(f"{opened}.some(panel => panel.title.label === 'strange.ipynb')", 60, "the notebook opens")
    # Styles of a page that is trusted are those of all that is open.
    page.value(f"{opened}.filter(panel => panel.title.label !== 'strange.ipynb').forEach(panel => panel.dispose()), true")
    page.wait(f"{PANEL}?.content.widgets.length >= {len(notebook['cells'])}", 60, "it is alone")
    assert page.value("document.querySelectorAll('.jp-OutputArea style').length") == 0, "styles of another notebook"
    time.sleep(2)
    for i, cell in enumerate(notebook["cells"]):
        page.value(f"{PANEL}.content.scrollToItem({i}, 'start').then(() => true)")
        node = f"{PANEL}.content.widgets[{i}].outputArea.node"
        time.sleep(0.2)
        assert page.value(f"{PANEL}.content.widgets[{i}].model.trusted") is False, "the notebook is trusted"
        assert page.value(f"{node}.querySelectorAll('script, .relay-steps style').length") == 0, cell["id"]
        if folder:
            box = page.value(f"(() => {{ const b = {node}.getBoundingClientRect(); return {{x: b.x, y: b.y, width: b.width, "
                             "height: Math.min(b.height + 1, 1300)}; })()")
            page.picture(os.path.join(folder, f"{cell['id']}-untrusted.png"), box)
        page.value(f"{node}.querySelectorAll('details').forEach(d => d.open = true), true")
        seen = page.value(f"{node}.innerText")
        for data in data_of(cell):
            lost = missing(cell["id"], data["text/plain"], seen)
            assert not lost, f"{cell['id']}, not trusted: nothing says {lost}: {seen}"


def on_paper(lab, notebook, folder):
    """Each answer as a page that is printed: all steps, all that is folded, and no part that scrolls."""
    page, path = lab.page, os.path.join(lab.folder, "answer.html")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.call("Emulation.setDeviceMetricsOverride", width=PAPER, height=1123, deviceScaleFactor=1, mobile=False)
    for cell in notebook["cells"]:
        for data in data_of(cell):
            if "text/html" not in data:
                continue
            with open(path, "w") as file:
                file.write(f"<!doctype html><meta charset=utf-8><body style='margin:0'>{data['text/html']}")
            page.call("Page.navigate", url=f"file://{path}")
            page.wait("document.readyState === 'complete'", 20, "the answer opens")
            hidden = page.value("""[...document.querySelectorAll('.relay-steps>section, details:not(.relay-as-text)>*')].filter(
                part => !part.checkVisibility({contentVisibilityAuto: true})).length""")
            assert hidden == 0, f"{cell['id']}: {hidden} parts are not on the paper"
            cut = page.value("""[...document.querySelectorAll('body *')].filter(part => {
                const flow = getComputedStyle(part);
                const cuts = kind => kind === 'auto' || kind === 'scroll' || kind === 'hidden';
                return cuts(flow.overflowX) && part.scrollWidth > part.clientWidth + 2 && part.clientWidth > 2 ||
                       cuts(flow.overflowY) && part.scrollHeight > part.clientHeight + 2 && part.clientHeight > 2;
            }).map(part => part.className + ' ' + part.tagName)""")
            assert not cut, f"{cell['id']}: cut off on paper: {cut}"
            wide = page.value("document.documentElement.scrollWidth")
            assert wide <= PAPER, f"{cell['id']}: {wide} pixels wide on paper"
            lost = missing(cell["id"], data["text/plain"], page.value("document.body.innerText"))
            assert not lost, f"{cell['id']}, on paper: nothing says {lost}"
            pdf = page.call("Page.printToPDF")["data"]
            assert len(pdf) > 2000, cell["id"]
            if folder:
                high = page.value("Math.ceil(document.documentElement.scrollHeight)")
                page.picture(os.path.join(folder, f"{cell['id']}-paper.png"),
                             {"x": 0, "y": 0, "width": PAPER, "height": min(high, 2000)})


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    if folder:
        os.makedirs(folder, exist_ok=True)
    with Lab() as lab:
        lab.write("views.ipynb", {"before-0": BEFORE, **CELLS})
        run_all(lab.open("views.ipynb", len(CELLS) + 1))
        with open(os.path.join(lab.folder, "examples", "views.ipynb")) as file:
            notebook = json.load(file)
        not_trusted(lab, notebook, folder)
        on_paper(lab, notebook, folder)


main()
