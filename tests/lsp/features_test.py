"""What an editor asks of `relay lsp`, feature by feature."""
from client import Document, Server

MODULE = """#[version = "0.0.5"]
type Shape { Square(int32), Dot }
// the area, twice
def @twice(%x: Tensor[(2, 3), float32]) {
  %0 = add(%x, %x);
  let %y = nn.relu(%0);
  multiply(%y, %0)
}
def @main(%a: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  let %b = @twice(%a);
  @twice(%b)
}
def @area(%s: Shape) {
  match (%s) {
    Square(%n) => %n * %n,
    Dot => 0
  }
}
"""


def symbols(server):
    d = Document(server, MODULE, "file:///tmp/symbols.rly")
    assert d.diagnostics() == []
    found = d.ask("documentSymbol")
    assert [s["name"] for s in found] == ["Shape", "@twice", "@main", "@area"], found
    assert [s["name"] for s in found[0]["children"]] == ["Square", "Dot"]
    assert found[1]["detail"].startswith("fn (Tensor[(2, 3), float32]) -> Tensor"), found[1]
    assert d.slice(found[1]["selectionRange"]) == "@twice"
    assert d.slice(found[1]["range"]).endswith("multiply(%y, %0)\n}")


def hover(server):
    d = Document(server, MODULE, "file:///tmp/hover.rly")

    def at(*place):
        answer = d.ask("hover", d.place(*place))
        return answer and answer["contents"]["value"]

    assert "%y: Tensor[(2, 3), float32]" in at("%y")
    assert "%0: Tensor[(2, 3), float32]" in at("%0", 1)
    assert "%0: Tensor[(2, 3), float32]" in at("%0", 0)
    assert "@twice: fn (Tensor[(2, 3), float32])" in at("@twice", 1)
    assert "Square: fn (int32) -> Shape" in at("Square", 1)
    assert "type Shape" in at("Shape", 1)
    assert "nn.relu" in at("nn.relu", 0, 4) and "this call" in at("nn.relu")
    assert "%n * %n: int32" in at("*", 0)
    assert at("// the area", 0, 4) is None


def commands(server):
    """A script's commands are known, and what is none is a mistake."""
    d = Document(server, "let %x = 1;\n:schedule %x\n:tpye %x // if\ndef @f(%n: int32) { %n }\n", "file:///tmp/commands.rly")
    found = d.diagnostics()
    assert [(x["code"], d.slice(x["range"])) for x in found] == [("E0405", ":tpye")], found

    def at(*place):
        answer = d.ask("hover", d.place(*place))
        return answer and answer["contents"]["value"]

    assert "split LOOP N  " in at(":schedule", 0, 4)
    assert at("// if", 0, 4) is None
    assert "Defines a function that may call itself" in at("def", 0, 1)


def names(server):
    d = Document(server, MODULE, "file:///tmp/names.rly")

    def binding(*place):
        return [(d.slice(x["range"]), x["range"]["start"]["line"])
                for x in d.ask("definition", d.place(*place))]

    assert binding("%x", 1) == [("%x", 3)]
    assert binding("%0", 2) == [("%0", 4)]
    assert binding("@twice", 2) == [("@twice", 3)]
    assert binding("Square", 1) == [("Square", 1)]
    assert binding("Shape", 1) == [("Shape", 1)]
    assert binding("%n", 2) == [("%n", 14)]
    assert binding("nn.relu") == []
    uses = d.ask("references", d.place("@twice"), context={"includeDeclaration": False})
    assert [u["range"]["start"]["line"] for u in uses] == [9, 10]
    uses = d.ask("references", d.place("%0", 1), context={"includeDeclaration": True})
    assert [u["range"]["start"]["line"] for u in uses] == [4, 5, 6]
    assert len(d.ask("documentHighlight", d.place("%b"))) == 2


