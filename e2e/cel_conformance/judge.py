"""The judge as a child process, and the same question to bayplan."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bayplan.cel import CelError, CompileError, Program
from e2e.cel_conformance.devices import Json, to_device


@dataclass(frozen=True)
class Answer:
    """What becomes of an expression: a compile error, or a match or error for each device."""

    compile_error: str = ""
    results: tuple[bool | str, ...] = ()


class JudgeError(Exception):
    """The judge died."""


class Judge:
    """`celjudge`: a line of question in, a line of answer out. Use it in a with statement."""

    def __init__(self, program: Path) -> None:
        """Start it."""
        self._child = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child.stdin:
            self._child.stdin.close()
        self._child.wait(10)

    def ask(self, expression: str, devices: list[Json]) -> Answer:
        """Kubernetes' answer.

        Raises:
            JudgeError: there is none.
        """
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        question = {"expression": expression, "devices": devices}
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise JudgeError(f"the judge died on {expression!r}")
        answer = json.loads(line)
        results = (each.get("error") or each["match"] for each in answer.get("results") or [])
        return Answer(answer.get("compileError", ""), tuple(results))


def ask_bayplan(expression: str, devices: list[Json]) -> Answer:
    """Bayplan's answer."""
    try:
        program = Program(expression)
    except CompileError as error:
        return Answer(str(error))
    return Answer(results=tuple(_evaluate(program, device) for device in devices))


def _evaluate(program: Program, device: Json) -> bool | str:
    try:
        return program.evaluate(to_device(device))
    except CelError as error:
        return str(error)
