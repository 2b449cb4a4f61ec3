"""The REPL on a real terminal: keys go in through tmux, and what stands on the screen is compared.

Skipped where there is no tmux. `terminal_test.py NAME…` runs some of the tests; with --show the
screen is printed after each step.
"""
import base64
import io
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RELAY = os.path.abspath(os.environ.get("RELAY", "build/release/relay"))
PATIENCE = float(os.environ.get("RELAY_TEST_PATIENCE", "30"))
SHOW = "--show" in sys.argv


class Wrong(Exception):
    pass


class Terminal:
    """A tmux server of its own with one window, in which the REPL runs."""
    count = 0

    def __init__(self, state, columns=80, rows=24, command=None, **env):
        Terminal.count += 1
        self.socket = "relay_test_%d_%d" % (os.getpid(), Terminal.count)
        self.env = dict(os.environ, LC_ALL="C.UTF-8", TMUX_TMPDIR=state)
        self.env.pop("TMUX", None)
        env = dict({"TERM": "tmux-256color", "XDG_STATE_HOME": state, "NO_COLOR": "1"}, **env)
        words = " ".join("%s='%s'" % kv for kv in env.items())
        command = command or "'%s'; echo left with $?; exec cat" % RELAY
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "export %s; %s" % (words, command))

    def tmux(self, *args, **kw):
        return subprocess.run(["tmux", "-u", "-L", self.socket, *args], env=self.env, check=True,
                              capture_output=True, **kw).stdout.decode("utf-8")

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def enter(self, *lines):
        """Types lines, each once the one before has been taken."""
        for line in lines:
            before = self.cursor()
            self.type(line)
            self.keys("Enter")
            self.until(lambda: self.cursor()[1:] != before[1:], "the line was not taken: " + line)

    def paste(self, text):
        self.tmux("load-buffer", "-", input=text.encode())
        self.tmux("paste-buffer", "-p")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self, *options):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", *options).split("\n")]

    def screen(self):
        return "\n".join(self.lines()).rstrip("\n")

    def cursor(self):
        x, y, past = self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y} #{history_size}").split()
        return int(x), int(y), int(past)

    def until(self, good, what):
        deadline = time.monotonic() + PATIENCE
        while not good():
            if time.monotonic() > deadline:
                raise Wrong("%s\n--- screen, cursor %s\n%s\n---" % (what, self.cursor(), self.screen()))
            time.sleep(0.02)
        if SHOW:
            print("--- cursor %s\n%s" % (self.cursor(), self.screen()))

    def expect(self, *wanted):
        """The last lines of the screen are these."""
        n = len(wanted)
        self.until(lambda: self.screen().split("\n")[-n:] == list(wanted),
                   "the screen does not end in:\n" + "\n".join(wanted))

    def expect_text(self, text):
        self.until(lambda: text in self.screen(), "the screen has no `%s`" % text)

    def expect_cursor(self, column):
        self.until(lambda: self.cursor()[0] == column, "the cursor is not in column %d" % column)

    def close(self):
        """What the end of its terminal does not end is ended: a leak checker that a signal meets may wait for itself for ever."""
        panes = subprocess.run(["tmux", "-L", self.socket, "list-panes", "-a", "-F", "#{pane_pid}"], env=self.env, capture_output=True)
        subprocess.run(["tmux", "-L", self.socket, "kill-server"], env=self.env, capture_output=True)
        for pid in map(int, panes.stdout.split()):
            deadline = time.monotonic() + 5
            while is_alive(pid) and time.monotonic() < deadline:
                time.sleep(0.02)
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ---------------------------------------------------------------- tests; `open` starts a REPL

def test_prompt_and_leaving(open):
    t = open()
    t.until(lambda: t.lines()[0].startswith("Relay "), "no banner")
    t.expect("relay>")
    t.expect_cursor(7)
    t.enter("1 + 2")
    t.expect("relay> 1 + 2", "3", "relay>")
    t.keys("C-d")
    t.expect("left with 0")


def test_quit(open):
    t = open()
    t.enter(":quit")
    t.expect("relay> :quit", "left with 0")


def marked(t):
    """The text in reverse video in the source, each row by itself."""
    rows = t.tmux("capture-pane", "-p", "-e").split("\n")[6:]
    found = "".join(re.findall(r"\x1b\[(?:0;)?7m(.*?)\x1b\[", "\n".join(rows), re.S))
    return re.sub(r"\s+", " ", found).strip()


