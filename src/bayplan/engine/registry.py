"""Registry: every plugin that a configuration may name, and the source of each class.

In-tree plugins are the modules of `bayplan.plugins`, each named after its plugin. Users add theirs
as an installed package (entry point group ``bayplan.plugins``) or as Python files in a folder, for
example a mounted ConfigMap. A file is imported at the start and at every reload; every `Plugin`
subclass that it defines is a plugin, except those whose names begin with ``_``.

The reasons: docs/decisions/0011-plugins-are-files.md.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import linecache
import re
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from bayplan.api.kinds import CORE_KINDS, KINDS, Kind
from bayplan.config import IN_TREE, ConfigError, EffectiveConfig, FieldError, KnownPlugin
from bayplan.engine.contract import problems
from bayplan.engine.faults import is_interrupt
from bayplan.engine.in_tree import TRUSTED
from bayplan.engine.profile_plugins import Trust
from bayplan.framework.interface import Plugin
from bayplan.framework.points import extension_points
from bayplan.support.text import error_text

ENTRY_POINT_GROUP = "bayplan.plugins"
USER_MODULES = "bayplan_user_plugins"
"""Package of the modules that plugin files become."""

_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where a word begins in a name such as NodePorts or QOSSort."""


class PluginLoadError(Exception):
    """A user's plugin cannot be loaded; the message names the file and the line."""


class Registry:
    """Plugin classes by name.

    Attributes:
        known: what `bayplan.config` needs to know of them.
        trusted: the in-tree plugins, whose answers need no check.
    """

    def __init__(self) -> None:
        self.known: dict[str, KnownPlugin] = dict(IN_TREE)
        self.trusted: Mapping[str, Trust] = TRUSTED
        self._sources: dict[str, str] = dict.fromkeys(IN_TREE, "bayplan")
        self._classes: dict[str, type[Plugin]] = {}

    def add(self, cls: type[Plugin], source: str) -> None:
        """Add a user's plugin.

        Raises:
            PluginLoadError: its name is taken, or it does not keep to the contract of
                `bayplan.framework.points`; with every fault, one a line.
        """
        name = cls.name
        if name in self._sources:
            raise PluginLoadError(
                f'{source}: plugin "{name}" is defined by {self._sources[name]} already'
            )
        if faults := problems(cls):
            raise PluginLoadError("\n".join(f"{source}: {fault}" for fault in faults))
        self._sources[name] = source
        self._classes[name] = cls
        self.known[name] = KnownPlugin(name, extension_points(cls), cls.Args)

    def load_installed(self) -> None:
        """Add the plugins of installed packages; raises PluginLoadError."""
        for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
            source = f"entry point {entry.name} = {entry.value}"
            try:
                loaded = entry.load()
            except BaseException as exc:
                if is_interrupt(exc):
                    raise
                raise PluginLoadError(f"{source}: {error_text(exc)}") from exc
            if not (isinstance(loaded, type) and issubclass(loaded, Plugin)):
                raise PluginLoadError(f"{source}: is not a subclass of bayplan.framework.Plugin")
            self.add(loaded, source)

    def load_folder(self, folder: Path) -> None:
        """Add the plugins of every ``*.py`` file in ``folder``; raises PluginLoadError."""
        if not folder.is_dir():
            raise PluginLoadError(f"{folder}: is not a folder")
        for path in sorted(folder.glob("*.py")):
            if path.name.startswith((".", "_", "test_")):
                continue
            for cls in _plugins_of(_import_file(path)):
                self.add(cls, str(path))

    def plugin_class(self, name: str) -> type[Plugin]:
        """The class of a plugin that `known` says is available."""
        if name not in self._classes:
            self._classes[name] = _in_tree(name)
        return self._classes[name]

    def kinds(self, config: EffectiveConfig) -> tuple[Kind[object], ...]:
        """What has to be watched for the plugins that ``config`` runs: the core's kinds and theirs.

        Raises:
            ConfigError: two plugins declare one kind in two ways.
        """
        kinds: dict[tuple[str, str], Kind[object]] = {
            (kind.api_version, kind.name): kind for kind in KINDS.values()
        }
        used = dict.fromkeys(CORE_KINDS)
        for index, profile in enumerate(config.profiles):
            for entry in itertools.chain.from_iterable(profile.plugins.values()):
                cls = self.plugin_class(entry.name)
                for kind in cls.kinds_for(profile.plugin_args.get(cls.name)):
                    if kind.gate and not config.gates.on(kind.gate):
                        continue
                    if kinds.setdefault((kind.api_version, kind.name), kind) is not kind:
                        text = f'plugin "{entry.name}": {kind} is declared a second time, otherwise'
                        raise ConfigError([FieldError(f"profiles[{index}].plugins", text)])
                    used[kind] = None
        return tuple(used)


def _in_tree(name: str) -> type[Plugin]:
    module_name = "bayplan.plugins." + _WORD.sub("_", name).lower()
    cls: type[Plugin] = getattr(importlib.import_module(module_name), name)
    return cls


def _import_file(path: Path) -> ModuleType:
    name = f"{USER_MODULES}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    linecache.checkcache(str(path))
    try:
        # Not by the loader: it would write byte code, and take it for that of another version of
        # the file if both have one size and were written within one second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102
    except BaseException as exc:
        sys.modules.pop(name, None)
        if is_interrupt(exc):
            raise
        raise PluginLoadError(f"{path}:{_line(exc, path)} {error_text(exc)}") from exc
    return module


def _line(exc: BaseException, path: Path) -> str:
    """The line of ``path`` at fault, with a colon, or nothing."""
    if isinstance(exc, SyntaxError):
        return f"{exc.lineno}:"
    frames = [f for f in traceback.extract_tb(exc.__traceback__) if f.filename == str(path)]
    return f"{frames[-1].lineno}:" if frames else ""


def _plugins_of(module: ModuleType) -> Iterator[type[Plugin]]:
    for value in vars(module).values():
        is_plugin = isinstance(value, type) and issubclass(value, Plugin)
        own = is_plugin and value.__module__ == module.__name__
        if own and not value.__name__.startswith("_"):
            yield value
