"""While one types in JupyterLab, in a browser without a window: an error is underlined and says what it is under the mouse, also while a
cell runs, and goes when it is mended; a hole says its type there, and a click on what fits fills it; types stand inline and under the
mouse, and a setting takes the former away; completion knows the type that is wanted. And what a cell asks is answered below it.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/live.py [FOLDER]

With a folder, pictures of all this stay there. Skipped (77) without JupyterLab or without Chromium.
"""
# LABELS: slow

import os
import sys

from browser import PANEL, Lab

HALF = "def @half(%x: float32) -> float32 { %x / 2f }\\nlet %a = 1f; let %n = 3;"
CELLS = {"spin": "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }",
         "forever": "@spin(1000000000000000i64)", "typed": "", "below": "let %sum = %a + 1f;"}
WRONG = "(document.querySelector('.relay-wrong')?.textContent || '')"


TYPES = "[...document.querySelectorAll('.relay-type')].map((one) => one.textContent).join(' ')"
TIPS = "[...document.querySelectorAll('.cm-tooltip-hover')].map((one) => one.innerText).join('\\n')"
OFFERS = "[...document.querySelectorAll('.jp-Completer-item')].map((one) => one.querySelector('.jp-Completer-match').innerText).join(' ')"


def write(page, text):
    page.value(f"{PANEL}.content.activeCellIndex = 2, {PANEL}.content.widgets[2].model.sharedModel.setSource('{text}'), true")


def run(page, cell):
    page.value(f"""(async () => {{ {PANEL}.content.activeCellIndex = {cell}; {PANEL}.content.deselectAll();
        await jupyterapp.commands.execute('notebook:run-cell'); return true; }})()""")


def rest_on(page, text, nth=0):
    """The mouse comes to rest on a piece of the third cell; where."""
    place = page.value(f"""(() => {{
        const view = {PANEL}.content.widgets[2].editor.editor, at = view.state.doc.toString().indexOf('{text}') + {nth};
        const from = view.coordsAtPos(at, 1), to = view.coordsAtPos(at + 1, -1);
        return [(from.left + to.right) / 2, (from.top + from.bottom) / 2]; }})()""")
    for x, y in ((5, 5), (place[0] - 2, place[1]), place):
        page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    return place


def click(page, selector, text):
    """On what shows the text."""
    x, y = page.value(f"""(() => {{ const one = [...document.querySelectorAll('{selector}')].find((it) => it.innerText === '{text}');
        const box = one.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; }})()""")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def picture(page, name):
    if len(sys.argv) > 1:
        page.picture(os.path.join(sys.argv[1], name))


def check_types(page):
    """Inline, of the cell and of those that use what it defined; under the mouse; and not where the setting says so."""
    write(page, HALF)
    page.wait(f"{TYPES} === ': float32 : int32'", 30, "types stand inline")
    assert page.value(f"{PANEL}.content.widgets[2].model.sharedModel.getSource()") == HALF.replace("\\n", "\n")
    run(page, 2)
    page.wait(f"{TYPES} === ': float32 : int32 : float32'", 30, "the cell below has its type")
    rest_on(page, "2f")
    page.wait(f"{TIPS} === '2f: float32'", 30, "the type under the mouse")
    picture(page, "types.png")
    page.value("jupyterapp.serviceManager.settings.save('relay-lang:types', '{\"inline\": false}').then(() => true)")
    page.call("Page.reload")


def check_setting(page, lab):
    """The page that comes now has the setting."""
    page = lab.open("live.ipynb", len(CELLS))
    write(page, HALF)
    run(page, 2)
    write(page, "let %b = %nothing;")
    page.wait(f"{WRONG} === '%nothing'", 30, "the error is underlined")
    assert page.value(TYPES) == "", page.value(TYPES)
    page.value("jupyterapp.serviceManager.settings.save('relay-lang:types', '{\"inline\": true}').then(() => true)")
    return lab.open("live.ipynb", len(CELLS))


