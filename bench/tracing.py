"""`python -m bench.tracing`: what traces cost while they are off, with no API server.

    python -m bench.tracing --workload SchedulingBasic --nodes 5000

Traces are told of things that metrics are not: those calls of the instrument, the hooks, are made
whether traces are on or off. One scheduler places Pods in turns, a few at a time: with its code,
and with its code compiled without these calls. The order changes all the time, so other programs on
the machine are in the way of both alike. Figures are CPU time; a ratio is the median over all
turns, with the bounds between which it lies in 19 of 20 such runs. The control compares the code
with itself, compiled once more: as far as that is from 1, the ratio says nothing.

Requests are not part of it: each asks once whether its duration is wanted (`times_calls`).
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, permutations
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Annotated

import typer
from rich.console import Console

from bayplan.config import parse_config
from bayplan.framework.registry import Registry
from bayplan.telemetry.instrument import Instrument
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.tracing import Tracing
from bench.core import WARM_PODS, quiet_collector
from bench.objects import Objects
from bench.recording import CoreWorld
from bench.schedulers import CONFIG
from bench.workloads import load_catalog

HOOKS = frozenset(
    name
    for name, method in vars(Instrument).items()
    if inspect.isfunction(method) and name in vars(Tracing) and name not in vars(Metrics)
)
"""Methods of `Instrument` that only traces need."""
TURN = 5
"""Pods that are placed in one way before they are placed in the other: so few that most turns are
not interrupted by other programs."""
SECONDS = 60.0

console = Console()


class Way(Enum):
    """How Pods are placed: each function has an own code object for each."""

    BARE = "without hooks"
    HOOKED = "with hooks"
    CONTROL = "with hooks, compiled once more"


@dataclass(frozen=True)
class Hooked:
    """A function that calls a hook."""

    function: FunctionType
    codes: dict[Way, CodeType]

    def use(self, way: Way) -> None:
        """Run it that way from its next call on."""
        self.function.__code__ = self.codes[way]


def hooked_functions() -> list[Hooked]:
    """All functions in modules of bayplan that are imported, but those of instruments."""
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.startswith("bayplan.") and not name.startswith("bayplan.telemetry."):
            found += list(_hooked(module))
    return found


def _hooked(module: ModuleType) -> Iterator[Hooked]:
    source = inspect.getsource(module)
    if not any(f".{hook}(" in source for hook in HOOKS):
        return
    calls = _Calls()
    trees = {way: ast.parse(source) for way in Way}
    calls.visit(trees[Way.BARE])
    compiled = {way: compile(tree, str(module.__file__), "exec") for way, tree in trees.items()}
    codes = {way: dict(_codes(code)) for way, code in compiled.items()}
    for name in calls.callers:
        yield Hooked(attrgetter(name)(module), {way: codes[way][name] for way in Way})


class _Calls(ast.NodeTransformer):
    """Removes the calls of hooks.

    Attributes:
        callers: qualified names of the functions that had one.
    """

    def __init__(self) -> None:
        self.callers: list[str] = []
        self._path: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._inside(node)

    def _inside(self, node: ast.ClassDef | ast.FunctionDef) -> ast.AST:
        self._path.append(node.name)
        changed = self.generic_visit(node)
        self._path.pop()
        return changed

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Call(func=ast.Attribute(attr=name)) if name in HOOKS:
                caller = ".".join(self._path)
                if caller not in self.callers:
                    self.callers.append(caller)
                return ast.copy_location(ast.Pass(), node)
        return node


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions of a module by qualified name."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant
            yield from _codes(constant)


def main(
    workload: str = "SchedulingBasic",
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    pods: Annotated[int, typer.Option(min=3 * TURN)] = 90_000,
) -> None:
    """Compare placing Pods with the hooks of traces, which are off, and without the hooks."""
    catalog = load_catalog()
    sized = catalog.select(workload)[0].sized(nodes, pods=pods)
    registry = Registry()
    config = parse_config(CONFIG, registry.known)
    objects = Objects(catalog, sized)
    world = CoreWorld(config, registry, sized, objects)
    functions = hooked_functions()
    costs: dict[Way, list[float]] = {way: [] for way in Way}
    orders = cycle(permutations(Way))
    with quiet_collector(), ExitStack() as stack:
        for each in functions:
            stack.callback(setattr, each.function, "__code__", each.function.__code__)
        world.feed(Objects(catalog, sized.sized(pods=WARM_PODS)).measured(prefix="warm-"))
        world.place(WARM_PODS, SECONDS)
        world.feed(objects.measured())
        for _ in range(pods // (len(Way) * TURN)):
            for way in next(orders):
                for each in functions:
                    each.use(way)
                placing = world.place(TURN, SECONDS)
                assert placing.pods == TURN, f"only {placing.pods} Pods were placed"
                costs[way].append(placing.cpu / TURN * 1e6)
    console.print(f"hooks: {', '.join(sorted(HOOKS))}, in {len(functions)} functions")
    for what, other in (("ratio", Way.BARE), ("control", Way.CONTROL)):
        ratios = sorted(a / b for a, b in zip(costs[Way.HOOKED], costs[other], strict=True))
        low, high = _bounds(ratios)
        console.print(f"{what} {statistics.median(ratios):.4f} ({low:.4f} to {high:.4f})")
    cost = statistics.median(costs[Way.HOOKED])
    console.print(f"{cost:.1f} us a Pod; {len(ratios)} turns; load {os.getloadavg()[0]:.0f}")


def _bounds(ordered: list[float]) -> tuple[float, float]:
    """Between what the median lies with 95 % confidence, whatever the distribution."""
    half = 1.96 * math.sqrt(len(ordered)) / 2
    middle = len(ordered) / 2
    return ordered[max(0, int(middle - half))], ordered[min(len(ordered) - 1, int(middle + half))]


if __name__ == "__main__":
    typer.run(main)
