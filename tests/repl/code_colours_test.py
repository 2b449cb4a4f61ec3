"""What a program becomes has the colours of Relay text: one colour for each kind of token, in loops, LLVM IR and machine code as well;
none where nobody wants any, and the text is the same."""

import os
import re
import subprocess
import unittest

RELAY = os.environ["RELAY"]
PROGRAM = ("def @f(%x: Tensor[(2, 64), float32], %w: Tensor[(32, 64), float32]) "
           "{ nn.relu(nn.dense(%x, %w, units=32)) }\n")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
# What is shown, and in it tokens of kinds that Relay text has: a keyword, a comment, a number, what is computed, a definition.
WORDS = {"text @f": {"keyword": "def", "number": "32", "global": "@f", "operator": "dense"},
         "lowered @f": {"keyword": "for", "number": "32", "comment": "// JIT at level 2", "operator": "max"},
         "llvm @f": {"keyword": "define", "number": "64", "comment": "; JIT at level 2"},
         "asm @f": {"operator": "movq", "comment": "# JIT at level 2", "number": "$0"}}


def shown(what, *args, **environment):
    done = subprocess.run([RELAY, *args], input=f"{PROGRAM}:show {what}\n", capture_output=True, text=True, timeout=120,
                          check=True, env={**os.environ, **environment})
    return done.stdout


class Colours(unittest.TestCase):
    def test_kinds_have_one_colour(self):
        colours = {}
        for what, words in WORDS.items():
            text = shown(what, "--color", "always")
            for kind, word in words.items():
                found = re.search(rf"(\x1b\[[0-9;]*m){re.escape(word)}\x1b", text)
                self.assertTrue(found, f"{what}: {word} has no colour")
                self.assertEqual(colours.setdefault(kind, found[1]), found[1], f"{what}: {word} is no {kind}")
        self.assertEqual(len(set(colours.values())), len(colours), colours)

    def test_the_text_is_the_same(self):
        for what in WORDS:
            self.assertEqual(ESCAPE.sub("", shown(what, "--color", "always")).split("\n", 1)[1:], shown(what).split("\n", 1)[1:])

    def test_nobody_wants_any(self):
        for what in WORDS:
            self.assertNotIn("\x1b", shown(what))
            self.assertNotIn("\x1b", shown(what, "--color", "never"))
            self.assertNotIn("\x1b", shown(what, "--color", "auto", NO_COLOR="1"))


if __name__ == "__main__":
    unittest.main()
