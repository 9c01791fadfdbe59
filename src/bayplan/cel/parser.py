"""Tokens to a syntax tree: a Pratt parser for the whole grammar of CEL.

Like cel-go it refuses expressions that nest deeper than 250 levels. That also bounds the depth of
the recursion of everything that walks the tree or evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar
from typing import Literal as OneOf

from bayplan.cel import literals, syntax
from bayplan.cel.errors import CompileError
from bayplan.cel.lexer import Token, fail, tokens
from bayplan.cel.macros import MacroError, expand
from bayplan.cel.syntax import Node
from bayplan.cel.values import Value

T = TypeVar("T")

MAX_DEPTH: Final = 250
MAX_LENGTH: Final = 100_000
_BINARY: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/", "%"), 5),
}
_RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_LITERALS: Final[dict[str, Callable[[str], Value]]] = {
    "int": literals.int_literal,
    "uint": literals.uint_literal,
    "double": literals.double_literal,
    "string": literals.string_literal,
    "bytes": lambda text: literals.bytes_literal(text[1:]),
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}


def parse(source: str) -> Node:
    """The syntax tree of `source`.

    Raises:
        CompileError: it is no CEL expression.
    """
    if len(source) > MAX_LENGTH:
        raise CompileError(
            "compilation failed: ERROR: <input>:-1:0: expression code point size exceeds limit: "
            f"size: {len(source)}, limit {MAX_LENGTH}"
        )
    parser = _Parser(source)
    tree = parser.expression()
    parser.expect("end")
    return tree


def too_deep() -> CompileError:
    """The error of an expression that nests too deeply."""
    return CompileError(
        f"compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: {MAX_DEPTH}"
    )


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = tokens(source)
        self.position = 0
        self.depth = 0

    # -- tokens

    @property
    def current(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.current
        self.position += 1
        return token

    def accept(self, kind: str) -> Token | None:
        return self.advance() if self.current.kind == kind else None

    def expect(self, kind: str) -> Token:
        if self.current.kind != kind:
            self.unexpected()
        return self.advance()

    def unexpected(self) -> NoReturn:
        token = self.current
        self.fail(token.position, f"Syntax error: mismatched input '{token.text}'")

    def fail(self, position: int, message: str) -> NoReturn:
        fail(self.source, position, message)

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep()

    # -- expressions; the recursion is kept flat, as Python bounds its depth

    def expression(self, weakest: int = 0) -> Node:
        """An expression of operators that bind at least as strongly as `weakest`.

        All are left associative, but the conditional operator, the weakest of them.
        """
        depth = self.depth
        if weakest == 0:
            self.enter()
        left = self.operand()
        while (strength := _BINARY.get(self.current.kind, 0)) > 0 and strength >= weakest:
            operator = self.advance()
            right = self.expression(strength + 1)
            left = self.combine(operator, left, right)
        if weakest == 0 and (question := self.accept("?")):
            then = self.expression(1)
            self.expect(":")
            left = syntax.Conditional(left, then, self.expression(), question.position)
        self.depth = depth
        return left

    def combine(self, operator: Token, left: Node, right: Node) -> Node:
        if operator.kind in ("&&", "||"):
            same = isinstance(left, syntax.Logic) and left.operator == operator.kind
            terms = left.terms if same and isinstance(left, syntax.Logic) else (left,)
            kind: OneOf["&&", "||"] = "&&" if operator.kind == "&&" else "||"
            return syntax.Logic(kind, (*terms, right), operator.position)
        self.enter()
        name = "@in" if operator.kind == "in" else f"_{operator.kind}_"
        return syntax.Call(name, None, (left, right), operator.position)

    def operand(self) -> Node:
        """`!` or `-`, repeated any number of times, before a primary with selections and calls."""
        depth, sign, count = self.depth, self.current, 0
        if sign.kind in ("!", "-"):
            while self.current.kind == sign.kind and not self.at_negative_number():
                self.advance()
                count += 1
        tree = self.primary()
        while self.current.kind in (".", "["):
            self.enter()
            operator = self.advance()
            optional = self.accept("?") is not None
            if operator.kind == "[":
                index = self.expression()
                self.expect("]")
                tree = syntax.Index(tree, index, operator.position, optional)
            else:
                tree = self.selection(tree, operator, optional)
        self.depth = depth
        return syntax.Call(f"{sign.kind}_", None, (tree,), sign.position) if count % 2 else tree

    def at_negative_number(self) -> bool:
        following = self.tokens[self.position + 1]
        return self.current.kind == "-" and following.kind in ("int", "double")

    def selection(self, operand: Node, operator: Token, optional: bool) -> Node:
        quoted = self.accept("quoted")
        field = quoted.text[1:-1] if quoted else self.expect("name").text
        if self.current.kind == "(" and not optional and not quoted:
            return self.call(field, operand)
        return syntax.Select(operand, field, operator.position, optional)

    def call(self, function: str, target: Node | None) -> Node:
        position = self.expect("(").position
        arguments: list[Node] = []
        while self.current.kind != ")" or arguments:
            arguments.append(self.expression())
            if not self.accept(","):
                break
        self.expect(")")
        try:
            return expand(syntax.Call(function, target, tuple(arguments), position))
        except MacroError as error:
            self.fail(error.position, str(error))

    def primary(self) -> Node:
        token = self.current
        if token.kind == "-" and self.at_negative_number():
            self.advance()
            return self.literal(token)
        if token.kind in _LITERALS:
            return self.literal(None)
        if token.kind in (".", "name"):
            return self.name()
        if token.kind not in ("(", "[", "{"):
            self.unexpected()
        self.advance()
        if token.kind == "(":
            tree = self.expression()
            self.expect(")")
            return tree
        if token.kind == "[":
            return syntax.ListNode(*self.items("]", self.expression), token.position)
        return syntax.MapNode(*self.items("}", self.entry), token.position)

    def literal(self, sign: Token | None) -> Node:
        token = self.advance()
        position = sign.position if sign else token.position
        try:
            value = _LITERALS[token.kind](f"-{token.text}" if sign else token.text)
        except ValueError as error:
            self.fail(position, str(error))
        return syntax.Literal(value, position)

    def name(self) -> Node:
        """An identifier or a call; messages are the only other thing that starts with a name."""
        dot = "." if self.accept(".") else ""
        token = self.expect("name")
        if self.at_message():
            self.fail(token.position, "Syntax error: messages cannot be made in selectors")
        if token.text in _RESERVED:
            self.fail(token.position, f"reserved identifier: {token.text}")
        if self.current.kind == "(":
            return self.call(dot + token.text, None)
        return syntax.Name(dot + token.text, token.position)

    def at_message(self) -> bool:
        at = self.position
        while self.tokens[at].kind == "." and self.tokens[at + 1].kind == "name":
            at += 2
        return self.tokens[at].kind == "{"

    def items(self, end: str, item: Callable[[], T]) -> tuple[tuple[T, ...], frozenset[int]]:
        """The items of a list or map up to `end`, and the indexes of those with a `?`."""
        items: list[T] = []
        optional = set()
        while self.current.kind not in (end, ","):
            if self.accept("?"):
                optional.add(len(items))
            items.append(item())
            if not self.accept(","):
                break
        if not items:
            self.accept(",")
        self.expect(end)
        return tuple(items), frozenset(optional)

    def entry(self) -> tuple[Node, Node]:
        key = self.expression()
        self.expect(":")
        return key, self.expression()
