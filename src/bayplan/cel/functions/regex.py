"""Regular expressions: `matches`, `find` and `findAll`, by RE2 like Go's.

The library is imported when the first one is needed.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from bayplan.cel.errors import EvaluationError, no_such_overload
from bayplan.cel.functions.registry import INT, STRING, anything, function, method
from bayplan.cel.golang.quoting import printable
from bayplan.cel.operators import undefined
from bayplan.cel.values import Value

# Go's names of what RE2 calls an error of another name.
_PROBLEMS: Final = {
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern.

    Raises:
        EvaluationError: with Go's text, when it is no regular expression.
    """
    library = import_module("re2")
    options = library.Options()
    options.log_errors = False
    try:
        return library.compile(printable(pattern), options=options)
    except library.error as error:
        raise EvaluationError(_problem(pattern, str(error))) from None


def _problem(pattern: str, error: str) -> str:
    text = error[2:-1] if error.startswith("b'") else error
    problem, _, part = text.partition(": ")
    if problem.startswith(("missing )", "unexpected )")):
        part = pattern
    shown = f": `{part}`" if not problem.startswith("trailing") else ": ``"
    return f"error parsing regexp: {_PROBLEMS.get(problem, problem)}{shown}"


@function("matches", anything, anything)
@method("matches", anything, anything)
def matches(text: Value, pattern: Value) -> bool:
    """Whether the pattern is found in the text."""
    if type(text) is not str:
        raise undefined("matches", text)
    if type(pattern) is not str:
        no_such_overload()
    return compile_pattern(pattern).search(printable(text)) is not None


def _illegal(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as reason:
        raise EvaluationError(f"Illegal regex: {reason}") from None


@method("find", STRING, STRING)
def find(text: str, pattern: str) -> str:
    """The first match; empty if there is none."""
    match = _illegal(pattern).search(printable(text))
    return match[0] if match else ""


@method("findAll", STRING, STRING)
@method("findAll", STRING, STRING, INT)
def find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    """The first `count` matches; all of them for a negative count."""
    return all_matches(_illegal(pattern), text, count)


def all_matches(compiled: Any, text: str, count: int) -> list[str]:
    """The first `count` matches of a compiled pattern; all of them for a negative count."""
    matches: list[str] = []
    end_before = -1
    for match in compiled.finditer(printable(text)):
        if count >= 0 and len(matches) >= count:
            break
        if match.start() == match.end() == end_before:
            continue  # Go takes no empty match right behind another one
        matches.append(match[0])
        end_before = match.end()
    return matches