def rename(server):
    d = Document(server, MODULE, "file:///tmp/rename.rly")

    def renamed(place, new):
        reply = server.ask_raw("textDocument/rename", {
            "textDocument": {"uri": d.uri}, "position": place, "newName": new})
        if "error" in reply:
            return reply["error"]["message"]
        return d.apply(reply["result"]["changes"][d.uri])

    assert d.slice(d.ask("prepareRename", d.place("%y"))) == "%y"
    assert d.ask("prepareRename", d.place("nn.relu")) is None
    assert renamed(d.place("%y"), "z") == MODULE.replace("%y", "%z")
    assert renamed(d.place("@twice"), "@double") == MODULE.replace("@twice", "@double")
    assert renamed(d.place("Dot", 1), "Point") == MODULE.replace("Dot", "Point")
    assert renamed(d.place("Shape"), "Form") == MODULE.replace("Shape", "Form")
    assert renamed(d.place("%0"), "7") == MODULE.replace("%0", "%7")
    assert renamed(d.place("%y"), "x") == "the text has this name already"
    assert renamed(d.place("%y"), "a b") == "this is no name of that kind"
    assert renamed(d.place("%y"), "7") == "this is no name of that kind"
    assert renamed(d.place("multiply"), "times") == "nothing here can have another name"


def places(server):
    """A name is found wherever it stands: in brackets, at the head of what is longer, alone in a script."""
    for i, text in enumerate((
            "def @f(%x: List[int32]) -> int32 { match (%x) { Cons(%n, _) => %n, Nil => 0 } }",
            "def @f(%x: int32) { (%x) + (%x) }", "def @f(%x: int32) { { %x } }",
            "def @f(%x: (int32, int32)) { (%x).0 + ( /* one */ {%x}).1 }",
            "def @f(%x: fn (int32) -> int32) { (%x)(3) }", "def @f(%x: int32) { let %y = (%x); (((%y))) }",
            "def @f(%x: bool) { if ((%x)) { %x } else {{%x}} }", "def @f(%x: int32) { %x; (%x); %x + 1 }",
            "def @f(%x: (int32, int32)) { %0 = ((%x), 1); (%0).0.0 * 2 + (%0).1 }",
            "let %x = (1, 2);\nlet %y = %x;\nlet %z = (%x);\n%x\n(%x)\n%x.0 + (%x).1\n%0 = %x;\n%1 = (%0);\n(%1)\n",
            "free_var %x: int32;\n(%x)\n")):
        d = Document(server, text, "file:///tmp/places%d.rly" % i)
        assert d.diagnostics() == [], text
        for name, other in (("%x", "%long"), ("%y", "%long"), ("%0", "%7")):
            for nth in range(text.count(name)):
                edits = d.ask("rename", d.place(name, nth, 1), newName=other)["changes"][d.uri]
                assert d.apply(edits) == text.replace(name, other), (text, name, nth)
                assert d.ask("hover", d.place(name, nth))["contents"]["value"].startswith("```relay\n" + name + ":")
    d = Document(server, "def @f(%x: (int32, int32)) { %0 = (%x, 1); %0.1 + 2 }", "file:///tmp/graph.rly")
    assert "%0: ((int32, int32), int32)" in d.ask("hover", d.place("%0"))["contents"]["value"]


def completion(server):
    d = Document(server, MODULE, "file:///tmp/completion.rly")

    def labels(before, put):
        text = d.text
        at = d.text.index(before)
        d.replace(at, at, put)
        items = d.ask("completion", d.position(at + len(put)))["items"]
        d.replace(at, at + len(put), "")
        assert d.text == text
        return {i["label"]: i for i in items}

    found = labels(" multiply(%y", "add(%")
    assert "%x" in found and "%y" in found and "%a" not in found, found.keys()
    assert found["%y"]["detail"] == "Tensor[(2, 3), float32]"
    assert {"@twice", "@main", "@area"} <= set(labels(" @twice(%b)", " @"))
    assert "nn.dense" in labels(" @twice(%b)", " nn.de")
    assert "axis=" in labels(" multiply(%y", "sum(%y, ax")
    assert "Square" in labels(" @twice(%b)", " Squ")
    found = labels(" @twice(%b)", " match (Square(1)) { ")
    assert any(i["detail"] == "all that is missing" for i in found.values()), found
    assert {i for i in found if i.startswith("Square(%")}, found


