"""What is found out about a plugin when it is loaded, and not at its first Pod."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from bayplan.config import IN_TREE
from bayplan.config.points import Point
from bayplan.engine.contract import METHODS, expected, problems
from bayplan.engine.registry import PluginLoadError, Registry
from bayplan.framework import Depends, Plugin
from bayplan.framework.points import (
    EnqueueExtensions,
    FilterOne,
    PreFilter,
    extension_points,
)

HEAD = """
import numpy as np
from bayplan.framework import Depends, Normalizer, Plugin, Status
"""
SCORE = "def score(self, state, pod, node): return 1"


def load(folder: Path, body: str) -> Registry:
    """Load a plugin with this class body from a file."""
    source = f"{HEAD}\nclass Mine(Plugin):\n{indent(dedent(body), '    ')}\n"
    (folder / "mine.py").write_text(source)
    registry = Registry()
    registry.load_folder(folder)
    return registry


@pytest.mark.parametrize(
    ("body", "error"),
    [
        pytest.param(
            "def filter(self, pod, node): ...",
            r"Mine\.filter \(line 6\): takes \(self, pod, node\), must be "
            r"filter\(self, state, pod, node\) -> Status \| None",
            id="an argument is missing",
        ),
        pytest.param(
            "def score(self, state, pod, node, extra): return 1",
            r"Mine\.score \(line 6\): takes .*must be score\(self, state, pod, node\) -> int",
            id="an argument too many",
        ),
        pytest.param(
            "@staticmethod\ndef score(self, state, pod, node): return 1",
            r"Mine\.score .*must be score\(self, state, pod, node\)",
            id="static with self",
        ),
        pytest.param(
            "def reserve(self, *, state, pod, node_name): ...",
            r"Mine\.reserve .*must be reserve\(self, state, pod, node_name\)",
            id="keywords only",
        ),
        pytest.param(
            "async def pre_bind(self, state, pod, node_name): ...",
            r"Mine\.pre_bind .*must be a plain function, .*no async",
            id="async",
        ),
        pytest.param(
            "def __init__(self, handle): ...\n" + SCORE,
            r"Mine\.__init__ \(line 6\): takes .*must be __init__\(self, args, handle\)",
            id="a constructor of another kind",
        ),
        pytest.param(
            SCORE + "\ndef Score(self, state, pod, node): return 1",
            r"Mine\.Score \(line 7\): unknown; did you mean score\(self, .*, node\) -> int\?",
            id="Score beside a right method",
        ),
        pytest.param(
            SCORE + "\ndef normalise_score(self, state, pod, scores): return scores",
            r"Mine\.normalise_score .*did you mean normalize_score\(",
            id="normalise_score",
        ),
        pytest.param(
            SCORE + "\ndef preFilter(self, state, pod, nodes): ...",
            r"Mine\.preFilter .*did you mean pre_filter\(",
            id="camelCase",
        ),
        pytest.param(
            "def flter(self, state, pod, node): ...",
            r"Mine\.flter .*did you mean filter\(",
            id="the only method",
        ),
        pytest.param(
            "filter_depend = Depends.NODE\ndef filter(self, state, pod, node): ...",
            r"Mine\.filter_depend: unknown; did you mean filter_depends\?",
            id="filter_depend",
        ),
        pytest.param(
            "def filter_nodes(self, state, pod, nodes): return np.zeros(len(nodes), int)",
            r"Mine: filter_nodes needs reasons\(self, state, pod, code\) -> Status",
            id="no reasons",
        ),
        pytest.param(
            "def filter_nodes(self, state, pod, nodes): ...\nreasons = {1: Status.error('x')}",
            r"Mine\.reasons: must be a method, reasons\(self, state, pod, code\) -> Status, not {",
            id="reasons that are no method",
        ),
        pytest.param(
            "filter_depends = 'node'\ndef filter(self, state, pod, node): ...",
            r"Mine\.filter_depends: must be Depends, not 'node'",
            id="filter_depends of another type",
        ),
        pytest.param(
            "normalizer = Normalizer\n" + SCORE,
            r"Mine\.normalizer: must be Normalizer or None, not <class",
            id="a class for a normalizer",
        ),
        pytest.param(
            "blocking = 'yes'\n" + SCORE, r"Mine\.blocking: must be bool, not 'yes'", id="blocking"
        ),
        pytest.param("pure = 1\n" + SCORE, r"Mine\.pure: must be bool, not 1", id="pure"),
        pytest.param(
            "def add_pod(self, state, pod, other, nodes, row): ...\n"
            "def filter(self, state, pod, node): ...",
            r"Mine: add_pod needs remove_pod\(",
            id="half of a pair",
        ),
        pytest.param(
            SCORE + "\ndef pre_bind_pre_flight(self, state, pod, node_name): ...",
            r"Mine: pre_bind_pre_flight is never called without pre_bind",
            id="a step without its point",
        ),
        pytest.param(
            "def helper(self): ...",
            r'Mine: plugin "Mine" has no method of any extension point',
            id="nothing at all",
        ),
    ],
)
def test_a_plugin_that_breaks_the_contract_is_refused_when_it_is_loaded(
    tmp_path: Path, body: str, error: str
) -> None:
    with pytest.raises(PluginLoadError) as caught:
        load(tmp_path, body)
    path = re.escape(str(tmp_path / "mine.py"))
    assert re.search(f"^{path}: {error}", str(caught.value), re.MULTILINE)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(PluginLoadError) as caught:
        load(tmp_path, "blocking = 1\ndef filter(self): ...\ndef permits(self): ...")
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    "body",
    [
        "def filter(self, s, p, n): ...",
        "def filter(self, *args): ...",
        "def filter(self, state, pod, node, strict=False): ...",
        "@staticmethod\ndef filter(state, pod, node): ...",
        "@classmethod\ndef filter(cls, state, pod, node): ...",
        "filter = lambda self, state, pod, node: None",
        SCORE + "\ndef rank(self): ...\nlabels = {}\ndef _Score(self): ...\nSHARE = 3",
        SCORE + "\ndef _filter(self): ...\n@property\ndef scored(self): return 1",
    ],
)
def test_names_of_parameters_and_other_members_are_the_plugins_business(
    tmp_path: Path, body: str
) -> None:
    assert load(tmp_path, body).plugin_class("Mine") is not None


def test_members_of_base_classes_count(tmp_path: Path) -> None:
    class Base(Plugin):
        filter_depend = Depends.NODE

    class Mine(Base):
        def filter(self, *_: Any) -> None: ...

    [problem] = problems(Mine)
    assert problem.startswith("Mine.filter_depend: unknown")


def test_a_plugin_may_derive_from_the_points_that_it_implements() -> None:
    class Mine(Plugin, PreFilter, FilterOne, EnqueueExtensions):
        def pre_filter(self, *_: Any) -> None: ...
        def filter(self, *_: Any) -> None: ...

    assert problems(Mine) == ["Mine: EnqueueExtensions needs " + expected("events_to_register")]
    assert extension_points(Mine) == {Point.PRE_FILTER, Point.FILTER}


@pytest.mark.parametrize(
    "error",
    ["SystemExit(3)", "BaseException(3)", "GeneratorExit(3)", "KeyboardInterrupt(3)",
     "RecursionError(3)"],
)  # fmt: skip
def test_what_ends_the_import_of_a_file_is_a_fault_of_the_file(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in `bayplan run`, where Ctrl-C raises nothing.
    monkeypatch.setattr("signal.getsignal", lambda _: None)
    (tmp_path / "ends.py").write_text(f"import sys\nraise {error}\n")
    text = rf"ends\.py:2: {error.removesuffix('(3)')}: 3"
    with pytest.raises(PluginLoadError, match=text):
        Registry().load_folder(tmp_path)


def test_a_link_that_leads_to_itself_is_a_fault_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    with pytest.raises(PluginLoadError, match=r"loop\.py: OSError: .*symbolic links"):
        Registry().load_folder(tmp_path)
    assert "bayplan_user_plugins.loop" not in sys.modules, "a module that was not imported"


@pytest.mark.parametrize("name", list(IN_TREE))
def test_in_tree_plugins_keep_to_the_contract_and_to_what_the_configuration_knows(
    name: str,
) -> None:
    cls = Registry().plugin_class(name)
    assert problems(cls) == []
    assert extension_points(cls) <= IN_TREE[name].points


def test_expected_signatures_read_as_one_writes_them() -> None:
    assert expected("post_bind") == "post_bind(self, state, pod, node_name) -> None"
    assert expected("events_to_register") == (
        "events_to_register(self) -> Sequence[EventRegistration]"
    )
    assert "reasons" in METHODS
