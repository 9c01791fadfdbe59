"""A syntax tree to code: closures that evaluate each node on a frame.

Types are not checked when compiling (the API server did that when it admitted the selector): what
is refused are unknown names and functions, literals that are no duration, timestamp, regular
expression or format, and conversions of constants that fail.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final, TypeAlias

from bayplan.cel import access, aggregates, calls, comprehensions, syntax
from bayplan.cel.access import Code, Frame, Qualifier
from bayplan.cel.calls import Constant
from bayplan.cel.errors import CelError, CompileError, EvaluationError
from bayplan.cel.functions.registry import FUNCTIONS
from bayplan.cel.lexer import located
from bayplan.cel.library import TYPES
from bayplan.cel.syntax import Node
from bayplan.cel.validation import invalid_literal
from bayplan.cel.values import Optional, TypeValue, Value

DEVICE: Final = "device"
FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})
Scope: TypeAlias = dict[str, Code]


def compile_tree(tree: Node, source: str) -> tuple[Code, int]:
    """Code for `tree`, and the number of slots for variables in the frames of this code.

    Raises:
        CompileError: it refers to something that does not exist, or a constant is not valid.
    """
    compiler = _Compiler(source)
    code = compiler.node(tree, {})
    for problems in (compiler.unknown, compiler.invalid):
        if problems:
            shown = [located(source, *problem) for problem in sorted(problems)]
            raise CompileError("compilation failed: " + "\n".join(shown))
    if compiler.planning:
        raise CompileError(f"program instantiation failed: {compiler.planning[0]}")
    return code, compiler.slots


class _Compiler:
    def __init__(self, source: str) -> None:
        self.source = source
        self.slots = 0
        # Problems by position, in the order in which they hide each other.
        self.unknown: list[tuple[int, str]] = []
        self.invalid: list[tuple[int, str]] = []
        self.planning: list[CelError] = []

    def node(self, node: Node, scope: Scope) -> Code:
        """Code for any node."""
        match node:
            case syntax.Literal():
                return Constant(node.value)
            case syntax.Name():
                return self.name(node, scope)
            case syntax.Select() | syntax.Index() | syntax.Conditional():
                return self.attribute(node, scope)
            case syntax.Call():
                return self.call(node, scope)
            case syntax.Logic():
                terms = tuple(self.node(term, scope) for term in node.terms)
                return calls.logic(node.operator == "||", terms)
            case syntax.ListNode():
                return self.list(node, scope)
            case syntax.MapNode():
                return self.map(node, scope)
            case syntax.BindMacro():
                return self.bind(node, scope)
            case syntax.Quantifier() | syntax.Transform():
                return self.comprehension(node, scope)

    def undeclared(self, position: int, name: str) -> Code:
        message = f"undeclared reference to '{name}' (in container '')"
        self.unknown.append((position, message))
        return Constant(None)

    # -- names and access

    def name(self, node: syntax.Name, scope: Scope) -> Code:
        name = node.name.removeprefix(".")
        if name == node.name and name in scope:
            return scope[name]
        if name == DEVICE:
            return itemgetter(0)
        if name in TYPES:
            return Constant(TypeValue(name))
        return self.undeclared(node.position, node.name)

    def attribute(
        self, node: Node, scope: Scope, tail: tuple[Qualifier, ...] = (), branch: bool = False
    ) -> Code:
        """A chain of selections and indexes, `tail` being its part outside of `node`.

        In a `branch` of a conditional, cel-go leaves the answer of has() as it is: optional, where
        the chain is.
        """
        links: list[syntax.Select | syntax.Index] = []
        while isinstance(node, (syntax.Select, syntax.Index)) and not _type_named(node, scope):
            links.insert(0, node)
            node = node.operand
        if isinstance(node, syntax.Name) and links:
            self.check_field(node, links[0], scope)
        before = len(self.planning)
        qualifiers = (*(self.qualifier(link, scope) for link in links), *tail)
        of_keys, self.planning[before:] = self.planning[before:], []
        if isinstance(node, syntax.Conditional):
            condition = self.node(node.condition, scope)
            then = self.attribute(node.then, scope, qualifiers, branch=True)
            otherwise = self.attribute(node.otherwise, scope, qualifiers, branch=True)
            code = calls.conditional(condition, then, otherwise)
        else:
            named = _type_named(node, scope)
            base = Constant(TypeValue(named)) if named else self.node(node, scope)
            code = access.chain(base, qualifiers) if qualifiers else base
        self.planning += of_keys  # cel-go plans what is selected from first
        tests = bool(qualifiers) and qualifiers[-1].test
        return _tested(code) if tests and not branch else code

    def qualifier(self, link: syntax.Select | syntax.Index, scope: Scope) -> Qualifier:
        if isinstance(link, syntax.Select):
            return Qualifier(Constant(link.field), link.optional, link.test)
        key = self.node(link.index, scope)
        if isinstance(key, Constant):
            try:
                access.check_key(key.value)
            except EvaluationError as reason:
                self.planning.append(reason)
        return Qualifier(key, link.optional)

    def check_field(self, node: syntax.Name, link: Node, scope: Scope) -> None:
        if node.name.removeprefix(".") != DEVICE or node.name in scope:
            return
        if isinstance(link, syntax.Index):
            message = "found no matching overload for '_[_]' applied to '(kubernetes.DRADevice)'"
            self.unknown.append((link.position, message))
        elif isinstance(link, syntax.Select) and link.field not in FIELDS:
            self.unknown.append((link.position, f"undefined field '{link.field}'"))

    # -- calls

    def call(self, node: syntax.Call, scope: Scope) -> Code:
        name, target = node.function.removeprefix("."), node.target
        qualified = _dotted(target).removeprefix(".")
        if qualified and f"{qualified}.{name}" in FUNCTIONS:
            name, target = f"{qualified}.{name}", None
        operands = (*((target,) if target is not None else ()), *node.arguments)
        codes = tuple(self.node(operand, scope) for operand in operands)
        if name in calls.OPERATORS:
            return calls.operator(name, codes)
        if name in ("or", "orValue") and target is not None and len(codes) == 2:
            return calls.optional_or(codes[0], codes[1], unwrap=name == "orValue")
        if name not in FUNCTIONS:
            return self.undeclared(node.position, node.function)
        problem = invalid_literal(name, target, node)
        if problem:
            self.invalid.append(problem)
            return Constant(None)
        try:
            return calls.call(name, target is not None, codes)
        except calls.NoOverloadError as error:
            self.unknown.append((node.position, str(error)))
        except CelError as error:
            self.planning.append(error)
        return Constant(None)

    # -- aggregates

    def list(self, node: syntax.ListNode, scope: Scope) -> Code:
        elements = tuple(self.node(element, scope) for element in node.elements)
        code = aggregates.make_list(elements, node.optional)
        return self.folded(code) if all(isinstance(each, Constant) for each in elements) else code

    def map(self, node: syntax.MapNode, scope: Scope) -> Code:
        entries = tuple(
            (self.node(key, scope), self.node(value, scope)) for key, value in node.entries
        )
        code = aggregates.make_map(entries, node.optional)
        constant = all(isinstance(part, Constant) for entry in entries for part in entry)
        return self.folded(code) if constant else code

    def folded(self, code: Code) -> Code:
        """A constant, unless computing the value fails: then the code fails at each evaluation."""
        try:
            return Constant(code([]))
        except EvaluationError:
            return code
        except CelError as error:
            self.planning.append(error)
            return code

    # -- macros

    def slot(self) -> int:
        self.slots += 1
        return self.slots + 1

    def bind(self, node: syntax.BindMacro, scope: Scope) -> Code:
        value = self.node(node.value, scope)
        slot = self.slot()
        variable = comprehensions.bound_variable(slot, value)
        body = self.node(node.body, {**scope, node.variable: variable})
        return comprehensions.bind(slot, body)

    def comprehension(self, node: syntax.Quantifier | syntax.Transform, scope: Scope) -> Code:
        container = self.node(node.range, scope)
        slots = tuple(self.slot() for _ in node.variables)
        inner = dict(scope)
        inner.update(zip(node.variables, map(itemgetter, slots), strict=True))
        if isinstance(node, syntax.Transform):
            condition = self.node(node.condition, inner) if node.condition else None
            result = self.node(node.result, inner)
            return comprehensions.transform(node.kind, container, slots, condition, result)
        predicate = self.node(node.predicate, inner)
        if node.kind == "one":
            return comprehensions.exists_one(container, slots, predicate)
        return comprehensions.quantifier(node.kind, container, slots, predicate)


def _tested(code: Code) -> Code:
    def run(frame: Frame) -> Value:
        value = code(frame)
        return value.present if isinstance(value, Optional) else value

    return run


def _dotted(node: Node | None) -> str:
    """The dotted name that `node` spells, else ""."""
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Select) and not node.optional and not node.test:
        prefix = _dotted(node.operand)
        return f"{prefix}.{node.field}" if prefix else ""
    return ""


def _type_named(node: Node, scope: Scope) -> str:
    """The type that a dotted name such as `google.protobuf.Duration` stands for, else ""."""
    if not isinstance(node, syntax.Select):
        return ""
    name = _dotted(node)
    if name.partition(".")[0] in scope:
        return ""
    name = name.removeprefix(".")
    return name if name in TYPES else ""
