"""What the check of docstrings counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.prose import complaints, pronouns


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("The Pods of a group.", 0),
        ("A Pod that waits.", 1),
        ("Its Pods, and those that it names.", 4),
        ("Items with a limit; ``it`` and `that` are names.", 0),
        ("A Pod that waits.\n\nIt waits until they end.", 1),
    ],
)
def test_pronouns_of_the_first_line_count(line: str, number: int) -> None:
    assert len(pronouns(line)) == number


def test_modules_classes_and_functions_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    bad = '"""What it is, and which."""'
    file.write_text(f"{bad}\n\nclass A:\n    {bad}\n\n    async def f(self):\n        {bad}\n")
    places = [line.split(":")[1] for line in complaints(file)]
    assert places == ["1", "4", "7"]
