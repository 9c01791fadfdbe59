"""`python -m bench.tracing`: what traces cost while they are off, and on; with no API server.

    python -m bench.tracing --workload SchedulingBasic --nodes 5000
    python -m bench.tracing --on

Traces are told of things that metrics are not: those calls of the instrument, the hooks, are made
whether traces are on or off. One scheduler places Pods in turns, a few at a time: with its code,
and with its code compiled without these calls. The order changes all the time, so other programs on
the machine are in the way of both alike. Figures are CPU time; a ratio is the median over all
turns, with the bounds between which it lies in 19 of 20 such runs. The control compares the code
with itself, compiled once more: as far as that is from 1, the ratio says nothing.

Requests are not part of it: each asks once whether its duration is wanted (`times_calls`).

With `--on` schedulers of their own place equal Pods in turns: two without traces, the second one as
the control, and one for each of `RATES`, whose spans go to a collector in another process. After
each turn all spans are sent, which counts, and none is dropped. Requests to the API server, which
are spans of their own, are not part of it.
"""

from __future__ import annotations

import ast
import inspect
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, permutations
from multiprocessing.connection import Connection
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Annotated

import typer
from rich.console import Console

from bayplan.app.tracing_config import Traces, TracingConfiguration
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.telemetry.instrument import Instrument, Instruments
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.tracing import Tracing
from bench.core import WARM_PODS, quiet_collector
from bench.objects import Objects
from bench.recording import CoreWorld, Placing
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
TURN_ON = 50
"""The same with traces on: their spans fit the queue of the SDK, which drops what does not."""
SECONDS = 60.0
RATES = (0, 1_000, 1_000_000)
"""Attempts of a million that are traced; with 0 only those whose Pod names a sampled trace."""

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


class Bed:
    """What schedulers place: the Pods of a workload, so many of them."""

    def __init__(self, workload: str, nodes: int, pods: int) -> None:
        self._catalog = load_catalog()
        self._registry = Registry()
        self._config = parse_config(CONFIG, self._registry.known)
        self._workload = self._catalog.select(workload)[0].sized(nodes, pods=pods)

    def scheduler(self, instrument: Instrument) -> CoreWorld:
        """A warm one, with all Pods in its queue."""
        objects = Objects(self._catalog, self._workload)
        world = CoreWorld(self._config, self._registry, self._workload, objects, instrument)
        warm = Objects(self._catalog, self._workload.sized(pods=WARM_PODS))
        world.feed(warm.measured(prefix="warm-"))
        world.place(WARM_PODS, SECONDS)
        world.feed(objects.measured())
        return world


