"""Where users' plugins come from, and what is said when they cannot be loaded."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tests.core_harness import Cluster, profile
from tests.scripted import scripted

from bayplan.config import IN_TREE, ConfigError
from bayplan.engine.registry import PluginLoadError, Registry
from bayplan.framework import Plugin
from bayplan.plugins.node_name import NodeName
from bayplan.testing import PROFILE, make_node, make_pod

AVOID = """
    from bayplan.framework import Plugin, Status

    class AvoidNode(Plugin):
        def filter(self, state, pod, node):
            if node.labels.get("avoid") == "true":
                return Status.unschedulable("node(s) are to be avoided")
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def test_every_plugin_that_a_file_defines_is_loaded(tmp_path: Path) -> None:
    write(
        tmp_path,
        "two.py",
        """
        from bayplan.framework import Plugin
        from bayplan.plugins.node_name import NodeName as Imported

        class _Base(Plugin):
            def score(self, state, pod, node):
                return 1

        class One(_Base):
            pass

        class Two(_Base):
            name = "Second"
        """,
    )
    write(tmp_path, "test_two.py", "raise RuntimeError")
    write(tmp_path, "_helper.py", "raise RuntimeError")
    write(tmp_path, "notes.txt", "no Python at all")
    registry = Registry()
    registry.load_folder(tmp_path)
    assert {"One", "Second"} <= set(registry.known)
    assert "_Base" not in registry.known
    assert registry.known["One"].points == {"score"}
    one = registry.plugin_class("One")
    assert one is not None
    assert one.name == "One"
    assert registry.plugin_class("NodeName") is NodeName


def test_a_mounted_config_map_is_a_folder_of_links(tmp_path: Path) -> None:
    data = tmp_path / "..2026_01_01"
    data.mkdir()
    write(data, "avoid.py", AVOID)
    (tmp_path / "..data").symlink_to(data.name)
    (tmp_path / "avoid.py").symlink_to(Path("..data") / "avoid.py")
    registry = Registry()
    registry.load_folder(tmp_path)
    assert registry.known["AvoidNode"].points == {"filter"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("class A:\n    def\n", r"bad\.py:2: SyntaxError: ", id="not Python"),
        pytest.param(
            "import os\n\nimport no_such_module\n",
            r"bad\.py:3: ModuleNotFoundError: No module named 'no_such_module'",
            id="an import that fails",
        ),
        pytest.param(
            "def f():\n    return 1 / 0\n\nf()\n",
            r"bad\.py:2: ZeroDivisionError: division by zero",
            id="code that fails",
        ),
        pytest.param(
            "from bayplan.framework import Plugin\nclass NodeName(Plugin):\n"
            "    def filter(self, *_): ...\n",
            r'bad\.py: plugin "NodeName" is defined by bayplan already',
            id="the name of one of ours",
        ),
        pytest.param(
            "from bayplan.framework import Plugin\nclass Idle(Plugin):\n    def flter(self): ...\n",
            r"bad\.py: Idle\.flter \(line 3\): unknown; did you mean filter",
            id="no method that is called",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_with_the_line(
    tmp_path: Path, text: str, error: str
) -> None:
    write(tmp_path, "bad.py", text)
    with pytest.raises(PluginLoadError, match=error):
        Registry().load_folder(tmp_path)


def test_a_name_that_two_files_define_is_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        write(folder, "avoid.py", AVOID)
    registry = Registry()
    registry.load_folder(first)
    with pytest.raises(PluginLoadError) as caught:
        registry.load_folder(second)
    assert str(caught.value) == (
        f'{second / "avoid.py"}: plugin "AvoidNode" is defined by {first / "avoid.py"} already'
    )


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginLoadError, match=r"missing: is not a folder$"):
        Registry().load_folder(tmp_path / "missing")


class Installed(Plugin):
    """A plugin as a package brings it."""

    def score(self, *_: Any) -> int:
        """One everywhere."""
        return 1


def broken_entry() -> None:
    """No plugin."""


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("Installed", None),
        ("broken_entry", "is not a subclass of bayplan.framework.Plugin"),
        ("missing", "AttributeError"),
    ],
)
def test_packages_bring_plugins_by_entry_points(
    monkeypatch: pytest.MonkeyPatch, value: str, error: str | None
) -> None:
    module = "tests.engine.test_registry"
    entry = importlib.metadata.EntryPoint("mine", f"{module}:{value}", "bayplan.plugins")
    asked: list[str] = []

    def entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
        asked.append(group)
        return [entry]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    registry = Registry()
    if error is None:
        registry.load_installed()
        assert registry.known["Installed"].points == {"score"}
        with pytest.raises(PluginLoadError, match=r"is defined by entry point mine = .* already"):
            registry.load_installed()
    else:
        with pytest.raises(PluginLoadError, match=f"^entry point mine = .*{error}"):
            registry.load_installed()
    assert set(asked) == {"bayplan.plugins"}


