"""Whatever arrives, the server answers in order or says what is wrong, and ends only when it is told to."""
import json
import random

from client import Document, Server


def envelopes():
    """Messages that are none."""
    s = Server(initialize=False)
    early = s.ask_raw("textDocument/hover", {})
    assert early["error"]["code"] == -32002, early
    s.ask("initialize", {"capabilities": None})
    assert s.ask_raw("initialize", {})["error"]["code"] == -32600
    for bad in (b"Content-Length: 5\r\n\r\n{oops", b"Content-Length: 2\r\n\r\n{]",
                b"Content-Length: 0\r\n\r\n", b"content-length: 4\n\n[[[[",
                b"Content-Length: nonsense\r\n\r\n", b"Nothing: at all\r\n\r\n",
                b"Content-Length: 99999999999999999999\r\n\r\n"[:0] + b"Content-Length: 3\r\n\r\n\xff\xfe\xfd",
                b"Content-Length: 8\r\n\r\n\"\\u0000\""):
        s.raw(bad)
        reply = s.receive()
        assert reply["error"]["code"] == -32700 and reply["id"] is None, (bad, reply)
    deep = b"[" * 100000
    s.raw(b"Content-Length: %d\r\n\r\n" % len(deep) + deep)
    assert s.receive()["error"]["code"] == -32700
    s.raw(b"Content-Length: 2\r\n\r\n[]")
    assert s.receive()["error"]["code"] == -32600
    s.send({"id": 7, "result": None})
    for method, params in (("no/method", {}), ("$/unknown", {"id": {}}), ("", [])):
        assert s.ask_raw(method, params)["error"]["code"] == -32601
    s.tell("no/notification", {})
    s.tell("$/cancelRequest", {"id": 99})
    # A message in pieces is one message, and no space need stand before its length.
    text = json.dumps({"jsonrpc": "2.0", "id": "é", "method": "textDocument/hover",
                       "params": {}}).encode()
    for piece in (b"Content-Le", b"ngth:%d\r" % len(text), b"\n\r", b"\n", text[:9], text[9:]):
        s.raw(piece)
    assert s.receive() == {"jsonrpc": "2.0", "id": "é", "result": None}
    s.end()


def parameters():
    """Every method with parameters of every kind."""
    s = Server()
    Document(s, "def @f(%x: int32) { %x }", "file:///tmp/p.rly")
    methods = ["hover", "completion", "definition", "references", "documentHighlight",
               "documentSymbol", "semanticTokens/full", "semanticTokens/range", "inlayHint",
               "formatting", "prepareRename", "rename", "codeAction", "codeLens", "diagnostic"]
    odd = [None, 1, -1, 2 ** 62, 2 ** 63, -10 ** 30, 1.5, "", "x", [], {}, [[]], {"line": -5, "character": -5},
           {"line": 2 ** 40, "character": 2 ** 40}, {"line": "a", "character": []}]
    for method in methods:
        for value in odd:
            for params in (value, {"textDocument": value}, {
                    "textDocument": {"uri": "file:///tmp/p.rly"}, "position": value,
                    "range": {"start": value, "end": value}, "newName": value, "context": value}):
                reply = s.ask_raw("textDocument/" + method, params)
                assert ("result" in reply) != ("error" in reply) and isinstance(reply["id"], int), reply
    for value in odd:
        for method in ("didOpen", "didChange", "didClose", "didSave"):
            s.tell("textDocument/" + method, value)
            s.tell("textDocument/" + method, {
                "textDocument": {"uri": "file:///tmp/p.rly", "version": value, "text": value},
                "contentChanges": [{"range": value, "text": value}, {"text": value}, value]})
        s.ask_raw("workspace/executeCommand", value)
        s.ask_raw("workspace/executeCommand", {"command": "relay.run", "arguments": value})
        s.ask_raw("workspace/executeCommand", {"command": "relay.run", "arguments": ["file:///etc", ""]})
    s.end()


