"""The grammars that editors colour by say of each token what the lexer says."""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from client import Document, Server

ROOT = os.environ.get("RELAY_SOURCE", ".")

TEXT = """#[version = "0.0.5"]
// a comment with "quotes" and let
/* one /* inside */ another */
import "prelude.rly"
type Shape[A] { Square(A), Dot }
extern type Thing;
def @area(%s: Shape[Tensor[(2, 3), float32]], %flag: bool) -> Tensor[(2, 3), float32] {
  %0 = match? (%s) { Square(%n) => %n * 2f, Dot => zeros(shape=[2, 3], dtype="float32") };
  let %let_1 = if (%flag) { nn.relu(%0) } else { -%0 + 1.5e-3f64 / nanf - inff32 };
  ref_write(ref(True), False); free_var %x: bfloat16;
  fn (%a: int8) { %a <= 7i64 }
}
"""

# What each scope of the TextMate grammar is by the kinds of the server's legend.
KINDS = {"comment": "comment", "string": "string", "variable": "variable", "entity.name.function": "function",
         "constant.numeric": "number", "keyword.control": "keyword", "constant.language": "keyword",
         "storage.type": "type", "support.function": "function", "entity.name.type": "enumMember"}
TOKENS = {"Comment": "comment", "String": "string", "Name.Variable": "variable", "Name.Function": "function",
          "Number": "number", "Keyword.Type": "type", "Keyword": "keyword", "Name.Class": "enumMember",
          "Name": "function"}

VIM = {"relay_line": "comment", "relay_block": "comment", "relay_string": "string", "relay_variable": "variable",
       "relay_function": "function", "relay_number": "number", "relay_keyword": "keyword",
       "relay_partial": "keyword", "relay_constant": "keyword", "relay_type": "type",
       "relay_constructor": "enumMember"}


def by_server():
    s = Server()
    d = Document(s, TEXT)
    legend = s.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    data = d.ask("semanticTokens/full")["data"]
    line = column = 0
    kinds = [None] * len(TEXT)
    for i in range(0, len(data), 5):
        step, start, length, kind, _ = data[i:i + 5]
        line, column = line + step, start if step else column + start
        at = d.offset({"line": line, "character": column})
        kinds[at:at + length] = [legend[kind]] * length
    s.end()
    return kinds


def by_textmate():
    with open(os.path.join(ROOT, "docs/grammars/relay.tmLanguage.json")) as file:
        grammar = json.load(file)
    rules = [(re.compile(r["match"], re.M), r["name"]) for r in grammar["patterns"] if "match" in r]
    kinds = [None] * len(TEXT)
    at = depth = 0
    while at < len(TEXT):
        if TEXT.startswith("/*", at) or depth and TEXT.startswith("*/", at):
            depth += 1 if TEXT[at] == "/" else -1
            kinds[at:at + 2] = ["comment"] * 2
            at += 2
        elif depth:
            kinds[at] = "comment"
            at += 1
        else:
            for pattern, scope in rules:
                m = pattern.match(TEXT, at)
                if m and m.end() > at:
                    kind = next((KINDS[k] for k in KINDS if scope.startswith(k)), None)
                    kinds[at:m.end()] = [kind] * (m.end() - at)
                    at = m.end()
                    break
            else:
                at += 1
    return kinds


def by_pygments():
    spec = importlib.util.spec_from_file_location(
        "relay_pygments", os.path.join(ROOT, "kernel/assets/relay_pygments.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = [None] * len(TEXT)
    for at, token, text in module.RelayLexer(stripnl=False).get_tokens_unprocessed(TEXT):
        name = str(token)[len("Token."):].replace("Literal.", "")
        kind = next((TOKENS[k] for k in TOKENS if name.startswith(k)), None)
        kinds[at:at + len(text)] = [kind] * len(text)
    return kinds


def by_vim(folder):
    with open(os.path.join(folder, "a.rly"), "w") as file:
        file.write(TEXT)
    script = """set encoding=utf-8
syntax on
edit %s/a.rly
syntax clear
unlet! b:current_syntax
source %s
let out = []
for l in range(1, line('$'))
  let row = []
  for c in range(1, len(getline(l)))
    call add(row, synIDattr(synID(l, c, 1), 'name'))
  endfor
  call add(out, join(row, ','))
endfor
call writefile(out, '%s/out')
qall!
""" % (folder, os.path.abspath(os.path.join(ROOT, "docs/grammars/relay.vim")), folder)
    with open(os.path.join(folder, "script"), "w") as file:
        file.write(script)
    subprocess.run(["vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "-S", os.path.join(folder, "script")],
                   stdin=subprocess.DEVNULL, timeout=60, check=True)
    kinds = []  # no line of the text is empty
    with open(os.path.join(folder, "out")) as file:
        for row in file.read().split("\n")[:-1]:
            kinds += [VIM.get(name) for name in row.split(",")] + [None]
    return kinds


def at_name(at):
    """Whether the word there is a global's name."""
    return re.search(r"@[\w/]*$", TEXT[:at + 1]) is not None


def compare(name, found, wanted):
    # The version is a mark to one and tokens to the other; types are told from constructors by their place.
    start = TEXT.index("\n")
    for at in range(start, len(TEXT)):
        same = found[at] == wanted[at] or {found[at], wanted[at]} == {"type", "enumMember"}
        word = re.match(r"import|[A-Z]\w*", TEXT[at:]) or TEXT[at].isspace()
        if not same and not word and wanted[at] and TEXT[at] not in "[]?":
            if re.search(r"\b(import|Shape|Thing|A)\w*$", TEXT[:at + 1]) or "import".find(TEXT[at]) >= 0 \
                    and "import" in TEXT[max(at - 6, 0):at + 6]:
                continue
            sys.exit("%s: `%s` at %r is %s, not %s"
                     % (name, TEXT[at], TEXT[max(at - 20, 0):at + 20], found[at], wanted[at]))
    print(name, "ok")


def main():
    wanted = by_server()
    compare("textmate", by_textmate(), wanted)
    compare("pygments", by_pygments(), wanted)
    if shutil.which("vim"):
        with tempfile.TemporaryDirectory() as folder:
            # Operators are plain text to Vim.
            compare("vim", by_vim(folder), [
                None if TEXT[at].islower() and k == "function" and not at_name(at) else k
                for at, k in enumerate(wanted)])


if __name__ == "__main__":
    main()
