"""What a scheduler says of a Pod, compared in a cluster that has nodes of others, too.

A test expects what would be said with its own nodes alone. A message agrees with that if nodes of
others, whyever each of them is rejected, are all that is counted beyond it.
"""

import re
from collections import Counter

_NOBODY = "no nodes available to schedule pods"
_SENTENCE = re.compile(r"0/(\d+) nodes are available: ([^.]*)(?:\.|$)")
_COUNTED = re.compile(r"(\d+) (.+)")


def as_if_alone(message: str, expected: str, others: int) -> str:
    """Return ``message`` with the counts of ``expected``, as far as they agree.

    Args:
        message: what was said.
        expected: what is expected where no other nodes are, or a part of that.
        others: the number of other nodes; all of them are rejected.
    """
    if not others:
        return message
    if expected.startswith(_NOBODY) and message.startswith(f"0/{others} nodes are available: "):
        return _NOBODY
    if part := _COUNTED.fullmatch(expected):
        return _with_count(message, int(part[1]), part[2], others)
    sentences = iter(_SENTENCE.finditer(expected))

    def agreed(said: re.Match[str]) -> str:
        meant = next(sentences, None)
        return meant[0] if meant and _agree(said, meant, others) else said[0]

    return _SENTENCE.sub(agreed, message)


def _agree(said: re.Match[str], meant: re.Match[str], others: int) -> bool:
    more, expected = _reasons(said[2]), _reasons(meant[2])
    beyond = sum((more - expected).values())
    counted = any(_COUNTED.fullmatch(reason) for reason in meant[2].split(", "))
    return (
        int(said[1]) == int(meant[1]) + others
        and not expected - more
        and beyond == (others if counted else 0)
    )


def _reasons(text: str) -> Counter[str]:
    """Nodes by the reason that rejects them; a reason for all nodes at once counts as one."""
    reasons: Counter[str] = Counter()
    for reason in text.split(", "):
        counted = _COUNTED.fullmatch(reason)
        reasons[counted[2] if counted else reason] += int(counted[1]) if counted else 1
    return reasons


def _with_count(message: str, count: int, reason: str, others: int) -> str:
    """``message`` with that count before the reason, if other nodes make up the difference."""

    def agreed(said: re.Match[str]) -> str:
        return f"{count} {reason}" if count <= int(said[1]) <= count + others else said[0]

    return re.sub(rf"(\d+) {re.escape(reason)}", agreed, message)
