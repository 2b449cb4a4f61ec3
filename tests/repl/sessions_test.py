"""Sessions made at random: definitions, redefinitions, types that change, cells that break off, commands. Whatever the cells
say, the program must not crash, hang or find a mistake of its own (E0901). The same sessions at each call; with numbers,
`sessions_test.py FIRST COUNT` makes others, which are kept as `session_SEED.txt` when they fail.

Half of each session runs as a script, where a failure leaves what failed behind, the other half cell by cell in a kernel,
where a failing cell leaves nothing.
"""
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernel"))
from client import Kernel  # noqa: E402

relay = os.environ["RELAY"]
TYPES = ["int32", "float32", "Tensor[(2, 3), float32]", "Tensor[(?, 3), float32]", "(int32, float32)", "List[int32]",
         "ref(int32)", "fn (int32) -> int32", "Foo", "Bar[int32]", "Option[Foo]", "_"]
ATOMS = ["1", "2f", "True", "%x", "%y", "%z", "%0", "@f", "@g", "@h", "()", "Nil", "None", "A", "B(1)", "C(2f, %x)",
         'ones(shape=[2, 3], dtype="float32")']
PATTERNS = ["A", "B(%x)", "C(%y, _)", "Cons(%x, %y)", "Nil", "Some(%z)", "(%x, %y)"]
TYPE_DEFINITIONS = ["type Foo { A, B(int32), C(float32, int32) }", "type Foo { A, B(float32) }", "type Foo { A }",
                    "type Foo[a] { A, B(a) }", "type Bar[a] { D(a), E }", "type Bar[a, b] { D(a, b) }",
                    "extern type Foo", 'import "prelude.rly"']
COMMANDS = [":defs", ":why %x", ":explain types", ":undo", ":reset", ":break @f", ":unbreak", ":watch %x", ":watch -",
            ":engine jit", ":engine interp", ":hash @f", ":doc @f", ":summary @f", ":analyze call_graph @g"]
ON_EXPRESSIONS = [":type", ":explain types", ":step steps=20", ":trace lines=20", ":pass FuseOps", ":pass ToANormalForm",
                  ":pass PartialEvaluate", ":analyze check_kind", ":analyze well_formed", ":show lowered", ":show types"]


def name(r):
    return r.choice("xyz")


def expression(r, depth=0):
    def part():
        return expression(r, depth + 1)
    if depth > 3 or r.random() < 0.25:
        return r.choice(ATOMS)
    return r.choice([
        lambda: f"add({part()}, {part()})",
        lambda: f"@{r.choice('fgh')}({', '.join(part() for _ in range(r.randint(0, 2)))})",
        lambda: f"({part()}, {part()})",
        lambda: f"({part()}).{r.randint(0, 2)}",
        lambda: f"if ({part()}) {{ {part()} }} else {{ {part()} }}",
        lambda: f"let %{name(r)} = {part()}; {part()}",
        lambda: f"fn (%{name(r)}: {r.choice(TYPES)}) {{ {part()} }}",
        lambda: f"match ({part()}) {{ {r.choice(PATTERNS)} => {{ {part()} }}, _ => {{ {part()} }} }}",
        lambda: f"ref({part()})",
        lambda: f"ref_read({part()})",
        lambda: f"{r.choice(['Cons', 'Some', 'B', 'nn.relu', 'negative', 'sum'])}({part()})",
    ])()


def definition(r):
    parameters = ", ".join(f"%{v}: {r.choice(TYPES)}" for v in "xy"[:r.randint(0, 2)])
    result = f" -> {r.choice(TYPES)}" if r.random() < 0.6 else ""
    return f"def @{r.choice('fgh')}({parameters}){result} {{ {expression(r)} }}"


def broken(r):
    text = item(r)
    at = r.randint(0, len(text))
    return text[:at] + r.choice(["", ")", "}", ";", "%", '"', "/*"]) + text[at + r.randint(0, 3):]


def item(r):
    return r.choices([
        definition,
        lambda r: f"let %{name(r)} = {expression(r)};",
        lambda r: f"%0 = {expression(r)};",
        lambda r: r.choice(TYPE_DEFINITIONS),
        lambda r: r.choice(COMMANDS),
        lambda r: f"{r.choice(ON_EXPRESSIONS)} {expression(r)}",
        lambda r: f":equal ({expression(r)}, {expression(r)})",
        broken,
        expression,
    ], [30, 18, 3, 10, 7, 12, 1, 5, 10])[0](r)


def script(r):
    text = "\n".join(item(r) for _ in range(15)) + "\n"
    run = subprocess.run([relay], input=text, capture_output=True, text=True, timeout=120)
    said = run.stdout + run.stderr
    good = run.returncode in (0, 1, 2, 3) and "[E0901]" not in said and "runtime error" not in said
    return text, None if good else f"exit {run.returncode}: {said[-400:]}"


def cells(r):
    text = ""
    try:
        with Kernel() as kernel:
            client = kernel.client()
            for _ in range(15):
                code = "\n".join(item(r) for _ in range(r.choice([1, 1, 1, 2, 3])))
                text += code + "\n---\n"
                reply, published = client.execute(code)
                if "[E0901]" in str(reply) + str(published):
                    return text, "a mistake of the program itself"
                if r.random() < 0.3:
                    client.ask("inspect_request", {"code": code, "cursor_pos": r.randint(0, len(code)), "detail_level": 1})
                    client.ask("complete_request", {"code": code, "cursor_pos": r.randint(0, len(code))})
    except Exception as error:  # the client has judged: a crash, a hang, a broken message
        return text, repr(error)[-400:]
    return text, None


first, count = (int(arg) for arg in sys.argv[1:3]) if len(sys.argv) > 2 else (108, 14)
failures = 0
for seed in range(first, first + count):
    r = random.Random(seed)
    for run in (script, cells):
        text, why = run(r)
        if why:
            failures += 1
            print(f"seed {seed}, {run.__name__}: {why}\n{text}")
            if len(sys.argv) > 2:
                with open(f"session_{seed}.txt", "w", encoding="utf-8") as file:
                    file.write(text)
print(f"{count} sessions, {failures} failures")
sys.exit(failures > 0)
