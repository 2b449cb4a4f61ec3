"""While one types in JupyterLab, in a browser without a window: an error is underlined and says what it is, also while a cell runs, and
goes when it is mended.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/live.py [FOLDER]

With a folder, a picture of the underlined error stays there. Skipped (77) without JupyterLab or without Chromium.
"""
# LABELS: slow

import os
import sys

from browser import PANEL, Lab

CELLS = {"spin": "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }",
         "forever": "@spin(1000000000000000i64)", "typed": ""}
WRONG = "(document.querySelector('.relay-wrong')?.textContent || '')"


def write(page, text):
    page.value(f"{PANEL}.content.activeCellIndex = 2, {PANEL}.content.widgets[2].model.sharedModel.setSource('{text}'), true")


def main():
    with Lab() as lab:
        lab.write("live.ipynb", CELLS)
        page = lab.open("live.ipynb", len(CELLS))
        write(page, "1 + %nothing")
        page.wait(f"{WRONG} === '%nothing'", 60, "the error is underlined")
        assert "%nothing" in page.value("document.querySelector('.relay-wrong').title")
        assert "wavy" in page.value("getComputedStyle(document.querySelector('.relay-wrong')).textDecorationStyle")
        if len(sys.argv) > 1:
            page.picture(os.path.join(sys.argv[1], "live.png"))
        write(page, "1 + 2")
        page.wait(f"{WRONG} === ''", 30, "the mended text has no mark")
        page.value(f"""(async () => {{ for (const cell of [0, 1]) {{ {PANEL}.content.activeCellIndex = cell;
            {PANEL}.content.deselectAll();
            const run = jupyterapp.commands.execute('notebook:run-cell'); if (cell === 0) await run; }} return true; }})()""")
        page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'busy'", 30, "a cell runs")
        # A place behind signs of two UTF-16 units.
        write(page, "/* \U0001d41a\U0001d41a */ %other")
        page.wait(f"{WRONG} === '%other'", 30, "the error is underlined while a cell runs")
        page.value(f"{PANEL}.sessionContext.session.kernel.interrupt().then(() => true)")
        page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'idle'", 30, "the cell ends")


main()
