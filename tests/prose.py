"""Checks the first lines of docstrings in src; `make lint` runs it.

A first line is read alone: in a list of modules, in an editor's tooltip. A pronoun there stands for
a noun that the reader does not see. One can be understood, two cost a second look: say the noun.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
MOST = 1
_PRONOUN = re.compile(r"\b(it|its|them|those|they|that|which)\b", re.IGNORECASE)
_CODE = re.compile(r"``[^`]*``|`[^`]*`")


def pronouns(text: str) -> list[str]:
    """The pronouns in the first line of a docstring; names of code do not count."""
    return _PRONOUN.findall(_CODE.sub("", text.partition("\n")[0]))


def complaints(file: Path) -> Iterator[str]:
    """Every first line of ``file`` with more than `MOST` pronouns, with its place."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if len(pronouns(text)) > MOST:
                yield f"{file}:{node.body[0].lineno}: {text.partition(chr(10))[0]}"


if __name__ == "__main__":
    lines = [line for file in sorted(SOURCE.rglob("*.py")) for line in complaints(file)]
    sys.exit("\n".join(lines) or None)
