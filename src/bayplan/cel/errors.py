"""What can go wrong with a CEL expression, as exceptions that carry kube-scheduler's texts.

`EvaluationError` is a value of the language: `&&` and `||` absorb it, macros collect it.
`AbortedError` ends the evaluation at once, whatever surrounds it; `CompileError` comes before any.
"""

from __future__ import annotations

from typing import NoReturn


class CelError(Exception):
    """An expression cannot be compiled or evaluated; `str()` is the text to show."""


class CompileError(CelError):
    """The expression is not valid, whatever the device."""


class EvaluationError(CelError):
    """A part of the expression has no value for this device."""


class AbortedError(CelError):
    """The evaluation was ended: over its budget, or where cel-go would panic."""


def no_such_overload() -> NoReturn:
    """Raise the error of an operator or method whose operand has a type it is not defined for."""
    raise EvaluationError("no such overload")