def test_step_view(open):
    t = open()
    t.enter("def @fact(%n: int32) -> int32 {")
    t.enter("if (%n == 0) { 1 }", "else { %n * @fact(%n - 1) }", "}")
    t.expect("@fact: fn (int32) -> int32", "relay>")
    t.enter(":step @fact(2)")
    t.expect_text("step 0  in @fact(2)")
    t.expect_text("the evaluation begins")
    t.until(lambda: marked(t) == "@fact(2)", "the expression is not marked")
    t.keys("Right", "n")
    t.expect_text("step 2  in @fact(%n = 2)")
    t.expect_text("`equal` of 2 and 0 is False")
    t.until(lambda: marked(t) == "%n == 0", "the condition is not marked")
    t.until(lambda: t.lines()[3:5] == ["  if (2 == 0) { 1 } else { 2 * @fact(2 - 1) }",
                                       "→ if (False) { 1 } else { 2 * @fact(2 - 1) }"], "no values in the statement")
    t.keys("Space", "Space", "Space")
    t.expect_text("`@fact` is called with %n = 1")
    t.expect_text("*%n: int32 = 1")
    t.keys("o")
    t.expect_text("`@fact` returns 1")
    t.until(lambda: marked(t) == "@fact(%n - 1)", "the call is not marked")
    t.until(lambda: t.lines()[3:5] == ["  2 * @fact(1)", "→ 2 * 1"], "what the call gives does not take its place")
    t.keys("Left")
    t.expect_text("`multiply` of 1 and 1 is 1")
    t.keys("g")
    t.expect_text("step 0  in")
    t.keys("n", "n", "Down", "Enter")
    t.expect_text("`subtract` of 2 and 1 is 1")
    t.keys("u")
    t.expect_text("`@fact` returns 2")
    t.expect_text("of 16")
    t.keys("?")
    t.expect_text("the step before")
    t.resize(60, 12)
    t.expect_text("`@fact` returns 2")
    t.keys("q")
    t.expect("relay> :step @fact(2)", "2", "relay>")


def test_step_view_leave(open):
    t = open()
    t.enter("def @forever(%n: int32) -> int32 { @forever(%n + 1) }")
    t.enter(":step @forever(0)")
    t.keys("n", "n", "q")
    t.expect("relay> :step @forever(0)", "relay>")
    t.enter(":step @forever(0)")
    t.expect_text("step 0")
    t.keys("e")
    time.sleep(0.5)
    t.keys("C-c")
    t.expect_text("error[E0501]: interrupted")
    t.until(lambda: t.screen().endswith("relay>"), "no prompt")


def test_breakpoint(open):
    t = open()
    t.enter("def @f(%n: int32) -> int32 { if (%n == 0) { 7 } else { @f(%n - 1) } }",
            ":break @f if %n == 3", "@f(5)")
    t.expect_text("breakpoint @f if %n == 3")
    t.expect_text("*%n: int32 = 3")
    t.keys("p")
    t.expect_text("`subtract` of 4 and 1 is 3")
    t.keys("e", "e")
    t.expect_text("`@f` returns 7")
    t.keys("q")
    t.expect("7", "relay>")
    t.enter("@f(5)")
    t.expect_text("*%n: int32 = 3")
    t.keys("q")
    t.expect_text("error[E0505]: the evaluation ended at the breakpoint `@f if %n == 3`")
    t.enter(":unbreak", "@f(5)")
    t.expect("7", "relay>")


def test_no_stop(open):
    """What meets no breakpoint is not shown step by step; a watched variable is only told about."""
    t = open()
    t.enter("def @f(%n: int32) -> int32 { %n + 1 }", ":break @f if %n == 3", ":watch %n", "@f(5)")
    t.expect_text("%n = 5")
    t.expect("6", "relay>")


def test_several_lines(open):
    t = open()
    t.enter("let %f = fn (%a: int32) {")
    t.expect_cursor(9)
    t.type("%a + 1")
    t.keys("Enter")
    t.expect("relay> let %f = fn (%a: int32) {", "  ...>   %a + 1", "  ...>")
    t.type("}")
    t.expect("  ...>   %a + 1", "  ...> }")
    t.type(";")
    t.keys("Enter")
    t.until(lambda: t.screen().endswith("\nrelay>"), "the cell did not end")
    t.enter("%f(41)")
    t.expect("relay> %f(41)", "42", "relay>")


def test_editing_lines(open):
    t = open()
    t.enter("add(")
    t.enter("12,")
    t.type("3)")
    t.keys("Up", "C-e", "Left", "BSpace")
    t.expect("relay> add(", "  ...>   1,", "  ...>   3)")
    t.keys("Home", "C-k", "C-k", "C-_", "C-_", "C-_", "M->")
    t.expect("relay> add(", "  ...>   12,", "  ...>   3)")
    t.keys("Enter")
    t.expect("15", "relay>")


def test_history(open):
    t = open()
    t.enter("1 + 1", "add(", "2,")
    t.type("2)")
    t.keys("Enter")
    t.expect("4", "relay>")
    t.keys("Up")
    t.expect("relay> add(", "  ...>   2,", "  ...>   2)")
    t.keys("Up")
    t.expect("relay> 1 + 1")
    t.keys("Down", "Down")
    t.expect("4", "relay>")
    t.type("1")
    t.keys("Up")
    t.expect("relay> 1 + 1")
    t.keys("C-c", "C-d")
    t.expect("left with 0")
    t = open()
    t.keys("Up")
    t.expect("relay> add(", "  ...>   2,", "  ...>   2)")


