"""Asks both sides about random selectors and devices, and makes what differs small."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cel_conformance.compare import Verdict, compare
from e2e.cel_conformance.devices import Json, random_device
from e2e.cel_conformance.generate import Expression, Generator, disturb
from e2e.cel_conformance.judge import Answer, Judge, ask_bayplan
from e2e.cel_conformance.shrink import fewer_attributes, smaller

DEVICES = 3
# Go's maps have no order, so a selector that depends on it has several right answers.
ATTEMPTS = 25


@dataclass
class Difference:
    """A selector on which both sides disagree, and the devices that show it."""

    seed: int
    expression: str
    devices: list[Json]
    judge: Answer
    bayplan: Answer

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.expression}"]
        if self.judge.compile_error or self.bayplan.compile_error:
            lines += [f"  kubernetes: {self.judge}", f"  bayplan:    {self.bayplan}"]
            return "\n".join(lines)
        triples = zip(self.devices, self.judge.results, self.bayplan.results, strict=True)
        for device, one, other in triples:
            lines += [f"  device:     {device}", f"  kubernetes: {one}", f"  bayplan:    {other}"]
        return "\n".join(lines)


@dataclass
class Findings:
    """What a run found: how often each verdict fell, and the differences."""

    verdicts: Counter[Verdict] = field(default_factory=Counter)
    matches: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        """Add the findings of another run."""
        self.verdicts += other.verdicts
        self.matches += other.matches
        self.differences += other.differences


def run(program: Path, seeds: Iterable[int]) -> Findings:
    """Judge one selector on a few devices for each seed."""
    findings = Findings()
    with Judge(program) as judge:
        for seed in seeds:
            source = random.Random(seed)
            tree = disturb(Generator(source).selector(), source)
            devices = [random_device(source) for _ in range(DEVICES)]
            verdict, answer = _verdict(judge, str(tree), devices)
            findings.verdicts[verdict] += 1
            for result in answer.results if verdict is Verdict.SAME else ():
                findings.matches["error" if isinstance(result, str) else str(result)] += 1
            if verdict is Verdict.DIFFERENT:
                findings.differences.append(_shrink(judge, seed, tree, devices))
    return findings


def _verdict(judge: Judge, expression: str, devices: list[Json]) -> tuple[Verdict, Answer]:
    ours = ask_bayplan(expression, devices)
    answer = judge.ask(expression, devices)
    verdict = compare(answer, ours)
    if verdict is Verdict.DIFFERENT and not answer.compile_error:
        for _ in range(ATTEMPTS):
            if compare(judge.ask(expression, devices), ours) is Verdict.SAME:
                return Verdict.UNORDERED, answer
    return verdict, answer


def _shrink(judge: Judge, seed: int, tree: Expression, devices: list[Json]) -> Difference:
    def fails(expression: str, some: list[Json]) -> bool:
        return _verdict(judge, expression, some)[0] is Verdict.DIFFERENT

    alone = [[device] for device in devices if fails(str(tree), [device])]
    devices = alone[0] if alone else devices
    tree = smaller(tree, lambda candidate: fails(str(candidate), devices))
    if len(devices) == 1:
        devices = [fewer_attributes(devices[0], lambda device: fails(str(tree), [device]))]
    text = str(tree)
    return Difference(seed, text, devices, judge.ask(text, devices), ask_bayplan(text, devices))