def check_holes(page):
    write(page, "let %b: float32 = _;")
    page.wait(f"{WRONG} === '_'", 30, "the hole is underlined")
    rest_on(page, "_")
    page.wait(f"{TIPS}.includes('is to be filled by `float32`') && {TIPS}.includes('_: float32')", 30, "the hole says its type")
    picture(page, "hole.png")
    click(page, ".relay-problem button", "@half(_)")
    page.wait(f"{PANEL}.content.widgets[2].model.sharedModel.getSource() === 'let %b: float32 = @half(_);'", 10, "the click fills it")
    page.wait(f"{WRONG} === '_'", 30, "the next hole is underlined")
    rest_on(page, "_")
    page.wait(f"{TIPS}.includes('is to be filled')", 30, "it says its type")
    click(page, ".relay-problem button", "%a")
    page.wait(f"{WRONG} === ''", 30, "nothing is left to be filled")
    assert page.value(f"{PANEL}.content.widgets[2].model.sharedModel.getSource()") == "let %b: float32 = @half(%a);"


def complete(page, text, cursor):
    write(page, text)
    page.value(f"""(() => {{ const editor = {PANEL}.content.widgets[2].editor; {PANEL}.content.mode = 'edit'; editor.focus();
        editor.setCursorPosition({{ line: 0, column: {cursor} }});
        jupyterapp.commands.execute('completer:invoke-notebook'); return true; }})()""")


def check_completion(page):
    complete(page, "@half()", 6)
    page.wait(f"{OFFERS}.startsWith('%a ')", 30, "what has the wanted type comes first")
    picture(page, "completion.png")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
    page.wait("!document.querySelector('.jp-Completer:not(.lm-mod-hidden)')", 10, "the list goes")
    complete(page, "nn.softmax(%a, )", 15)
    page.wait(f"{OFFERS} === 'axis='", 30, "the attribute is offered")
    page.value("jupyterapp.commands.execute('completer:select-notebook').then(() => true)")
    page.wait(f"{PANEL}.content.widgets[2].model.sharedModel.getSource() === 'nn.softmax(%a, axis=)'", 30, "the attribute is filled in")


def check_tab(page):
    """Tab behind a hole offers what fills it, and in a match the patterns that are left; what is chosen takes the hole's place."""
    complete(page, "let %b: float32 = _;", 19)
    page.wait(f"{OFFERS}.startsWith('%a ')", 30, "what fills the hole is offered")
    picture(page, "hole-tab.png")
    page.value("jupyterapp.commands.execute('completer:select-notebook').then(() => true)")
    page.wait(f"{PANEL}.content.widgets[2].model.sharedModel.getSource() === 'let %b: float32 = %a;'", 30, "the hole is filled")
    complete(page, "match (Cons(1, Nil)) {  }", 23)
    page.wait(f"{OFFERS}.startsWith('Cons(%x, %y) Nil Cons(%x, %y) => _, Nil => _')", 30, "the patterns are offered")
    picture(page, "patterns.png")
    for _ in range(2):
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowDown", code="ArrowDown", windowsVirtualKeyCode=40)
    page.value("jupyterapp.commands.execute('completer:select-notebook').then(() => true)")
    page.wait(f"{PANEL}.content.widgets[2].model.sharedModel.getSource() === 'match (Cons(1, Nil)) {{ Cons(%x, %y) => _, Nil => _ }}'", 30,
              "all clauses are there")
    page.wait(f"{WRONG} === '_'", 30, "and say what is to be filled")


def check_question(page):
    """A cell asks, and the answer that is typed below it counts."""
    write(page, ":type")
    page.value("jupyterapp.commands.execute('notebook:run-cell'), true")
    page.wait("!!document.querySelector('.jp-Stdin-input')", 30, "the cell asks")
    assert page.value("document.querySelector('.jp-Stdin-prompt').innerText").startswith("an expression, as in `:type EXPR`:")
    page.call("Input.insertText", text="%a + 1f")
    picture(page, "question.png")
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    page.wait(f"{PANEL}.content.widgets[2].outputArea.node.innerText.includes('float32')", 30, "the answer counts")


def main():
    with Lab() as lab:
        lab.write("live.ipynb", CELLS)
        page = lab.open("live.ipynb", len(CELLS))
        write(page, "1 + %nothing")
        page.wait(f"{WRONG} === '%nothing'", 60, "the error is underlined")
        rest_on(page, "%nothing")
        page.wait(f"{TIPS}.includes('there is no variable `%nothing` here')", 30, "the error says what it is")
        assert "wavy" in page.value("getComputedStyle(document.querySelector('.relay-wrong')).textDecorationStyle")
        picture(page, "live.png")
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
        check_types(page)
        page = check_setting(page, lab)
        write(page, HALF)
        run(page, 2)
        check_holes(page)
        check_completion(page)
        check_tab(page)
        check_question(page)


main()