def test_ghost(open):
    """With colours, the text goes on in grey as it did before, and as names do; Right takes it."""
    t = open(NO_COLOR="")
    t.enter("multiply(20, 2)")
    t.expect("relay> multiply(20, 2)", "40", "relay>")
    t.type("mul")
    t.expect("relay> multiply(20, 2)")
    t.expect_cursor(10)
    t.keys("Right")
    t.expect_cursor(22)
    t.keys("Enter")
    t.expect("40", "relay>")
    t.type("nn.soft")
    t.expect("relay> nn.softmax")
    t.keys("End")
    t.type("(1")
    t.keys("C-c")
    t.expect("relay> nn.softmax(1", "relay>")
    t.type("mul")
    t.expect("relay> multiply(20, 2)")
    t.keys("C-c")
    t.expect("relay> mul", "relay>")
    t.keys("C-d")
    t.expect("relay>", "left with 0")


def test_live_errors(open):
    t = open()
    t.type("let %x = nosuch(1); let %y =")
    t.expect("relay> let %x = nosuch(1); let %y =",
             "error[E0111]: `nosuch` is neither an operator nor a constructor")
    t.keys("C-u")
    t.type("nosuch")
    t.expect("relay> nosuch")
    t.keys("C-c")
    t.expect("relay> nosuch", "relay>")


def test_editor(open):
    t = open(EDITOR="sed -i s/1/20/")
    t.type("1 + 2")
    t.keys("M-e")
    t.expect("relay> 20 + 2")
    t.keys("Enter")
    t.expect("22", "relay>")


def test_edit(open):
    t = open()
    t.enter("def @f(%n: int32) { %n + 1 }", ":edit @f")
    t.expect_text("relay> :edit @f\nrelay> def @f(%n: int32) { %n + 1 }")
    t.keys("BSpace", "BSpace", "BSpace")
    t.type("2 }")
    t.keys("Enter")
    t.enter("@f(40)")
    t.expect_text("42")


def test_plain(open):
    t = open(command="'%s' --plain" % RELAY)
    t.expect("relay>")
    t.enter("1 + 2")
    t.expect("relay> 1 + 2", "3", "relay>")


def test_results_and_undo(open):
    t = open(NO_COLOR="", columns=200, rows=60)
    t.enter("6 * 7", "%_ + %_1", "let %x = %_;", ":und")
    t.expect("relay> :und", "taken back: %x", "relay>")
    t.enter("%x")
    t.expect_text("there is no variable `%x` here")


def test_asks(open):
    """A command asks for what it lacks, and before it writes over a file or forgets what there is."""
    t = open()
    state = t.env["TMUX_TMPDIR"]
    path = os.path.join(state, "mine.rly")
    with io.open(path, "w") as file:
        file.write("// precious\n")
    t.enter("let %x = 1;", ":type")
    t.expect("relay> :type", "an expression, as in `:type EXPR`:")
    t.type("%x + 12")
    t.keys("Left", "BSpace", "Enter")
    t.expect("an expression, as in `:type EXPR`: %x + 2", "int32", "relay>")
    t.enter(":type")
    t.until(lambda: t.screen().endswith("as in `:type EXPR`:"), "nothing is asked")
    t.keys("Up", "Tab", "C-r", "M-Enter", "F1", "Enter")
    t.expect_text("error[E0402]: an expression is missing")
    t.expect("relay>")
    t.enter(":type")
    t.until(lambda: t.screen().endswith("as in `:type EXPR`:"), "nothing is asked")
    t.keys("C-c")
    t.expect_text("error[E0501]: interrupted")
    t.expect("relay>")
    t.enter(":reset")
    t.expect("relay> :reset", "forget 1 variable? [y/N]")
    t.keys("C-d")
    t.expect("nothing is changed", "relay>")
    t.enter(":save " + path)
    t.until(lambda: t.screen().endswith("[y/N]") or t.screen().endswith("\n>"), "nothing is asked")
    t.enter("what")
    t.until(lambda: t.screen().endswith("[y/N]") or t.screen().endswith("\n>"), "nothing is asked again")
    t.enter("y")
    t.expect_text("1 line in " + path)
    t.expect("relay>")
    with io.open(path) as file:
        text = file.read()
    assert text.startswith("let %x = 1"), text
    t.enter(":reset")
    t.enter("y")
    t.expect("forget 1 variable? [y/N] y", "relay>")
    t.enter("%x")
    t.expect_text("there is no variable `%x` here")


