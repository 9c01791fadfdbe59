"""Makes a disagreement small: parts of the expression go, then attributes of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from e2e.cel_conformance import grammar
from e2e.cel_conformance.devices import Json
from e2e.cel_conformance.generate import Expression

_TRIES = 400


def smaller(tree: Expression, fails: Callable[[Expression], bool]) -> Expression:
    """The smallest expression that was found to fail still."""
    tries = _TRIES
    while tries:
        for candidate in _candidates(tree):
            tries -= 1
            if fails(candidate):
                tree = candidate
                break
            if not tries:
                return tree
        else:
            return tree
    return tree


def _candidates(tree: Expression) -> Iterator[Expression]:
    """The expression with one piece replaced by something shorter of the same type."""
    for piece in [tree, *tree.pieces()]:
        for replacement in _replacements(piece):
            if len(str(replacement)) < len(str(piece)):
                yield _replaced(tree, piece, replacement)


def _replacements(piece: Expression) -> Iterator[Expression]:
    yield from (inner for inner in piece.pieces() if inner.type == piece.type)
    yield from (inner for inner in piece.pieces() if inner.type == "a")
    if piece.type in grammar.LITERALS:
        yield Expression(piece.type, [grammar.LITERALS[piece.type][0]])
    if piece.type[0] == "l":
        yield Expression(piece.type, ["[]"])


def _replaced(tree: Expression, old: Expression, new: Expression) -> Expression:
    if tree is old:
        return new
    parts = [
        _replaced(part, old, new) if isinstance(part, Expression) else part for part in tree.parts
    ]
    return Expression(tree.type, parts)


def fewer_attributes(device: Json, fails: Callable[[Json], bool]) -> Json:
    """The device without attributes and capacities that do not matter."""
    for kind in ("attributes", "capacity"):
        for name in list(device[kind]):
            kept = {other: value for other, value in device[kind].items() if other != name}
            candidate = {**device, kind: kept}
            if fails(candidate):
                device = candidate
    return device
