"""Colours for Relay in what is made of notebooks (nbconvert), and wherever else Pygments is used.

Made from the token table of relay."""

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text


class RelayLexer(RegexLexer):
    name = "Relay"
    aliases = ["relay", "rly"]
    filenames = ["*.rly", "*.relay"]
    mimetypes = ["text/x-relay"]

    tokens = {
        "root": [
            (r"/\*", Comment.Multiline, "comment"),
            (r"//.*", Comment.Single),
            (r"#\[[^\]]*\]?", Comment.Preproc),
            (r"^\s*:[a-z]+", Name.Builtin.Pseudo),
            (r'"(?:[^"\\\n]|\\.)*"?', String),
            (r"%(?:[A-Za-z_][A-Za-z_0-9/]*|[0-9]+)", Name.Variable),
            (r"@[A-Za-z_][A-Za-z_0-9/]*", Name.Function),
            (r"(?:(?:inf|nan)f(?:16|32|64)?(?![A-Za-z_0-9/])|[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?(?:[fi](?:16|32|64)?)?)", Number),
            (r"match\?", Keyword),
            (r"(?:def|else|extern|fn|free_var|if|let|match|ref|ref_read|ref_write|type|import)(?![A-Za-z_0-9./])", Keyword),
            (r"(?:False|True)(?![A-Za-z_0-9./])", Keyword.Constant),
            (r"(?:Tensor|bool|int8|int16|int32|int64|uint8|uint16|uint32|uint64|float16|float32|float64|bfloat16)(?![A-Za-z_0-9./])", Keyword.Type),
            (r"[A-Z][A-Za-z_0-9/]*", Name.Class),
            (r"[A-Za-z_][A-Za-z_0-9/]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*", Name),
            (r"(?:->|=>|<=|>=|==|!=|=|<|>|\+|-|\*|/|!)", Operator),
            (r"\s+", Text),
            (r".", Punctuation),
        ],
        "comment": [
            (r"[^*/]+", Comment.Multiline),
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[*/]", Comment.Multiline),
        ],
    }