def test_asks_without_editing(open):
    for kw in ({"command": "'%s' --plain; echo left with $?; exec cat" % RELAY}, {"TERM": "dumb"}):
        t = open(**kw)

        def enter(line, *wanted):
            t.enter(line)
            t.expect(*wanted)

        t.expect("relay>")
        enter("let %x = 1", "%x: int32 = 1", "relay>")
        enter(":reset", "relay> :reset", "forget 1 variable? [y/N]")
        enter("n", "forget 1 variable? [y/N] n", "nothing is changed", "relay>")
        enter(":reset", "relay> :reset", "forget 1 variable? [y/N]")
        t.keys("C-c")
        t.expect_text("error[E0501]: interrupted")
        t.expect("relay>")
        enter("%x", "relay> %x", "1", "relay>")
        enter(":type", "an expression, as in `:type EXPR`:")
        enter("%x", "an expression, as in `:type EXPR`: %x", "int32", "relay>")
        enter(":reset", "relay> :reset", "forget 1 variable? [y/N]")
        enter("y", "forget 1 variable? [y/N] y", "relay>")
        t.enter("%x")
        t.expect_text("there is no variable `%x` here")


def test_asks_nobody(open):
    """A script means what it says."""
    t = open(command="cd $XDG_STATE_HOME; touch there.rly; printf 'let %%x = 1;\\n:save there.rly\\n:reset\\n:type\\n' | '{0}';"
                     " cat there.rly; echo left with 1; exec cat".format(RELAY))
    t.expect_text("let %x = 1;\nleft with 1")
    t.expect_text("an expression is missing")


def test_start_up(open):
    state = open().env["TMUX_TMPDIR"]
    folder = os.path.join(state, "config", "relay")
    os.makedirs(folder)
    with io.open(os.path.join(folder, "startup.rly"), "w") as file:
        file.write("def @twice(%x: int32) { %x + %x }\nlet %wrong = nosuch(1);\n")
    t = open(XDG_CONFIG_HOME=os.path.join(state, "config"))
    t.expect_text("startup.rly:2:14")
    t.enter("@twice(4)")
    t.expect("8", "relay>")
    t.enter(":set opt 3", ":set keep")
    t.expect_text("kept in ")
    t.expect("relay>")
    t.keys("C-d")
    t.expect("left with 0")
    t = open(XDG_CONFIG_HOME=os.path.join(state, "config"))
    t.enter(":set")
    t.expect_text("opt   3")


def write_startup(state, text):
    """The folder to give as $XDG_CONFIG_HOME."""
    folder = os.path.join(state, "slow", "relay")
    os.makedirs(folder, exist_ok=True)
    with io.open(os.path.join(folder, "startup.rly"), "w") as file:
        file.write(text)
    return os.path.join(state, "slow")


def test_startup_is_interrupted(open):
    config = write_startup(open().env["TMUX_TMPDIR"],
                           "let %x = 3;\ndef @loop(%n: int32) -> int32 { @loop(%n) }\n@loop(0)\n")
    for words in ("", " --plain"):
        command = "sh -c 'echo pid $$; exec \"$0\" \"$@\"' '%s'%s; echo left with $?; exec cat" % (RELAY, words)
        t = open(command=command, XDG_CONFIG_HOME=config)
        t.expect_text("Relay ")
        time.sleep(0.3)
        t.keys("C-c")
        t.expect_text("error[E0501]: interrupted")
        t.expect("relay>")
        t.enter("%x")
        t.expect("relay> %x", "3", "relay>")
        for name in ("SIGTERM", "SIGHUP"):
            t = open(command=command, XDG_CONFIG_HOME=config)
            t.expect_text("Relay ")
            pid = next(line.split()[1] for line in t.lines() if line.startswith("pid "))
            time.sleep(0.3)
            os.kill(int(pid), getattr(signal, name))
            t.expect_text("left with 3")


def test_plain_starts_as_others_do(open):
    config = write_startup(open().env["TMUX_TMPDIR"], "let %x = 3;\n")
    for kw in ({"command": "'%s' --plain" % RELAY}, {"TERM": "dumb"}):
        t = open(XDG_CONFIG_HOME=config, **kw)
        t.expect("relay>")
        t.enter("%x")
        t.expect("relay> %x", "3", "relay>")


def test_plain_answers_what_uses_what_failed(open):
    t = open(command="'%s' --plain" % RELAY)
    t.expect("relay>")
    t.enter("def @f(%x: int32) -> int32 { @missing(%x) }")
    t.expect_text("nothing defines `@missing`")
    t.enter("@f(1)")
    t.expect_text("nothing defines `@f`")
    t.enter("let %x = 1 + ();")
    t.expect_text("not a tensor")
    t.enter("%x")
    t.expect_text("there is no variable `%x` here")


def test_history_of_two(open):
    a, b = open(), open()
    a.enter("10 + 1")
    b.enter("20 + 2")
    a.enter("10 + 3")
    b.expect_text("22")
    a.expect_text("13")
    c = open()
    c.keys("Up")
    c.expect("relay> 10 + 3")
    c.keys("Up")
    c.expect("relay> 20 + 2")
    c.keys("Up")
    c.expect("relay> 10 + 1")


