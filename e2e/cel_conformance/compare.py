"""Whether two answers agree, and which disagreements are no difference."""

from __future__ import annotations

import re
from enum import Enum

from e2e.cel_conformance.judge import Answer

# What only the type checker of the API server refuses.
_TYPES = re.compile(
    "found no matching overload|expected type '|does not support field selection|"
    "cannot be range of a comprehension|must evaluate to bool|error during formatting|"
    "undefined field '|"
    # Refused by mistake: fields of opaque values, optional elements of unknown type, variables
    # that are types.
    "unexpected failed resolution of|panic: runtime error: index out of range|"
    "reference to undefined type: "
)
_COST = "actual cost limit exceeded"
# cel-go's accounting of costs panics over the error of an operand of some functions of lists.
_PANIC = "internal error: interface conversion"
# Of two errors in a call cel-go shows the second one, if it is this and the types are known.
_HASH = "internal error: runtime error: hash of unhashable type"
# Where the type of a list is open, the type checker settles on the first overload: a list of int.
_SETTLED = re.compile(r"no such overload: (isSorted|sum|min|max)\(list\)")


class Verdict(Enum):
    """How two answers compare."""

    SAME = "same"
    REFUSED = "refused by both"
    ILL_TYPED = "refused by the type checker"
    UNORDERED = "one of several answers that Kubernetes gives"
    TOO_COSTLY = "beyond the cost limit"
    DIFFERENT = "different"


def compare(judge: Answer, ours: Answer) -> Verdict:
    """Compare Kubernetes' answer with bayplan's."""
    if judge.compile_error:
        if _TYPES.search(judge.compile_error):
            return Verdict.ILL_TYPED
        if not ours.compile_error:
            return Verdict.DIFFERENT
        syntax = "Syntax error" in judge.compile_error and "Syntax error" in ours.compile_error
        # We show the first of several mistakes in macros only.
        shown = ours.compile_error.removeprefix("compilation failed: ")
        same = syntax or shown in judge.compile_error
        return Verdict.REFUSED if same else Verdict.DIFFERENT
    if any(_COST in str(result) for result in (*judge.results, *ours.results)):
        return Verdict.TOO_COSTLY
    if ours.compile_error:
        return Verdict.DIFFERENT
    pairs = zip(judge.results, ours.results, strict=True)
    return Verdict.SAME if all(_agree(*pair) for pair in pairs) else Verdict.DIFFERENT


def _agree(judge: bool | str, ours: bool | str) -> bool:
    if judge == ours:
        return True
    text = str(judge)
    if text.startswith(_HASH):
        return isinstance(ours, str)
    return text.startswith(_PANIC) or _SETTLED.fullmatch(text) is not None