def texts():
    """Texts of any kind, with every question at every place."""
    s = Server()
    samples = ["", "\n\n", "@", "%", ":", ":type", ":type 1 +", "def", "def @f(", "def @f(%x: int32) {",
               "/* /*", '"', "#[", '#[version = "0.0.5"]', '#[version = "9"]\ndef @f() { 1 }',
               '#[version = "0.0.5"]\nimport "nothing.rly"\n', '{"nodes": []}', "let %x = ",
               "type T { A(T", "match (1) { ", "é😀\u0300 %é", "\ufeffdef @f() { 1 }", "1\r\n2\r\n%",
               "if (True) { let %a = 1; add(%a, ", "%0 = 1; %1 = (%0, %0); %1.", "fn (%x) { %x }.",
               "((((((((((" * 50, "-" * 300 + "1", "let %x = 1;" * 200, "[" * 500]
    for i, text in enumerate(samples):
        d = Document(s, text, "file:///tmp/t%d.rly" % i)
        d.diagnostics()
        for at in sorted({0, 1, len(text) // 2, max(len(text) - 1, 0), len(text)}):
            place = d.position(min(at, len(text)))
            for method in ("hover", "completion", "definition", "prepareRename"):
                d.ask(method, place)
        whole = {"start": d.position(0), "end": d.position(len(text))}
        for method in ("documentSymbol", "semanticTokens/full", "codeLens"):
            d.ask(method)
        d.ask("inlayHint", range=whole)
        d.ask("codeAction", range=whole, context={})
        d.ask("formatting", options={})
        s.tell("textDocument/didClose", {"textDocument": {"uri": d.uri}})
    s.end()


def edits():
    """Random changes: what the server has is what the editor has."""
    rng = random.Random(7)
    pieces = ["def @f(%x: int32) { %x }\n", "let %a = 1;\n", "é", "😀", "\n", "\r\n", "(", "}", "%a",
              "add(%a, 2)", "/*", "*/", '"', "#[", " "]
    for encoding in (None, ["utf-8", "utf-16"]):
        s = Server(encodings=encoding)
        d = Document(s, "let %x = 1;\n😀é\n", "file:///tmp/e.rly")
        if encoding:
            assert s.capabilities["positionEncoding"] == "utf-8"
            d.position = lambda offset: {
                "line": d.text[:offset].count("\n"),
                "character": len(d.text[d.text.rfind("\n", 0, offset) + 1:offset].encode())}
        for step in range(400):
            # An editor changes whole lines' ends only: `\r\n` is one.
            places = [i for i in range(len(d.text) + 1)
                      if not (i and d.text[i - 1] == "\r" and d.text[i:i + 1] == "\n")]
            a, b = sorted(rng.choice(places) for _ in "ab")
            b = min(b, max(p for p in places if p <= a + rng.randrange(12)))
            if d.text[:a].endswith("\r") or d.text[b:b + 1] == "\n" and d.text[max(a - 1, 0)] == "\r":
                continue
            d.replace(a, b, rng.choice(pieces))
            if len(d.text) > 600:
                d.replace(0, 300 + (d.text[299] == "\r"), "")
            if step % 10 == 0:
                place = d.position(rng.choice([p for p in places if p <= len(d.text)]))
                d.ask("hover", place)
                d.ask("completion", place)
        # The formatted text is made of the server's own: with a text known to both, it tells.
        d.replace(len(d.text), len(d.text), "")
        d.ask("documentSymbol")
        edits_ = d.ask("formatting", options={})
        if edits_:
            assert edits_[0]["range"]["end"]["line"] == d.text.count("\n")
        s.end()


def odd_text():
    """What JSON can say and no file holds is a part of the text, and what stands behind it keeps its place."""
    for encodings in (None, ["utf-8"]):
        for odd, wide in (("\0", 1), ("\ud83d", 3), ("\ude00", 3), ("\ud83d\ud83d", 6), ("\\ud83d\0é😀", 14)):
            s = Server(encodings=encodings)
            d = Document(s, "// one\ndef @f(%x: int32) { (%x) }\n", "file:///tmp/odd.rly")
            units = wide if encodings else len(odd.encode("utf-16-le", "surrogatepass")) // 2
            d.replace(3, 6, odd)
            assert d.diagnostics() == [], ascii(odd)
            d.text = "// " + "x" * units + d.text[d.text.index("\n"):]
            d.replace(3 + units, 3 + units, "\ndef @g() { @f(1) } // ")
            d.text = "// \ndef @g() { @f(1) } // \n" + d.text[d.text.rindex("def @f"):]
            assert d.diagnostics() == [], ascii(odd)
            uses = d.ask("references", d.place("@f"), context={"includeDeclaration": True})
            assert [u["range"]["start"]["line"] for u in uses] == [1, 2], (ascii(odd), uses)
            assert d.ask("formatting", options={}) == []
            s.end()
    s = Server()
    d = Document(s, "def @f(%x: int32) { %x }\n// one\0two\ndef   @g() { 1 }\n", "file:///tmp/odd.rly")
    d.diagnostics()
    assert d.ask("formatting", options={})[0]["newText"] == d.text.replace("   ", " ")
    d = Document(s, "def   @f(%x: int32) { %x } // \ud83d\n", "file:///tmp/half.rly")
    d.diagnostics()
    assert d.ask("formatting", options={})[0]["newText"] == "def @f(%x: int32) { %x } // \ufffd\n"
    reply = s.ask_raw("textDocument/rename", {
        "textDocument": {"uri": d.uri}, "position": d.place("%x"), "newName": "y\0z"})
    assert reply["error"]["message"] == "this is no name of that kind", reply
    s.end()


def lost_changes():
    """Nothing is said of a text that a change was lost of, until it comes as a whole."""
    text = "def   @f(%x: int32) { %x }\n%y\n"
    start = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}

    def change(d, changes, method="textDocument/didChange"):
        d.version += 1
        return {"method": method, "params": {
            "textDocument": {"uri": d.uri, "version": d.version}, "contentChanges": changes}}

    for number, wrong in enumerate((
            None, [{"range": start}], [{"range": start, "text": 7}], 7, [7],
            [{"range": dict(start, start={"line": 1, "character": 1}), "text": ""}])):
        s = Server()
        d = Document(s, text, "file:///tmp/lost.rly")
        assert len(d.diagnostics()) == 1
        assert len(d.ask("formatting", options={})) == 1
        if number:
            s.send(change(d, wrong))
        else:
            bad = json.dumps(change(d, [{"range": start, "text": "?"}])).encode().replace(b"?", b"\xff")
            s.raw(b"Content-Length: %d\r\n\r\n" % len(bad) + bad)
            assert "open the file again" in s.note("window/showMessage")["message"]
            d.version -= 1
        assert d.diagnostics() == [], wrong
        s.send(change(d, [{"range": start, "text": "\n"}]))
        assert d.ask("formatting", options={}) == [] and d.ask("documentSymbol") == []
        assert d.ask("hover", d.place("%x")) is None
        s.send(change(d, [{"text": text}, {"range": start, "text": "\n"}]))
        assert len(d.diagnostics()) == 1
        assert d.ask("documentSymbol")[0]["range"]["start"]["line"] == 1
        # What cannot be read and is no change leaves the text as it is.
        s.raw(b"Content-Length: 5\r\n\r\n{oops")
        assert s.receive()["error"]["code"] == -32700
        assert len(d.ask("formatting", options={})) == 1
        s.end()


def main():
    for test in (envelopes, parameters, texts, edits, odd_text, lost_changes):
        test()
        print(test.__name__, "ok")


if __name__ == "__main__":
    main()