def test_search(open):
    t = open()
    t.enter("100 + 1", "200 + 1", "100 + 2")
    t.expect("102", "relay>")
    t.keys("C-r")
    t.type("100")
    t.expect("relay> 100 + 2", "history: 100")
    t.keys("C-r")
    t.expect("relay> 100 + 1", "history: 100")
    t.keys("C-r")
    t.expect("relay> 100 + 1", "history, nothing more: 100")
    t.keys("C-s")
    t.expect("relay> 100 + 2", "history: 100")
    t.keys("C-g")
    t.expect("102", "relay>")
    t.keys("C-r")
    t.type("200")
    t.keys("Enter")
    t.expect("relay> 200 + 1", "201", "relay>")


def test_completion(open):
    t = open()
    t.type("nn.batch_fl")
    t.keys("Tab")
    t.expect("relay> nn.batch_flatten")
    t.keys("C-u")
    t.type("add(1, argm")
    t.keys("Tab")
    t.expect_text("\n argmin ")
    t.expect_text("relay> add(1, argm\n")
    t.keys("Tab")
    first = "argmax" if " argmax" in t.lines()[2] else "argmin"
    t.expect_text("relay> add(1, %s\n" % first)
    t.keys("Escape")
    t.expect("relay> add(1, argm")
    t.type("a")
    t.keys("Tab")
    t.expect("relay> add(1, argmax")


def test_cancel_and_interrupt(open):
    t = open()
    t.type("not to be run (")
    t.keys("Enter", "C-c")
    t.expect("relay>")
    t.enter("def @forever(%n: int32) -> int32 {")
    t.type("@forever(%n + 1)")
    t.keys("Enter")
    t.type("}")
    t.keys("Enter")
    t.until(lambda: t.screen().endswith("\nrelay>"), "the definition did not end")
    t.type("@forever(0)")
    t.keys("Enter")
    t.expect("relay> @forever(0)")
    time.sleep(0.2)
    t.keys("C-c")
    t.expect_text("E0501")
    t.until(lambda: t.screen().endswith("\nrelay>"), "no prompt after the interrupt")
    t.enter("1 + 2")
    t.expect("relay> 1 + 2", "3", "relay>")


def test_paste(open):
    t = open()
    t.paste("def @f(%x: int32) -> int32 {\n    let %y = %x;\n\n    %y\n}\n")
    t.expect("relay> def @f(%x: int32) -> int32 {", "  ...>     let %y = %x;", "  ...>",
             "  ...>     %y", "  ...> }")
    t.keys("Enter")
    t.until(lambda: t.screen().endswith("\nrelay>"), "the definition did not end")
    t.enter("@f(7)")
    t.expect("7", "relay>")


def test_search_of_lines(open):
    t = open()
    t.enter("add(", "2,")
    t.type("3)")
    t.keys("Enter")
    t.expect("5", "relay>")
    t.keys("C-r")
    t.type("add(")
    t.expect("relay> add(", "  ...>   2,", "  ...>   3)", "history: add(")
    t.keys("Enter")
    t.expect("relay> add(", "  ...>   2,", "  ...>   3)", "5", "relay>")


def test_paste_of_transcript(open):
    t = open()
    t.paste("relay> let %a = add(1,\n  ...>   2);\n%a: int32 = 3\nrelay> %a + 1\n4\n")
    t.expect("relay> let %a = add(1,", "  ...>   2);", "  ...> %a + 1")
    t.keys("Enter")
    t.expect("%a: int32 = 3", "4", "relay>")


def test_pages(open):
    t = open(rows=12)
    t.type(":help")
    t.keys("Enter")
    t.expect_text("-- more: Space")
    t.expect_text("Questions")
    t.keys("Space")
    t.expect_text("  :rewrites  ")
    t.keys("q")
    t.expect("relay>")
    assert "  :quit" not in "\n".join(t.lines("-S", "-")), "what nobody wanted to see is there"
    t.enter("1 + 1")
    t.expect("2", "relay>")
    t.enter(":clear")
    t.until(lambda: t.screen() == "relay>", "the screen is not empty")


def test_rows_fit(open):
    """A row of a table goes on below its second column; a line that begins further in has none."""
    t = open(columns=72, rows=150)
    t.enter(":help")
    t.expect("one. Ctrl-R searches the history, Ctrl-C interrupts, Ctrl-D leaves.", "relay>")
    t.expect_text("  :explain   What a message means, how a type was found, what a pass\n             decided.\n")
    name = "%" + 35 * "a"
    t.enter(":show text fn (%s: int32) { add(%s, %s) }" % (name, name, name))
    t.expect_text("\n  add(%s,\n      %s)\n" % (name, name))