def hints(server):
    d = Document(server, MODULE, "file:///tmp/hints.rly")
    whole = {"start": d.position(0), "end": d.position(len(d.text))}
    found = d.ask("inlayHint", range=whole)
    texts = [(h["position"]["line"], h["label"]) for h in found]
    assert texts == [
        (3, " -> Tensor[(2, 3), float32]"), (4, ": Tensor[(2, 3), float32]"),
        (5, ": Tensor[(2, 3), float32]"), (9, ": Tensor[(2, 3), float32]"),
        (12, " -> int32"), (14, ": int32")], texts
    # Written where they stand, the types are what the text means.
    written = [{"range": {"start": h["position"], "end": h["position"]}, "newText": h["label"]}
               for h in found if h["position"]["line"] not in (4, 14)]
    again = Document(server, d.apply(written), "file:///tmp/hints2.rly")
    assert again.diagnostics() == []


def tokens(server):
    text = "/* two\nlines */\ndef @f(%x: int32) { add(%x, 1) } // é😀 end\n@f(2)"
    d = Document(server, text, "file:///tmp/tokens.rly")
    legend = server.capabilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    data = d.ask("semanticTokens/full")["data"]
    line = column = 0
    seen = []
    for i in range(0, len(data), 5):
        step, start, length, kind, _ = data[i:i + 5]
        line, column = line + step, start if step else column + start
        range_ = {"start": {"line": line, "character": column},
                  "end": {"line": line, "character": column + length}}
        seen.append((d.slice(range_), legend[kind]))
    assert seen[:4] == [("/* two", "comment"), ("lines */", "comment"), ("def", "keyword"),
                        ("@f", "function")], seen
    assert ("add", "function") in seen and ("int32", "type") in seen
    assert ("// é😀 end", "comment") in seen and seen[-1] == ("2", "number"), seen
    # To the protocol a return ends a line, also where it stands alone.
    d = Document(server, "1\r/* two\rlines */ 2\r\n3\r\r\n", "file:///tmp/returns.rly")
    data = d.ask("semanticTokens/full")["data"]
    steps = [tuple(data[i:i + 3]) for i in range(0, len(data), 5)]
    assert steps == [(0, 0, 1), (1, 0, 6), (1, 0, 8), (0, 9, 1), (1, 0, 1)], steps
    server.tell("textDocument/didChange", {"textDocument": {"uri": d.uri, "version": 2}, "contentChanges": [
        {"range": {"start": {"line": 2, "character": 9}, "end": {"line": 3, "character": 0}}, "text": ""}]})
    data = d.ask("semanticTokens/full")["data"]
    assert [tuple(data[i:i + 3]) for i in range(0, len(data), 5)][-2:] == [(1, 0, 8), (0, 9, 1)], data


def formatting(server):
    text = ("def @f( %x : int32 )->int32{\n\n\n\n      // kept\n%x+ 1   ;  \n}\n"
            ":type   1  +  1\nlet %y=(1 ,2);\n")
    d = Document(server, text, "file:///tmp/formatting.rly")
    laid = d.apply(d.ask("formatting", options={"tabSize": 2, "insertSpaces": True}))
    assert laid == ("def @f(%x : int32) -> int32 {\n\n  // kept\n  %x+ 1;\n}\n"
                    ":type   1  +  1\nlet %y=(1, 2);\n"), laid
    again = Document(server, laid, "file:///tmp/formatting2.rly")
    assert again.ask("formatting", options={}) == []
    zero = Document(server, "// a\0b\nadd( 1,2)", "file:///tmp/formatting4.rly")
    assert zero.ask("formatting", options={})[0]["newText"] == "// a\0b\nadd(1, 2)\n"
    open_comment = Document(server, "add(1, /* 2", "file:///tmp/formatting3.rly")
    assert open_comment.ask("formatting", options={}) == []


