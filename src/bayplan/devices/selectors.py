"""Selectors: which devices of the table a class or request accepts, as one code a row.

An expression is evaluated once per distinct combination of the values that it looks at, not per
device, and the answers are spread by code. There are three answers: no, yes, and an error. Errors
are lazy, as in kube-scheduler: one counts only when the search looks at the device, so it must stay
in the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayplan.cache.node_table.column import CodeArray
from bayplan.cel import CelError, CompileError, Path, Program
from bayplan.devices.content import Content, Projection
from bayplan.devices.table import DeviceTable

NO, YES = 0, 1
"""Codes of a mask; -1 and below are errors: ``faults[-1 - code]``."""


@dataclass(frozen=True, slots=True)
class SelectorExpression:
    """One expression and where it stands.

    Attributes:
        owner: ``class NAME``; empty for the claim, whose name is not part of a shape.
        index: its position in the owner's list.
        expression: the CEL expression.
    """

    owner: str
    index: int
    expression: str


@dataclass(frozen=True, slots=True)
class SelectorFault:
    """An error of one selector.

    Attributes:
        compiling: whether the expression is at fault, rather than the device.
    """

    selector: SelectorExpression
    text: str
    compiling: bool = False

    def describe(self, claim: str, device: str) -> str:
        """The error in kube-scheduler's words."""
        where = f"{self.selector.owner or f'claim {claim}'}: selector #{self.selector.index}"
        if self.compiling:
            return f"{where}: CEL compile error: {self.text}"
        return f"{where} on device {device}: CEL runtime error: {self.text}"


class _Answers:
    """What one expression says, by the values of what it looks at."""

    def __init__(self, expression: str) -> None:
        self.fault = ""
        self._by_values: dict[Projection, bool | str] = {}
        self._program: Program | None = None
        self._paths: tuple[Path, ...] | None = None
        try:
            self._program = Program(expression)
        except CompileError as error:
            self.fault = str(error)
            return
        if self._program.paths is not None:
            self._paths = tuple(self._program.paths)

    def of(self, content: Content) -> bool | str:
        """The answer for a content; a text is an error."""
        assert self._program is not None
        if content.error is not None:
            return content.error
        if self._paths is None:
            return _evaluate(self._program, content)
        values = content.project(self._paths)
        answer = self._by_values.get(values)
        if answer is None:
            answer = self._by_values[values] = _evaluate(self._program, content)
        return answer


def _evaluate(program: Program, content: Content) -> bool | str:
    try:
        return program.evaluate(content.device)
    except CelError as error:
        return str(error)


class Mask:
    """The joint answer of several selectors: the first that is no or an error decides."""

    def __init__(
        self, selectors: Sequence[SelectorExpression], answers: Sequence[_Answers]
    ) -> None:
        self.faults: list[SelectorFault] = []
        self._selectors = tuple(zip(selectors, answers, strict=True))
        self._by_content: CodeArray = np.zeros(0, np.int32)

    def codes(self, table: DeviceTable, rows: CodeArray) -> CodeArray:
        """`NO`, `YES` or an error's code for each of ``rows``."""
        if not self._selectors:
            return np.full(len(rows), YES, np.int32)
        contents, judged = table.content.values, len(self._by_content)
        if judged < len(contents):
            more = np.array([self._judge(content) for content in contents[judged:]], np.int32)
            self._by_content = np.concatenate([self._by_content, more])
        codes: CodeArray = self._by_content[table.content.codes[rows]]
        return codes

    def _judge(self, content: Content) -> int:
        for selector, answers in self._selectors:
            if answers.fault:
                return self._fault(SelectorFault(selector, answers.fault, compiling=True))
            answer = answers.of(content)
            if isinstance(answer, str):
                return self._fault(SelectorFault(selector, answer))
            if not answer:
                return NO
        return YES

    def _fault(self, fault: SelectorFault) -> int:
        if fault not in self.faults:
            self.faults.append(fault)
        return -1 - self.faults.index(fault)


class Selectors:
    """Masks by what they are made of."""

    def __init__(self) -> None:
        self._answers: dict[str, _Answers] = {}
        self._masks: dict[tuple[SelectorExpression, ...], Mask] = {}

    def mask(self, selectors: tuple[SelectorExpression, ...]) -> Mask:
        """The mask of class and request selectors, in this order."""
        mask = self._masks.get(selectors)
        if mask is None:
            answers = [self._of(selector.expression) for selector in selectors]
            mask = self._masks[selectors] = Mask(selectors, answers)
        return mask

    def refusing(
        self, selectors: tuple[SelectorExpression, ...], content: Content
    ) -> SelectorExpression | None:
        """The first of ``selectors`` that says no; None where none does."""
        for selector in selectors:
            answers = self._of(selector.expression)
            if not answers.fault and answers.of(content) is False:
                return selector
        return None

    def _of(self, expression: str) -> _Answers:
        if expression not in self._answers:
            self._answers[expression] = _Answers(expression)
        return self._answers[expression]