def test_parts(open):
    """A pipeline that does not fit the screen is shown step by step, on a screen of its own."""
    t = open(rows=10, columns=80)
    t.type(":pass FoldConstant,FuseOps,Inline fn (%x: float32) { exp(%x * (2f + 3f)) }")
    t.keys("Enter")
    t.expect_text(" all 2")
    t.expect_text("//  3  Inline")
    t.keys("Right")
    t.expect_text("`add` (`%0`) is `5f`: its operands are known")
    assert "FuseOps" not in t.screen()
    t.keys("Right")
    t.expect_text("one group of 2 calls")
    t.keys("Right")
    t.expect_text(" 2 of 2")
    t.keys("Down")
    t.expect_text(" 2 of 2   lines 2 to 9 of 11")
    t.keys("Left")
    t.expect_text(" 1 of 2")
    t.keys("Home")
    t.expect_text(" all 2")
    t.keys("q")
    t.expect("relay>")
    t.expect_text("//  3  Inline")
    assert "one group" not in t.screen()
    t.enter("1 + 1")
    t.expect("2", "relay>")


def test_parts_in_columns(open):
    """On a wide screen what was stands beside what is; `c` and a narrow screen put it below."""
    t = open(rows=10, columns=140)
    t.type(":pass FoldConstant,FuseOps,Inline fn (%x: float32) { exp(%x * (2f + 3f)) }")
    t.keys("Enter")
    t.expect_text(" all 2")
    t.keys("Right")
    beside = re.compile(r"^-  %1 = multiply\(%x, %0\); +│ \+  %1 = multiply\(%x, 5f\);$", re.M)
    t.until(lambda: beside.search(t.screen()), "the two are not beside each other")
    assert re.search(r"^   exp\(%1\) +│    exp\(%1\)$", t.screen(), re.M), t.screen()
    t.keys("c")
    t.expect_text("-  %1 = multiply(%x, %0);\n+  %1 = multiply(%x, 5f);")
    t.keys("c")
    t.until(lambda: beside.search(t.screen()), "not beside each other again")
    t.keys("q")
    t.expect("relay>")
    t.close()
    t = open(rows=10, columns=140)
    t.type(":pass FoldConstant,FuseOps,Inline fn (%x: float32) { exp(%x * (2f + 3f)) }")
    t.keys("Enter")
    t.expect_text(" all 2")
    t.keys("Right")
    t.until(lambda: beside.search(t.screen()), "the two are not beside each other")
    t.resize(80, 10)
    t.expect_text("-  %1 = multiply(%x, %0);\n+  %1 = multiply(%x, 5f);")
    t.keys("q")
    t.expect("relay>")


def test_one_change(open):
    """A pipeline of which one pass changes something is gone through as others are: the passes, then the change."""
    t = open(rows=12, columns=80)
    t.type(":pass -O3 fn (%x: float32) { exp(%x) }")
    t.keys("Enter")
    t.expect_text(" all 1")
    t.expect_text("no change")
    t.keys("Right")
    t.expect_text(" 1 of 1")
    t.expect_text("Primitive=1")
    t.keys("q")
    t.expect("relay>")


def test_types_fit(open):
    """The marks of a derivation stand below what they mark, however long the line is."""
    t = open(rows=60, columns=80)
    t.enter(":explain types fn (%x: Tensor[(2, 3), float32], %w: Tensor[(4, 5), float32]) { nn.dense(%x, %w, units=None) }")
    t.expect("relay>")
    lines = t.screen().split("\n")
    for k, line in enumerate(lines):
        if "nn.dense(%x, %w, units=None) }" in line and line.startswith(" 1 |"):
            at = line.index("nn.dense")
            assert set(lines[k + 1][at:at + len("nn.dense(")]) <= {"^"}, t.screen()
    assert any(line.startswith(" 1 | ...") for line in lines), t.screen()


def test_answers_in_columns(open):
    """What fits a very wide screen is no screen of its own, and has two columns at once; a narrower one has one."""
    cell = ":pass FoldConstant fn (%x: float32) { exp(%x * (2f + 3f)) }"
    t = open(rows=40, columns=160)
    t.enter(cell)
    t.expect("relay>")
    assert re.search(r"^-  %1 = multiply\(%x, %0\); +│ \+  %1 = multiply\(%x, 5f\);$", t.screen(), re.M), t.screen()
    t.close()
    t = open(rows=40, columns=159)
    t.enter(cell)
    t.expect("relay>")
    t.expect_text("-  %1 = multiply(%x, %0);\n+  %1 = multiply(%x, 5f);")


def test_long_lines(open):
    t = open(columns=40)
    t.enter("let %f = fn (%first: int32, %second: int32, %third: int32) { %first };")
    t.expect("%f: fn (int32, int32, int32) -> int32", "relay>")
    t.enter(":type (%f, %f)")
    t.expect("(fn (int32, int32, int32) -> int32, fn", "    (int32, int32, int32) -> int32)", "relay>")