def actions(server):
    def fixed(text, word, title=None):
        d = Document(server, text, "file:///tmp/actions%d.rly" % server.number)
        place = d.place(word)
        found = d.ask("codeAction", range={"start": place, "end": place},
                      context={"diagnostics": [], "only": ["quickfix"]})
        for action in found:
            if title is None or action["title"] == title:
                assert action["diagnostics"][0]["source"] == "relay"
                return d.apply(action["edit"]["changes"][d.uri])
        return found

    assert fixed("mutliply(1, 2)", "mutliply") == "multiply(1, 2)"
    assert fixed("def @f(%first: int32) { %frist }", "%frist") == \
        "def @f(%first: int32) { %first }"
    assert fixed("let %value = 1;\nadd(value, 2)", "value, 2") == "let %value = 1;\nadd(%value, 2)"
    assert fixed("(1, 2 3)", "3") == "(1, 2, 3)"
    assert fixed("def @f(%x: int32) { let %y = %x %y }", "%y }") == \
        "def @f(%x: int32) { let %y = %x; %y }"
    assert fixed('#[version = "0.0.5"]\ndef @area() { 1 }\ndef @main() { @aera() }', "@aera") == \
        '#[version = "0.0.5"]\ndef @area() { 1 }\ndef @main() { @area() }'
    assert fixed("def @f(%x: flaot32) { %x }", "flaot32") == "def @f(%x: float32) { %x }"
    assert fixed("def @f(%n: int32) -> int32 { _ }", "_", "Replace `_` by `%n`") == \
        "def @f(%n: int32) -> int32 { %n }"
    shape = "type Shape { Square(int32), Box(int32, int32), Dot }\n"
    assert fixed(shape + "def @f(%s: Shape) { match (%s) { Dot => 0 } }", "match",
                 "Write `Square(%x) => _, Box(%x, %y) => _`") == \
        shape + "def @f(%s: Shape) { match (%s) { Dot => 0, Square(%x) => _, Box(%x, %y) => _ } }"
    assert fixed(shape + "def @f(%s: Shape) {\n  match (%s) {\n    Dot => 0,\n    Square(%x) => %x, // area\n  }\n}", "match",
                 "Write `Box(%y, %z) => _`") == \
        shape + "def @f(%s: Shape) {\n  match (%s) {\n    Dot => 0,\n    Square(%x) => %x,\n    Box(%y, %z) => _, // area\n  }\n}"
    assert fixed("match (Nil) {}", "match", "Write `Cons(%x, %y) => _, Nil => _`") == \
        "match (Nil) {Cons(%x, %y) => _, Nil => _}"
    d = Document(server, MODULE, "file:///tmp/rewrites.rly")
    place = d.place("%y")
    found = d.ask("codeAction", range={"start": place, "end": place}, context={"diagnostics": []})
    titles = [a["title"] for a in found]
    assert "Write its type, `Tensor[(2, 3), float32]`" in titles, titles
    assert "Rewrite in canonical text, without comments" in titles, titles


def lenses(server):
    d = Document(server, MODULE, "file:///tmp/lenses.rly")
    found = [(d.slice(x["range"]), x["command"]["title"]) for x in d.ask("codeLens")]
    assert found == [("@twice", "run"), ("@main", "run"), ("@main", "time"),
                     ("@main", "show optimised"), ("@area", "run")], found