# Arguments


@dataclass
class Wanted:
    """Arguments as a dataclass."""

    label: str
    weight: int = 5


class ByLabel(Plugin):
    """Takes arguments."""

    Args = Wanted
    args: Wanted

    def score(self, state: Any, pod: Any, node: Any) -> int:
        """The weight where the label is."""
        return self.args.weight if self.args.label in node.labels else 0


def test_arguments_arrive_as_the_plugin_declares_them() -> None:
    with_args = profile("ByLabel", bare=True, args={"ByLabel": {"label": "good"}})
    cluster = Cluster(ByLabel, profiles=[with_args])
    assert cluster.plugin(ByLabel).args == Wanted("good", 5)
    cluster.add(make_node("n1").capacity(pods=9), make_node("n2").capacity(pods=9).label("good"))
    cluster.add(make_pod("p"))
    cluster.run()
    assert cluster.bound == [("p", "n2")]


@pytest.mark.parametrize("args", [{}, {"label": "x", "weight": "heavy"}, {"label": "x", "wait": 5}])
def test_wrong_arguments_are_refused_with_their_path(args: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(ByLabel, profiles=[profile("ByLabel", bare=True, args={"ByLabel": args})])
    assert caught.value.lines()[0].startswith("profiles[0].pluginConfig[0].args.")


class Refuses(Plugin):
    """Does not like its arguments."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        raise KeyError("region")

    def score(self, *_: Any) -> int:
        """Never called."""
        return 0


def test_a_plugin_that_cannot_be_made_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(Refuses)
    assert caught.value.lines() == [
        "profiles[0].pluginConfig: plugin \"Refuses\": KeyError: 'region'"
    ]


class Serves(Plugin):
    """Of a user, but registers a service."""

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        handle.services.add_group_source(self)

    def score(self, *_: Any) -> int:
        """Never called."""
        return 0


def test_services_are_for_plugins_of_bayplan() -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(Serves)
    [line] = caught.value.lines()
    assert line.startswith('profiles[0].pluginConfig: plugin "Serves": AttributeError: ')
    assert "services" in line


@pytest.mark.parametrize("name", list(IN_TREE))
def test_what_a_configuration_may_enable_is_there(name: str) -> None:
    assert Registry().plugin_class(name).__name__ == name


def test_a_plugin_that_cannot_say_what_it_waits_for_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        Cluster(scripted("Mute", filter=None, events_to_register=RuntimeError("oops")))
    text = 'profiles: plugin "Mute": events_to_register: RuntimeError: oops'
    assert caught.value.lines() == [text]


def test_one_plugin_is_one_object_at_all_its_points() -> None:
    cluster = Cluster()
    plugins = cluster.core.profiles[PROFILE].plugins
    both = (*plugins.filter, *plugins.score)
    fits = [plugin for plugin in both if plugin.name == "NodeResourcesFit"]
    assert len(fits) == 2
    assert len({id(plugin) for plugin in fits}) == 1
