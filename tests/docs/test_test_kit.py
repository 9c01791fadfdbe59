"""The tests that docs/plugins.md shows pass, and fail where the plugin is wrong."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.guide import GUIDE, SOURCES

BLOCKS = [
    code
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    if "\ndef test_" in code
]


@pytest.fixture
def run_block(tmp_path: Path) -> Iterator[Callable[[str, str], int]]:
    """Runs the tests of a block beside the plugin's file; answers how many there are."""

    def run(plugin: str, code: str) -> int:
        _module(tmp_path / "avoid_node.py", plugin)
        module = _module(tmp_path / "test_avoid_node.py", code)
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
        for test in tests:
            test()
        return len(tests)

    yield run
    for name in ("avoid_node", "test_avoid_node"):
        sys.modules.pop(name, None)


def _module(path: Path, code: str) -> ModuleType:
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tests_of_the_guide_pass(run_block: Callable[[str, str], int]) -> None:
    assert [run_block(SOURCES["AvoidNode"], code) for code in BLOCKS] == [2]


def test_they_fail_with_a_plugin_that_does_nothing(run_block: Callable[[str, str], int]) -> None:
    idle = "from bayplan.framework import Plugin\n\n\nclass AvoidNode(Plugin):\n"
    idle += "    def filter(self, state, pod, node):\n        return None\n"
    for code in BLOCKS:
        with pytest.raises(AssertionError):
            run_block(idle, code)
