"""JupyterLab's own debugger on cells of Relay, in a browser without a window: its button, its gutter, its panels.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/debugger.py [FOLDER]

With a folder, a picture of the page where it stands still stays there. Skipped (77) without JupyterLab or without Chromium.
"""
# LABELS: slow

import json
import os
import sys
import time

from browser import PANEL, Lab, command

CELLS = {
    "definition": "def @mean(%x: Tensor[(4), float32]) -> float32 {\n  let %total = sum(%x);\n  %total / 4f\n}",
    "use": "let %data = stack((1f, 2f, 3f, 6f), axis=0);\n@mean(%data)",
}
BACK = "document.querySelector('.jp-DebuggerSidebar [data-command=\"relay-lang:stepBack\"]')"
HIGHLIGHT = "document.querySelector('.jp-DebuggerEditor-highlight')"


def text(selector):
    """The text of the first element that fits."""
    return f"(document.querySelector({json.dumps(selector)})?.innerText || '')"


def click(page, element):
    """A click on what an expression gives."""
    at = page.value(f"(() => {{ const at = ({element}).getBoundingClientRect();"
                    " return {x: at.x + at.width / 2, y: at.y + at.height / 2}; })()")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **at)


def gutter(cell, line):
    """The place beside a line of a cell."""
    return (f"[...{PANEL}.content.widgets[{cell}].node.querySelectorAll('.cm-breakpoint-gutter .cm-gutterElement')]"
            f".filter(row => row.getBoundingClientRect().height > 0)[{line}]")


def run(page, cell):
    """Runs a cell and does not wait for it."""
    page.value(f"""{PANEL}.content.activeCellIndex = {cell}, {PANEL}.content.deselectAll(),
        jupyterapp.commands.execute('notebook:run-cell'), true""")


def inspect_tensor(page):
    """The panel shows of a tensor what it is, and opened, what is in it."""
    name = "[...document.querySelectorAll('.jp-DebuggerVariables-name')].find(name => name.textContent === '%x')"
    page.wait(f"!!{name}", 30, "the argument is among the variables")
    click(page, name)
    for fact in ("shape", "mean", "[0]"):
        page.wait(f"{text('.jp-DebuggerVariables')}.includes('{fact}')", 30, f"the tensor shows its {fact}")


def main():
    with Lab() as lab:
        lab.write("debug.ipynb", CELLS)
        page = lab.open("debug.ipynb", 2)
        page.wait("document.querySelector('.jp-DebuggerBugButton')?.getAttribute('aria-disabled') === 'false' ||"
                  " document.querySelector('.jp-DebuggerBugButton')?.disabled === false", 60, "the debugger may be started")
        time.sleep(2)
        click(page, "document.querySelector('.jp-DebuggerBugButton')")
        page.wait("!!document.querySelector('.cm-breakpoint-gutter .cm-gutterElement')", 60, "the debugger starts")
        run(page, 0)
        page.wait(f"{PANEL}.content.widgets[0].model.executionCount", 60, "the definition ran")
        click(page, gutter(0, 3))
        page.wait(f"{text('.jp-DebuggerBreakpoints')}.includes('.rly')", 60, "the kernel has the breakpoint")
        run(page, 1)
        page.wait(f"!!{HIGHLIGHT}", 60, "it stands still")
        page.wait(f"{text('.jp-DebuggerCallstack')}.includes('@mean')", 30, "the calls are shown")
        assert page.value(f"{HIGHLIGHT}.innerText").strip() == "%total / 4f", page.value(f"{HIGHLIGHT}.innerText")
        page.wait(f"{text('.jp-DebuggerVariables')}.includes('%total')", 30, "the variables are shown")
        print(page.value(text('.jp-DebuggerVariables')))
        inspect_tensor(page)
        time.sleep(1)
        if len(sys.argv) > 1:
            page.picture(os.path.join(sys.argv[1], "debugger.png"))
        page.wait(f"{BACK}?.checkVisibility()", 30, "there is a button for the way back")
        click(page, BACK)
        page.wait(f"{HIGHLIGHT} && !{HIGHLIGHT}.innerText.includes('%total / 4f')", 30, "it steps back")
        command(page, "debugger:next")
        page.wait(f"{HIGHLIGHT}?.innerText.trim() === '%total / 4f'", 30, "and on again")
        command(page, "debugger:stepOut")
        page.wait(f"!{text('.jp-DebuggerCallstack')}.includes('@mean')", 30, "it steps out")
        command(page, "debugger:continue")
        page.wait(f"{PANEL}.content.widgets[1].model.executionCount && !{HIGHLIGHT}", 60, "the cell ends")
        outputs = page.value(f"{PANEL}.content.widgets[1].model.outputs.toJSON()")
        assert outputs[-1]["data"]["text/plain"] == "3", outputs


if __name__ == "__main__":
    main()
