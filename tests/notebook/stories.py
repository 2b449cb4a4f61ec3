"""Six stories of the laboratory in JupyterLab, in a browser without a window: what a person wants to see is on the page, and the text form
of the same answer, which a terminal of 80 columns shows, says it too.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/stories.py [FOLDER]

With a folder pictures of each stay there, light and dark. Skipped (77) without JupyterLab (`make notebook` installs it) or Chromium.
"""
# LABELS: slow

import os
import subprocess
import sys
import time

import browser
from browser import PANEL, RELAY, Lab, command

sys.path.insert(0, os.path.join(browser.SOURCE, "tests", "repl"))
from stories import STORIES, plain  # noqa: E402

browser.WIDTH = 1400
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
def in_terminal(cell):
    """The answer as text at 80 columns."""
    done = subprocess.run([RELAY], input=cell + "\n", env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return plain(done.stdout)


def output(name):
    return f"{PANEL}.content.widgets[{list(STORIES).index(name)}].outputArea.node"


def click(page, what):
    """A click of the mouse on the middle of an element."""
    page.value(f"({what}).scrollIntoView({{block: 'center'}}), true")
    time.sleep(0.3)
    box = page.value(f"(() => {{ const b = ({what}).getBoundingClientRect(); "
                     "return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)
    time.sleep(0.3)


def seen(page, name):
    """The text that is to be seen of an output."""
    return plain(page.value(f"{output(name)}.innerText"))


def travel_on(page):
    """Forward and back through the rewrites."""
    def button(word):
        return (f"[...{output('travel')}.querySelectorAll('nav label')].find(l => l.checkVisibility() && "
                f"l.textContent.includes('{word}'))")
    assert "1 of 2" in seen(page, "travel") and "%u goes" in seen(page, "travel")
    click(page, button("forward"))
    assert "2 of 2" in seen(page, "travel") and "%d goes" in seen(page, "travel"), seen(page, "travel")
    click(page, button("back"))
    assert "1 of 2" in seen(page, "travel"), seen(page, "travel")


def check_roofline(page):
    """Every kernel has its point; that of the slowest is the one which lies under the flat part of the roof."""
    points = page.value(f"[...{output('roofline')}.querySelectorAll('circle[data-kernel] title')].map(t => t.textContent)")
    assert len(points) == 3 and all("operations a byte" in point for point in points), points
    intensity = {point.split(".")[0]: float(point.split(": ")[1].split()[0]) for point in points}
    assert intensity["dense"] > 50 > max(n for name, n in intensity.items() if name != "dense"), points


def lines_of(page):
    """The lines that are to be seen of each stage."""
    return page.value(f"""Object.fromEntries([...{output('constant')}.querySelectorAll('section')].map(section =>
        [section.dataset.stage, [...section.querySelectorAll('details>pre>*')].filter(
            line => line.checkVisibility()).map(line => line.textContent.trim())]))""")


def follow_constant(page):
    """A click on the product with the constant leaves its lines in the loops, in LLVM IR and in the machine code."""
    before = lines_of(page)
    click(page, f"[...{output('constant')}.querySelectorAll('label')].find(l => l.textContent.includes('*'))")
    after = lines_of(page)
    for stage in ("loops", "llvm", "asm"):
        assert 0 < len(after[stage]) < len(before[stage]), (stage, after)
    assert any("3.000000e+00" in line for line in after["llvm"]), after
    colours = page.value(f"""[...{output('constant')}.querySelectorAll('details>pre>*')].filter(line => line.checkVisibility()).map(
        line => getComputedStyle(line).borderLeftColor)""")
    assert len(set(colours)) == 1, f"one expression has several colours: {colours}"


# What is hard to read: [text, ratio of luminances, colours] of each text that is seen, where it is below `LEAST`. A button that leads to
# nothing is faint on purpose.
LEAST = 3.3  # the colours of JupyterLab's own editor have less than 4 on white
FAINT = """(output => {
    const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
    const over = (front, back) => { const a = front.length > 3 ? front[3] : 1;
        return [0, 1, 2].map(i => front[i] * a + back[i] * (1 - a)); };
    const ground = node => { if (!node || node.nodeType !== 1) return [255, 255, 255];
        const own = parse(getComputedStyle(node).backgroundColor);
        return own.length < 4 ? own : own[3] === 0 ? ground(node.parentElement) : over(own, ground(node.parentElement)); };
    const light = colour => { const [r, g, b] = colour.map(c => c / 255).map(
        c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const found = new Map(), walker = document.createTreeWalker(output, NodeFilter.SHOW_TEXT);
    for (let text; (text = walker.nextNode());) {
        const node = text.parentElement;
        if (!text.textContent.trim() || !node.checkVisibility() || node.closest('style, script, title, svg')) continue;
        let opaque = 1;
        for (let at = node; at !== output; at = at.parentElement) opaque *= Number(getComputedStyle(at).opacity);
        const back = ground(node), front = over(parse(getComputedStyle(node).color).slice(0, 3).concat(opaque), back);
        const [a, b] = [light(front), light(back)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < %f && opaque > 0.5) found.set(node.className + node.tagName + front,
            [text.textContent.trim().slice(0, 30), ratio.toFixed(2), front.map(Math.round), back.map(Math.round)]);
    }
    return [...found.values()];
})(%s)"""


def check_themes(page, folder):
    """Light and dark: every text stands out from what is behind it, and nothing makes the page wider."""
    for theme, title in THEMES.items():
        command(page, "apputils:change-theme", {"theme": title})
        time.sleep(2)
        for i, name in enumerate(STORIES):
            page.value(f"{PANEL}.content.scrollToItem({i}, 'start').then(() => true)")
            time.sleep(0.7)
            faint = page.value(FAINT % (LEAST, output(name)))
            assert not faint, f"{name}, {theme}: hard to read: {faint}"
            wide = page.value(f"{output(name)}.scrollWidth - {output(name)}.clientWidth")
            assert wide <= 1, f"{name}: {wide} pixels too wide"
            if folder:
                page.picture(os.path.join(folder, f"{name}-{theme}.png"))


def opens_at_once(page, folder):
    """The pipeline of a network by itself, as a page: what it takes from the start to the picture, at best of some times."""
    path = os.path.join(folder, "network.html")
    program = os.path.join(browser.SOURCE, "tests", "bench", "programs", "resnet18.rly")
    subprocess.run([RELAY, "opt", "-p", "-O3", "--html", path, program], check=True, stdout=subprocess.DEVNULL, timeout=60)
    taken = []
    for _ in range(5):
        page.call("Page.navigate", url=f"file://{path}")
        page.wait("document.readyState === 'complete' && performance.getEntriesByType('paint').length", 20, "the page opens")
        taken.append(page.value("Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd, "
                                "...performance.getEntriesByType('paint').map(p => p.startTime))"))
    assert min(taken) < 500, taken
    print(f"the pipeline of ResNet-18 opens in {min(taken):.0f} ms")


def main():
    with Lab() as lab:
        opens_at_once(lab.page, lab.folder)
        lab.write("stories.ipynb", {name: cell for name, (cell, _) in STORIES.items()})
        page = lab.open("stories.ipynb", len(STORIES))
        page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        page.wait(f"{PANEL}.content.widgets.every(cell => cell.model.type !== 'code' || cell.model.outputs.length)", 120,
                  "all cells ran")
        time.sleep(1)
        for name, (cell, facts) in STORIES.items():
            text, page_text = in_terminal(cell), plain(page.value(f"{output(name)}.textContent"))
            for fact in facts:
                assert fact in text, f"{name}: the text does not say {fact!r}: {text}"
                assert fact in page_text, f"{name}: the page does not say {fact!r}: {page_text}"
        travel_on(page)
        check_roofline(page)
        follow_constant(page)
        folder = sys.argv[1] if len(sys.argv) > 1 else None
        if folder:
            os.makedirs(folder, exist_ok=True)
        check_themes(page, folder)


main()
