"""How much one evaluation may do: steps, and characters of a string."""

from __future__ import annotations

from typing import Final

from bayplan.cel.errors import AbortedError

BUDGET: Final = 1_000_000  # steps of one evaluation: what kube-scheduler allows as cost
MAX_LENGTH: Final = 10 * BUDGET  # of a string: cel-go counts a tenth of a step a character


def over_budget() -> AbortedError:
    """The error of an evaluation that takes too many steps."""
    return AbortedError("operation cancelled: actual cost limit exceeded")


def check_length(length: int) -> None:
    """Refuse to make a string of `length` characters that is beyond all budgets.

    Raises:
        AbortedError: it is.
    """
    if length > MAX_LENGTH:
        raise over_budget()
