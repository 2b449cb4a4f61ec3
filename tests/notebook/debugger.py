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
    "fact": "def @fact(%n: int32) -> int32 {\n  if (%n == 0) { 1 } else { %n * @fact(%n - 1) }\n}",
    "when": ":break @fact if %n == 1",
    "call": "@fact(3)",
    "root": "let %z = sqrt(1f - 3f);\n%z * 2f",
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


def result(page, cell):
    """The last output of a cell that goes on and ends."""
    command(page, "debugger:continue")
    page.wait(f"{PANEL}.content.widgets[{cell}].model.executionCount && !{HIGHLIGHT}", 60, "the cell ends")
    return page.value(f"{PANEL}.content.widgets[{cell}].model.outputs.toJSON()")[-1]["data"]["text/plain"]


def key(page, name, code, modifiers=0):
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code, modifiers=modifiers)


def evaluate(page, expression, value):
    """In the console of the debugger, over the frame that is chosen; the variables are still shown behind it."""
    page.value("jupyterapp.commands.execute('debugger:evaluate'), true")
    page.wait("!!document.activeElement.closest('.jp-CodeConsole')", 30, "the console opens")
    for sign in expression:
        page.call("Input.dispatchKeyEvent", type="char", text=sign)
    key(page, "Enter", 13, modifiers=8)
    page.wait(f"{text('.jp-CodeConsole-content')}.trim().endsWith('{value}')", 30, f"`{expression}` is {value}")
    time.sleep(1)       # until an emptied list is drawn
    page.wait(f"{text('.jp-DebuggerVariables')}.includes('%n')", 10, "the variables stay")


def check_condition(page):
    """A breakpoint that a cell sets, with its condition; the way back to the start; an expression over a frame."""
    for cell in (2, 3):
        run(page, cell)
        page.wait(f"{PANEL}.content.widgets[{cell}].model.executionCount", 60, "the cell ran")
    run(page, 4)
    page.wait(f"!!{HIGHLIGHT}", 60, "it stands still")
    page.wait(f"/%n:?\\s*1/.test({text('.jp-DebuggerVariables')})", 30, "it stops where the condition holds")
    evaluate(page, "%n * 100", 100)
    command(page, "relay-lang:reverseContinue")
    page.wait(f"{HIGHLIGHT}?.innerText.trim() === '@fact(3)'", 30, "it goes back to the beginning")
    command(page, "debugger:continue")
    page.wait(f"/%n:?\\s*1/.test({text('.jp-DebuggerVariables')})", 30, "and on to where it was")
    assert result(page, 4) == "6"


def check_nan(page):
    command(page, "debugger:pause-on-exceptions", {"filter": "nan"})
    time.sleep(1)
    run(page, 5)
    page.wait(f"{HIGHLIGHT}?.innerText.includes('sqrt')", 60, "it stops at the first NaN")
    assert result(page, 5) == "nan"


def main():
    with Lab() as lab:
        lab.write("debug.ipynb", CELLS)
        page = lab.open("debug.ipynb", len(CELLS))
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
        assert result(page, 1) == "3"
        check_condition(page)
        check_nan(page)


if __name__ == "__main__":
    main()