def test_errors_fit(open):
    """A message is broken at blanks, and of a long line what it is about is shown, in as many windows as that takes."""
    text = "def @f(%a: Tensor[(2, 3), float32], %b: Tensor[(4, 5), float32]) { nn.dense(%a, %b, units=None) }"
    t = open(columns=80)
    t.enter(text)
    t.expect_text("\n".join((
        "error[E0202]: `nn.dense` sums over axis 1 of `data` with 3 elements and axis 1", "  of `weight` with 5", "  --> In[1]:1:68",
        "   |", " 1 | def @f(%a: Tensor[(2, 3), float32], %b: Tensor[(4, 5), float32]) { nn.de...",
        "   |        --                           -- 5", "   |        3", " 1 | ...(4, 5), float32]) { nn.dense(%a, %b, units=None) }",
        "   |                        ^^^^^^^^^^^^^--^^^^^^^^^^^^^")))
    t = open(columns=100)
    t.enter(text)
    t.expect_text("   |        |                            |                         this is `Tensor[(4, 5), float32]`\n")
    t = open(columns=200)
    t.enter(text)
    t.expect_text("\n".join(("   |        --                           --                             ^^^^^^^^^^^^^--^^^^^^^^^^^^^",
                             "   |        |                            |                                           this is `Tensor[(4, 5), float32]`",
                             "   |        |                            5", "   |        3")))


def test_joined_characters(open):
    t = open()
    t.type("// a\U0001f469\u200d\U0001f469\u200d\U0001f467b\U0001f1e9\U0001f1eac")
    t.keys("Left", "BSpace")
    t.expect("relay> // a\U0001f469\u200d\U0001f469\u200d\U0001f467bc")
    t.keys("Left", "BSpace")
    t.expect("relay> // abc")
    t.expect_cursor(11)


def test_wide_characters(open):
    t = open(columns=30)
    t.type('"日本語日本語日本語日本語日本語"')
    t.expect("relay> \"日本語日本語日本語日本", "語日本語\"")
    t.keys("Home", "Right", "Right", "Right")
    t.expect_cursor(12)
    t.keys("BSpace")
    t.expect("relay> \"日語日本語日本語日本語", "日本語\"")


def test_resize(open):
    t = open(columns=60, rows=12)
    text = "add(5111111111, multiply(2222222222, subtract(3333333333, 4444444444)))"
    t.type(text)
    rows = lambda width: [("relay> " + text)[i:i + width] for i in range(0, len(text) + 7, width)]
    t.expect(*rows(60))
    for width in (30, 47, 100, 40, 60):
        t.resize(width, 12)
        t.expect(*rows(width))
        t.until(lambda: t.screen().count("relay>") == 1, "the old prompt stays")
    t.type("x")
    t.keys("BSpace")
    t.expect(*rows(60))


def test_taller_than_the_screen(open):
    t = open(rows=6)
    t.paste("\n".join("(%d," % i for i in range(20)))
    t.expect(*["  ...> (%d," % i for i in range(14, 20)])
    t.keys("M-<")
    t.expect("relay> (0,", *["  ...> (%d," % i for i in range(1, 6)])
    t.keys("C-c")
    t.expect("relay>")


def test_colors(open):
    t = open(NO_COLOR="")
    t.type("let 12")
    t.expect("relay> let 12")
    t.until(lambda: any("\x1b[35" in line and "\x1b[33" in line for line in t.lines("-e")),
            "keyword and number have no colours")
    plain = open()
    plain.type("let 12")
    plain.expect("relay> let 12")
    plain.until(lambda: not any("\x1b[3" in line for line in plain.lines("-e")), "colours despite NO_COLOR")


def test_suspend(open):
    t = open(command="PS1='$ ' exec sh -i")
    t.enter("'%s'" % RELAY)
    t.expect("relay>")
    t.type("1 + ")
    t.keys("C-z")
    t.until(lambda: t.screen().endswith("$"), "the shell has no prompt")
    t.enter("fg")
    t.expect("relay> 1 +")
    t.type("2")
    t.keys("Enter")
    t.expect("relay> 1 + 2", "3", "relay>")


def test_suspend_screens(open):
    """What takes the whole screen gives it back meanwhile."""
    t = open(command="PS1='$ ' exec sh -i", rows=12)
    t.enter("'%s'" % RELAY)
    t.expect("relay>")
    for command, shown, leave in (
            (":step (1 + 2) * 3", "step 0  in", "q"),
            (":pass FoldConstant,FuseOps,Inline fn (%x: float32) { exp(%x * (2f + 3f)) }", " all 2", "q"),
            (":help", "-- more", "q")):
        t.enter(command)
        t.expect_text(shown)
        t.keys("C-z")
        t.until(lambda: t.screen().endswith("$") and shown not in t.screen(), "the shell has no prompt")
        t.enter("fg")
        t.expect_text(shown)
        t.keys(leave)
        t.until(lambda: t.screen().endswith("relay>"), "the view does not end")


def test_dumb(open):
    t = open(TERM="dumb")
    t.enter("add(1,")
    t.expect("relay> add(1,", "  ...>")
    t.enter("2)")
    t.expect("  ...> 2)", "3", "relay>")
    t.keys("C-d")
    t.expect("relay>", "left with 0")


