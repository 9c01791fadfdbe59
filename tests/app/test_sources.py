"""The files of a configuration: read as a whole, and noticed when they change."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bayplan.app.sources import Sources
from bayplan.config import ConfigError
from bayplan.engine.registry import PluginLoadError

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: p, plugins: {{multiPoint: {{enabled: [{{name: {plugin}}}]}}}}}}]
"""
PLUGIN = """
from bayplan.framework import Plugin


class {name}(Plugin):
    reason = "{reason}"

    def filter(self, state, pod, node):
        return None
"""


class Files:
    """A configuration and one plugin, as files."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config.yaml"
        self.plugin = folder / "mine.py"
        self.sources = Sources(self.config, (folder,))
        self.write("Mine", "one")

    def write(self, name: str, reason: str, *, configured: str = "") -> None:
        self.plugin.write_text(PLUGIN.format(name=name, reason=reason))
        self.config.write_text(CONFIG.format(plugin=configured or name))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def reason(files: Files) -> str:
    cls = files.sources.read()[0].plugin_class("Mine")
    return str(getattr(cls, "reason", None))


def test_a_plugin_file_is_read_anew_even_within_one_second_and_at_one_size(files: Files) -> None:
    assert reason(files) == "one"
    files.write("Mine", "two")
    os.utime(files.plugin, (1, 1))
    assert reason(files) == "two"
    files.write("Mine", "six")
    os.utime(files.plugin, (1, 1))
    assert reason(files) == "six"
    assert not (files.plugin.parent / "__pycache__").exists(), "nothing is written"


def test_a_configuration_that_is_wrong_is_named_with_its_file(files: Files) -> None:
    files.write("Mine", "one", configured="Other")
    with pytest.raises(ConfigError, match=rf'{files.config}: .*unknown plugin "Other"'):
        files.sources.read()


def test_modules_of_running_plugins_stay_when_the_new_ones_fail(files: Files) -> None:
    registry, _ = files.sources.read()
    running = registry.plugin_class("Mine")
    assert running is not None
    files.plugin.write_text("1 / 0")
    with pytest.raises(PluginLoadError, match="ZeroDivisionError"):
        files.sources.read()
    assert vars(sys.modules[running.__module__])["Mine"] is running


def test_every_change_of_a_file_shows_in_the_fingerprint(files: Files) -> None:
    seen = [files.sources.fingerprint()]
    assert files.sources.fingerprint() == seen[0]
    files.plugin.write_text("# longer than before\n" + files.plugin.read_text())
    seen.append(files.sources.fingerprint())
    (files.plugin.parent / "another.py").write_text("")
    seen.append(files.sources.fingerprint())
    files.config.unlink()
    seen.append(files.sources.fingerprint())
    assert len(set(seen)) == len(seen)


def test_a_config_map_that_is_swapped_shows_in_the_fingerprint(tmp_path: Path) -> None:
    """As the kubelet does it: ..data leads to a folder with a time in its name."""
    for version in ("..1", "..2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text("same")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    sources = Sources(tmp_path / "config.yaml")
    before = sources.fingerprint()
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert sources.fingerprint() != before


def test_a_link_that_leads_to_itself_is_noticed_and_refused(files: Files) -> None:
    before = files.sources.fingerprint()
    files.plugin.with_name("loop.py").symlink_to("loop.py")
    assert files.sources.fingerprint() != before
    with pytest.raises(PluginLoadError, match=r"loop\.py"):
        files.sources.read()


def test_modules_of_running_plugins_stay_after_an_import_that_raises_no_exception(
    files: Files,
) -> None:
    cls = files.sources.read()[0].plugin_class("Mine")
    running = sys.modules[cls.__module__]
    files.plugin.write_text("raise GeneratorExit\n")
    with pytest.raises(PluginLoadError, match="GeneratorExit"):
        files.sources.read()
    assert sys.modules[cls.__module__] is running
