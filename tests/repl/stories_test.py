"""The six stories in a terminal: on screens of 80 columns and on wide ones, in colours and without, gone through by keys.

Skipped where there is no tmux. With --show each screen is printed.
"""
import re
import sys

import terminal_test
from stories import STORIES, plain
from terminal_test import Wrong

# "all 2" or "1 of 2" changes, and which lines of them are shown.
HEAD = re.compile(r" (?:all )?(?:(\d+) of )?(\d+)(?:   lines \d+ to (\d+) of (\d+))?")


def bar(t):
    return t.screen().split("\n")[-1]


def tell(open, name, **options):
    """Types the cell of a story; the terminal, in which the answer has begun."""
    t = open(**options)
    t.type(STORIES[name][0])
    t.until(lambda: bar(t) != "relay>", "nothing was typed")
    t.keys("Enter")
    t.until(lambda: re.search(r"forward|-- more|^relay>$", bar(t)), "no answer")
    return t


def shown(t, before=None):
    """The screen once it is drawn whole and is no longer `before`: (it, its last line, the match of its first).

    A screen may be seen while it is half drawn: only one that is whole and seen twice counts.
    """
    last = [None]

    def settled():
        old, screen = last[0], t.screen()
        last[0] = screen
        end = screen.split("\n")[-1]
        return screen == old != before and (end == "relay>" or "more:" in end or HEAD.match(screen))

    t.until(settled, "the key did nothing" if before else "no answer")
    return last[0], last[0].split("\n")[-1], HEAD.match(last[0])


def go_through(t):
    """All screens of the answer, one after the other, down to its end."""
    screens = [None]
    for _ in range(200):
        screen, end, at = shown(t, screens[-1])
        screens.append(screen)
        if end == "relay>":
            return screens[1:]
        if "more:" in end:
            t.keys("Space")
        else:
            whole = not at[3] or at[3] == at[4]
            t.keys("PageDown" if not whole else "q" if at[1] == at[2] else "Right")
    raise Wrong("the answer has no end")


def check_facts(name, screens):
    text = plain(" ".join(re.sub(r"[-+>|│]", " ", screen) for screen in screens))
    for fact in STORIES[name][1]:
        wanted = plain(re.sub(r"[-+>|│]", " ", fact))
        if wanted not in text:
            raise Wrong("%s: no screen says %r:\n%s" % (name, fact, "\n".join(screens)))


def test_stories(open):
    """Every screen keeps to its columns, and all together say what the page says."""
    for name in STORIES:
        check_facts(name, go_through(tell(open, name)))


def test_colours(open):
    """The same in colours: what goes is red, what comes is green, and the words are the same."""
    t = tell(open, "fold", NO_COLOR="", COLORTERM="truecolor")
    screen = t.tmux("capture-pane", "-p", "-e")
    if not re.search(r"\x1b\[31m-[^\x1b]*add\(%x, %0\)[^\x1b]*(\x1b\[39m[ │]+)?\x1b\[32m\+ +add\(%x, 4f\)", screen):
        raise Wrong("the change has no colours:\n" + screen)
    check_facts("fold", [t.screen()])


def test_travel(open):
    """Forward and back through the rewrites, and the first that changes the result is said to."""
    t = tell(open, "travel", rows=14, columns=80)
    t.expect_text(" all 2")
    t.keys("Right")
    t.expect_text(" 1 of 2")
    t.expect_text("the result differs from here on: it was `4`")
    t.expect_text("-  let %u = ref_write(%r, 3f);")
    t.keys("Right")
    t.expect_text("- `%d` goes")
    t.keys("Left")
    t.expect_text("- `%u` goes")
    t.keys("q")
    t.expect("relay>")


def test_constant(open):
    """A key after the other leads from the source of the constant to its instruction."""
    t = tell(open, "constant", rows=24, columns=80)
    t.expect_text("  4  In[1]:1:57  3f")
    t.keys("Right", "Right", "Right", "Right")
    t.expect_text(" 4 of 5")
    screen = t.screen()
    for what in (r"passes +FuseOps: %0 = multiply\(%p0, 3f\);", r"loops(.|\n)*out\[i0\] = max\(x\[i0\] \* 3 \+ 1, 0\)",
                 r"llvm(.|\n)*fmul .*3\.000000e\+00", r"asm(.|\n)*mul"):
        if not re.search(what, screen):
            raise Wrong("the constant is not followed to %s:\n%s" % (what, screen))
    t.keys("q")
    t.expect("relay>")


def test_roofline(open):
    """The first screen says which kernel is slow and how far from its bound; the next ones are its loops."""
    t = tell(open, "roofline", rows=24, columns=80)
    t.expect_text("slowest   dense.")
    t.expect_text("by arithmetic")
    t.keys("Right", "Right")
    t.expect_text("from `nn.dense(nn.relu(%x), %w, units=512)`")
    t.keys("q")
    t.expect("relay>")


if __name__ == "__main__":
    sys.exit(terminal_test.main(globals()))