def test_asked_to_end(open):
    t = open(command="sh -c 'echo pid $$; exec \"$0\"' '%s'; echo left with $?; exec cat" % RELAY)
    t.expect("relay>")
    pid = next(line.split()[1] for line in t.lines() if line.startswith("pid "))
    t.type("unfinished")
    t.expect("relay> unfinished")
    os.kill(int(pid), signal.SIGTERM)
    t.expect("relay> unfinished", "left with 3")


def test_train(open):
    """The curve stays where it is while it grows, and an interrupt says what was kept."""
    t = open(columns=90, rows=40)
    t.enter("def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }")
    t.enter("let %s = 0;")
    t.enter(":train steps=100000 %s (%s + 1 + cast(@spin(300000i64), dtype=\"int32\"), 1f / cast(%s + 1, dtype=\"float32\"))")
    t.until(lambda: int((re.findall(r"step (\d+) of", t.screen()) or ["0"])[-1]) > 3, "no curve")
    first = int(re.findall(r"step (\d+) of", t.screen())[-1])
    t.until(lambda: int(re.findall(r"step (\d+) of", t.screen())[-1]) > first, "the curve does not grow")
    t.keys("C-c")
    t.expect_text("interrupted")
    t.expect_text("is what step")
    assert len(re.findall(r"step \d+ of \d+ ·", t.screen())) == 1, t.screen()


def test_status(open):
    """A line says what a cell that takes long is at, and is gone when anything else is shown."""
    t = open()
    t.enter(":engine interp", "def @spin(%n: int64) -> int64 { if (%n == 0i64) { 0i64 } else { @spin(%n - 1i64) } }")
    t.enter("@spin(1000000000000i64)")
    t.until(lambda: re.fullmatch(r"[1-9]\d* s  evaluating \d+ steps", t.screen().split("\n")[-1]), "no status")
    t.keys("C-c")
    t.expect_text("interrupted")
    t.expect("relay>")
    t.enter("@spin(60000000i64)")
    t.until(lambda: t.screen().split("\n")[-2:] == ["0", "relay>"], "no result")
    assert "evaluating" not in t.screen().split("@spin(60000000i64)")[1], t.screen()


def test_pictures(open):
    """A terminal that draws gets the pixels, in front of which tmux would stand; others get blocks."""
    line = ":image reshape(arange(0f, 8f, 1f, dtype=\"float32\"), newshape=[2, 4])"
    for name, draws in (("xterm-kitty", True), ("xterm-256color", False)):
        seen = without_tmux(line, TERM=name)
        pieces = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", seen)
        assert bool(pieces) == draws, seen
        assert ("█" in seen.decode()) != draws, seen
        if draws:
            pixels = b"".join(base64.b64decode(data) for _, data in pieces)
            assert pieces[0][0] == b"a=T,f=24,s=32,v=16,q=2,m=0", pieces
            shades = [pixels[3 * (8 * x + 32 * 8 * y)] for y in (0, 1) for x in range(4)]
            assert shades == [round(i * 255 / 7) for i in range(8)], shades


def without_tmux(line, **env):
    """What a REPL writes to a terminal of its own for one line."""
    master, slave = pty.openpty()
    env = {**{k: v for k, v in os.environ.items() if k not in ("TMUX", "TERM_PROGRAM", "NO_COLOR")}, **env}
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen([RELAY], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                   env={**env, "XDG_STATE_HOME": state})
        os.close(slave)
        seen = b""
        for keys in (line + "\r", "\x04", ""):
            quiet = PATIENCE    # until the first byte; then a second says that no more comes
            while select.select([master], [], [], quiet)[0]:
                try:
                    seen += os.read(master, 1 << 16)
                    quiet = 1
                except OSError:     # the other end is gone
                    break
            os.write(master, keys.encode())
        process.wait()
        os.close(master)
    if b"\0" in seen:
        raise Wrong("a NUL is written")
    return seen


# What people work in; tests that say a size have that one.
SIZES = ((80, 24), (200, 60))


def run(test, columns, rows):
    opened = []
    with tempfile.TemporaryDirectory(prefix="relay_terminal_") as state:
        def start(**kw):
            opened.append(Terminal(state, **{"columns": columns, "rows": rows, **kw}))
            if "command" not in kw:
                opened[-1].expect("relay>")
            return opened[-1]
        try:
            test(start)
            return True
        except (Wrong, subprocess.CalledProcessError) as e:
            print("%s at %dx%d: %s" % (test.__name__, columns, rows, e))
            return False
        finally:
            for t in opened:
                t.close()


def main(those):
    if not shutil.which("tmux"):
        print("skipped: tmux is not installed")
        return 77
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    tests = [f for name, f in those.items()
             if name.startswith("test_") and (not names or name in names or name[5:] in names)]
    failed = sum(not run(test, *size) for size in SIZES for test in tests)
    print("%d tests at %d sizes, %d failed" % (len(tests), len(SIZES), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(globals()))