def main(
    workload: str = "SchedulingBasic",
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    pods: Annotated[int, typer.Option(min=3 * TURN_ON)] = 90_000,
    *,
    on: Annotated[
        bool, typer.Option("--on", help="Traces that are on, with a tenth of the Pods.")
    ] = False,
) -> None:
    """Compare placing Pods with traces and without."""
    with quiet_collector():
        if on:
            compare_on(Bed(workload, nodes, pods // 10), pods // 10)
        else:
            compare_off(Bed(workload, nodes, pods), pods)


def compare_off(bed: Bed, pods: int) -> None:
    """The hooks of traces, which are off, and the same code without the hooks."""
    world = bed.scheduler(Metrics())
    functions = hooked_functions()
    costs: dict[Way, list[float]] = {way: [] for way in Way}
    orders = cycle(permutations(Way))
    with ExitStack() as stack:
        for each in functions:
            stack.callback(setattr, each.function, "__code__", each.function.__code__)
        for _ in range(pods // (len(Way) * TURN)):
            for way in next(orders):
                for each in functions:
                    each.use(way)
                placing = world.place(TURN, SECONDS)
                assert placing.pods == TURN, f"only {placing.pods} Pods were placed"
                costs[way].append(placing.cpu / TURN * 1e6)
    console.print(f"hooks: {', '.join(sorted(HOOKS))}, in {len(functions)} functions")
    for what, other in (("ratio", Way.BARE), ("control", Way.CONTROL)):
        console.print(f"{what} {_ratio(costs[Way.HOOKED], costs[other])}")
    _print_cost(costs[Way.HOOKED])


def _ratio(costs: list[float], others: list[float]) -> str:
    """The median over the turns, and its bounds."""
    ratios = sorted(a / b for a, b in zip(costs, others, strict=True))
    low, high = _bounds(ratios)
    return f"{statistics.median(ratios):.4f} ({low:.4f} to {high:.4f})"


def _print_cost(costs: list[float]) -> None:
    cost = statistics.median(costs)
    console.print(f"{cost:.1f} us a Pod; {len(costs)} turns; load {os.getloadavg()[0]:.0f}")


class Traced:
    """A scheduler whose traces go to ``collector``, one attempt of a million times ``rate``."""

    def __init__(self, bed: Bed, collector: str, rate: int) -> None:
        fields = {"endpoint": collector, "samplingRatePerMillion": rate}
        self._traces = Traces(TracingConfiguration.model_validate(fields))
        self._world = bed.scheduler(Instruments(Metrics(), self._traces.instrument))
        self.flush()

    def place(self, pods: int) -> Placing:
        """As `CoreWorld.place`, until all spans are sent; all threads of the process count."""
        began = time.process_time()
        placing = self._world.place(pods, SECONDS)
        self.flush()
        return placing._replace(cpu=time.process_time() - began)

    def flush(self) -> None:
        """Send all spans."""
        provider = self._traces._provider  # noqa: SLF001 - nobody else waits for the spans
        assert provider.force_flush(), "the collector does not answer"

    def close(self) -> None:
        """Send nothing any more."""
        self._traces.close()


def compare_on(bed: Bed, pods: int) -> None:
    """Schedulers with traces and without."""
    with collecting() as (collector, collected), ExitStack() as stack:
        plain = bed.scheduler(Metrics())
        places: dict[int | str, Callable[[int], Placing]] = {
            "off": lambda pods: plain.place(pods, SECONDS)
        }
        control = bed.scheduler(Metrics())
        places["control"] = lambda pods: control.place(pods, SECONDS)
        for rate in RATES:
            traced = stack.enter_context(closing(Traced(bed, collector, rate)))
            places[rate] = traced.place
        costs: dict[int | str, list[float]] = {name: [] for name in places}
        orders = cycle(permutations(places))
        before = collected()
        for _ in range(pods // TURN_ON):
            for name in next(orders):
                placing = places[name](TURN_ON)
                assert placing.pods == TURN_ON, f"only {placing.pods} Pods were placed"
                costs[name].append(placing.cpu / TURN_ON * 1e6)
        spans = collected() - before
    for name in list(places)[1:]:
        console.print(f"{name} {_ratio(costs[name], costs['off'])}")
    console.print(f"{spans} spans of {len(costs['off']) * TURN_ON} Pods with each")
    _print_cost(costs["off"])


@contextmanager
def collecting() -> Iterator[tuple[str, Callable[[], int]]]:
    """An OTLP collector in a process of its own: its endpoint, and how many spans have come."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=_collect, args=(there,), daemon=True)
    process.start()

    def spans() -> int:
        here.send(None)
        return int(here.recv())

    try:
        yield here.recv(), spans
    finally:
        process.terminate()
        process.join()


def _collect(pipe: Connection) -> None:
    import grpc  # type: ignore[import-untyped] # noqa: PLC0415 - where --on is asked for
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )

    spans = 0

    def export(request: ExportTraceServiceRequest, _: object) -> ExportTraceServiceResponse:
        nonlocal spans
        spans += sum(len(s.spans) for r in request.resource_spans for s in r.scope_spans)
        return ExportTraceServiceResponse()

    handler = grpc.unary_unary_rpc_method_handler(
        export, ExportTraceServiceRequest.FromString, ExportTraceServiceResponse.SerializeToString
    )
    server = grpc.server(ThreadPoolExecutor(1))
    service = "opentelemetry.proto.collector.trace.v1.TraceService"
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {"Export": handler})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    pipe.send(f"127.0.0.1:{port}")
    while True:
        pipe.recv()
        pipe.send(spans)


def _bounds(ordered: list[float]) -> tuple[float, float]:
    """Between what the median lies with 95 % confidence, whatever the distribution."""
    half = 1.96 * math.sqrt(len(ordered)) / 2
    middle = len(ordered) / 2
    return ordered[max(0, int(middle - half))], ordered[min(len(ordered) - 1, int(middle + half))]


if __name__ == "__main__":
    typer.run(main)