def lens_runs(server):
    import os
    import resource
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a b.rly")
        text = '#[version = "0.0.5"]\ndef @main() { 20 + 22 }\n'
        d = Document(server, text, "file://" + path.replace(" ", "%20"))
        lens = [x["command"] for x in d.ask("codeLens") if x["command"]["title"] == "run"][0]
        asked = {"command": lens["command"], "arguments": lens["arguments"]}
        assert server.ask_raw("workspace/executeCommand", asked)["error"]["message"] == \
            "save the file first: what it holds is what runs"
        with open(path, "w") as file:
            file.write(text)
        # With one descriptor left the file can be read, and nothing can be started.
        pid, usual = server.process.pid, resource.getrlimit(resource.RLIMIT_NOFILE)
        used = [int(fd) for fd in os.listdir("/proc/%d/fd" % pid)]
        most = next(n for n in range(len(used) + 2) if n - sum(fd < n for fd in used) == 1)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, usual[1]))
        assert server.ask_raw("workspace/executeCommand", asked)["error"]["message"] == "the program cannot be started"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        assert server.ask("workspace/executeCommand", asked) == {"status": 0, "output": "42\n"}


def imports(server):
    import os
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "part.rly"), "w") as file:
            file.write('#[version = "0.0.5"]\n/* é */ def @part(%x: int32) -> int32 { %x }\n')
        text = '#[version = "0.0.5"]\nimport "part.rly"\ndef @main() { @part(1) }\n'
        d = Document(server, text, "file://" + os.path.join(folder, "main.rly"))
        assert d.diagnostics() == []
        found = d.ask("definition", d.place("@part"))
        assert len(found) == 1 and found[0]["uri"].endswith("/part.rly"), found
        assert found[0]["range"]["start"] == {"line": 1, "character": 12}, found
        # A part with an error says where that is.
        with open(os.path.join(folder, "part.rly"), "w") as file:
            file.write('#[version = "0.0.5"]\ndef @part(%x: int32) -> int32 { %y }\n')
        server.tell("textDocument/didSave", {"textDocument": {"uri": d.uri}})
        messages = [x["message"] for x in d.diagnostics()]
        assert any("part.rly:2:33: there is no variable `%y` here" in m for m in messages), messages


def scripts(server):
    text = ("let %x = 1;\ndef @f(%n: int32) { %n + %n }\n:type @f(%x)\nlet %s = (1, 2).7;\n@f(%x, 2)\n"
            "let %l = Cons(%x, Nil);\n")
    d = Document(server, text, "file:///tmp/script.rly")
    codes = [x["code"] for x in d.diagnostics()]
    assert codes == ["E0207", "E0204"], codes
    assert [s["name"] for s in d.ask("documentSymbol")] == ["%x", "@f", "%s", "%l"]
    assert "%l: List[int32]" in d.ask("hover", d.place("%l"))["contents"]["value"]
    uses = d.ask("references", d.place("%x"), context={"includeDeclaration": True})
    assert [u["range"]["start"]["line"] for u in uses] == [0, 2, 4, 5], uses
    assert [x["command"]["title"] for x in d.ask("codeLens")] == ["run"]
    d = Document(server, "%0 = 1;\nadd(%0, 2)\n", "file:///tmp/script_graph.rly")
    edits = d.ask("rename", d.place("%0"), newName="%7")["changes"][d.uri]
    assert d.apply(edits) == d.text.replace("%0", "%7")
    reply = server.ask_raw("textDocument/rename", {
        "textDocument": {"uri": d.uri}, "position": d.place("%0"), "newName": "%x"})
    assert reply["error"]["message"] == "this is no name of that kind"
    text = "1 + 2\n:type %_\n%_ + 1f\n(%_, %_1)\n()\n%_4.0\n%_7\nlet %_ = 2f;\n3\n%_ + 1f\n%_9 + 1\n"
    d = Document(server, text, "file:///tmp/script_results.rly")
    found = [(x["code"], x["range"]["start"]["line"]) for x in d.diagnostics()]
    assert found == [("E0203", 2), ("E0110", 6)], found
    assert "%_4: (int32, int32)" in d.ask("hover", d.place("%_4"))["contents"]["value"]


def main():
    server = Server()
    assert server.capabilities["positionEncoding"] == "utf-16"
    for test in (symbols, hover, commands, names, rename, places, completion, hints, tokens, formatting,
                 actions, lenses, lens_runs, imports, scripts):
        test(server)
        print(test.__name__, "ok")
    server.end()


if __name__ == "__main__":
    main()
