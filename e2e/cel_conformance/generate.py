"""Random expressions that are well typed as far as the type checker can see.

Run-time type errors come from values that the checker knows nothing about: attributes, and
anything in `dyn()`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from e2e.cel_conformance import grammar

_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")


@dataclass
class Expression:
    """A piece of source: text and smaller expressions, and the letter of its type."""

    type: str
    parts: list[str | Expression] = field(default_factory=list)

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    def pieces(self) -> Iterator[Expression]:
        """All expressions within this one, larger ones first."""
        for part in self.parts:
            if isinstance(part, Expression):
                yield part
                yield from part.pieces()


class Generator:
    """Makes random expressions."""

    def __init__(self, source: random.Random) -> None:
        """Draw from `source`."""
        self.random = source
        self.variables: list[tuple[str, str]] = []
        self.count = 0  # of variables

    def selector(self) -> Expression:
        """A whole expression."""
        depth = self.random.choice([1, 2, 2, 3, 3, 4, 5])
        kind = "a" if self.random.random() < 0.08 else "b"
        return self.make(kind, depth)

    def make(self, kind: str, depth: int, exact: bool = False) -> Expression:
        """An expression of a type; of exactly that static type, where it matters."""
        if not exact and kind != "a" and self.random.random() < 0.07:
            return self.wild(depth)
        if self.variables and self.random.random() < 0.35:
            names = [name for name, of in self.variables if of == kind]
            if names:
                return Expression(kind, [self.random.choice(names)])
        if depth <= 0:
            return self.leaf(kind)
        return self.fill(kind, self.template(kind), depth, exact)

    def wild(self, depth: int) -> Expression:
        """Something that the checker knows nothing about, often an attribute."""
        if depth <= 0 or self.random.random() < 0.5:
            domain = self.random.choice(grammar.TEXTS["domain"])
            name = self.random.choice(grammar.TEXTS["name"])
            return Expression("a", [f"device.attributes[{domain}].{name}"])
        return self.make("a", depth - 1)

    def leaf(self, kind: str) -> Expression:
        """A literal, or the shortest thing of a type with a parameter."""
        if kind == "a":
            return self.wild(0)
        if kind[0] == "l" and len(kind) > 1:
            return Expression(kind, ["[", self.leaf(kind[1:]), "]"])
        if kind[0] == "m" and len(kind) > 1:
            return Expression(kind, ['{"a": ', self.leaf(kind[1:]), "}"])
        if kind[0] == "o" and len(kind) > 1:
            return Expression(kind, ["optional.of(", self.leaf(kind[1:]), ")"])
        return Expression(kind, [self.random.choice(grammar.LITERALS[kind])])

    def template(self, kind: str) -> str:
        """A production for a type."""
        choices: list[str]
        if kind[0] == "l" and len(kind) > 1:
            choices = grammar.LISTS + 3 * grammar.LISTS_OF.get(kind[1:], [])
        elif kind[0] == "m" and len(kind) > 1:
            choices = grammar.MAPS
        elif kind[0] == "o" and len(kind) > 1:
            choices = grammar.OPTIONALS + (3 * grammar.ANY_OPTIONALS if kind == "oa" else [])
        else:
            choices = grammar.PRODUCTIONS.get(kind, [])
            if kind == "b" and self.random.random() < 0.2:
                choices = grammar.QUANTIFIERS
            if self.random.random() < 0.12 or not choices:
                choices = grammar.GENERIC
        return self.random.choice(choices)

    def fill(self, kind: str, template: str, depth: int, exact: bool) -> Expression:
        """The template with its holes filled; x and z are types that it leaves open."""
        parameter = kind[1:] if kind[0] in "lmo" and len(kind) > 1 else None
        if parameter is None:
            generic = template in grammar.GENERIC
            parameter = kind if generic else self.random.choice(grammar.VALUES)
        other = self.random.choice(grammar.VALUES)
        result = Expression(kind)
        known, position = len(self.variables), 0
        pure = exact or "[{" in template or "{{" in template
        for hole in _HOLE.finditer(template):
            result.parts.append(template[position : hole.start()])
            position = hole.end()
            if hole[0] in ("{{", "}}"):
                result.parts.append(hole[0][0])
            else:
                result.parts.append(self.hole(hole[1], parameter, other, depth - 1, pure))
        result.parts.append(template[position:])
        del self.variables[known:]
        return result

    def hole(
        self, hole: str, parameter: str, other: str, depth: int, exact: bool
    ) -> Expression | str:
        """What goes into a hole."""
        letters, _, use = hole.partition(":")
        if letters == "var":
            self.count += 1
            name = f"v{self.count % 7}" if self.random.random() < 0.9 else "device"
            self.variables.append((name, use.replace("x", parameter).replace("z", other)))
            return name
        if use:
            return self.random.choice(grammar.TEXTS[use])
        if letters.startswith("="):
            letters, exact = letters[1:], True
        if letters == "w":
            letters = self.random.choice([*grammar.VALUES, "lx", "mx", "ox"])
        kind = letters.replace("x", parameter).replace("z", other)
        return self.make(kind, depth, exact and letters in ("x", "ox", "lx", "mx"))


def disturb(tree: Expression, source: random.Random) -> Expression:
    """The expression as it is, or in a few cases with other spaces, or broken."""
    chance = source.random()
    if chance < 0.05:
        parts = str(tree).split(" ")
        spaces = [" ", "\n", "\t", " // a comment\n", "  "]
        text = "".join(part + source.choice(spaces) for part in parts)
        return Expression(tree.type, [text])
    if chance > 0.06:
        return tree
    text = str(tree)
    at = source.randrange(len(text))
    broken = source.choice(["", *"()[]{}.,?:'\"+-!&|=@x0"])
    return Expression(tree.type, [text[:at] + broken + text[at + source.randint(0, 2) :]])
