"""Sources: the files that say how to schedule, read and checked as a whole."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bayplan.config import (
    ConfigError,
    EffectiveConfig,
    default_configuration,
    load_config,
    parse_feature_gates,
    resolve_config,
)
from bayplan.engine.registry import USER_MODULES, Registry

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Path with symlinks resolved, inode, size and time of change of each file."""


@dataclass(frozen=True)
class Sources:
    """Where configuration and plugins come from.

    Attributes:
        config: the KubeSchedulerConfiguration; None for the defaults.
        plugin_dirs: folders with the plugins of users.
        scheduler_name: the profile's name in the defaults.
        feature_gates: the value of each ``--feature-gates`` flag.
    """

    config: Path | None = None
    plugin_dirs: tuple[Path, ...] = ()
    scheduler_name: str = "bayplan"
    feature_gates: tuple[str, ...] = ()

    def read(self) -> tuple[Registry, EffectiveConfig]:
        """The plugins and the configuration.

        Raises:
            PluginLoadError: a plugin cannot be loaded.
            ConfigError: a flag or the configuration is wrong; each line begins with its name.
        """
        modules = {name: m for name, m in sys.modules.items() if name.startswith(USER_MODULES)}
        try:
            return self._read()
        except BaseException:
            # Plugins that go on running look for their own modules, not for those that failed.
            sys.modules.update(modules)
            raise

    def _read(self) -> tuple[Registry, EffectiveConfig]:
        gates = parse_feature_gates(self.feature_gates)
        registry = Registry()
        registry.load_installed()
        for folder in self.plugin_dirs:
            registry.load_folder(folder)
        if self.config is None:
            defaults = default_configuration(self.scheduler_name)
            return registry, resolve_config(defaults, registry.known, gates)
        try:
            effective = load_config(self.config, registry.known, gates)
            effective.require_available()
        except ConfigError as error:
            raise ConfigError(error.errors, str(self.config)) from None
        return registry, effective

    def fingerprint(self) -> Fingerprint:
        """Differs when a file was changed, replaced, added or removed.

        A mounted ConfigMap changes as a symlink does that all its files are reached through.
        """
        return tuple(_marks(path) for path in self._files())

    def _files(self) -> Iterator[Path]:
        if self.config is not None:
            yield self.config
        for folder in self.plugin_dirs:
            yield from sorted(folder.glob("*.py"))


def _marks(path: Path) -> tuple[str, int, int, int]:
    try:
        real = path.resolve()
        stat = real.stat()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12: a link that leads to itself
        return str(path), 0, 0, 0
    return str(real), stat.st_ino, stat.st_size, stat.st_mtime_ns
