"""Colours for Relay in what is made of notebooks (nbconvert), and wherever else Pygments is used."""

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

END = r"(?![A-Za-z_0-9./])"


class RelayLexer(RegexLexer):
    name = "Relay"
    aliases = ["relay", "rly"]
    filenames = ["*.rly", "*.relay"]
    mimetypes = ["text/x-relay"]

    tokens = {
        "root": [
            (r"\s+", Text),
            (r"//[^\n]*", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"#\[[^\]]*\]", Comment.Preproc),
            (r"^\s*:[a-z]+", Name.Builtin.Pseudo),
            (r'"[^"]*"?', String),
            (r"%([A-Za-z_][A-Za-z_0-9/]*|[0-9]+)", Name.Variable),
            (r"@[A-Za-z_][A-Za-z_0-9/]*", Name.Function),
            (r"inff(16|32|64)?\b", Number.Float),
            (r"[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?([fi](16|32|64)?)?", Number),
            (words(("fn", "let", "if", "else", "match?", "match", "type", "def", "extern", "import", "ref", "ref_read",
                    "ref_write", "free_var"), suffix=END), Keyword),
            (r"(Tensor|(u?int|b?float)[0-9]+|bool)" + END, Keyword.Type),
            (r"(True|False|None|nullptr|meta(?=\[))" + END, Keyword.Constant),
            (r"[A-Za-z_][A-Za-z_0-9/]*(\.[A-Za-z_][A-Za-z_0-9]*)*", Name),
            (r"->|=>|[-+*/<>=!]=?", Operator),
            (r".", Punctuation),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
    }
