"""The plugins of docs/plugins.md, each loaded as the scheduler loads a user's file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bayplan.testing import PROFILE, Cluster, Json

GUIDE = Path(__file__).parents[2] / "docs" / "plugins.md"
SOURCES: dict[str, str] = {
    name: code
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name in re.findall(r"^class (\w+)\(Plugin\)", code, re.MULTILINE)
}
"""Plugin -> the code block that defines it."""


def load(
    folder: Path, name: str, plugins: Json | None = None, gates: str = "", **args: Any
) -> Cluster:
    """A cluster with that plugin, from a file in ``folder``.

    Args:
        plugins: ``plugins`` of the profile; without it the plugin is enabled at multiPoint.
        gates: feature gates, as the flag has them.
        args: the plugin's arguments.
    """
    (folder / f"{name.lower()}.py").write_text(SOURCES[name])
    profile = {
        "schedulerName": PROFILE,
        "plugins": plugins or {"multiPoint": {"enabled": [{"name": name}]}},
        "pluginConfig": [{"name": name, "args": args}] if args else [],
    }
    config = {"profiles": [profile]}
    return Cluster(config=config, plugin_dir=folder, feature_gates=gates)


def instance(cluster: Cluster, name: str) -> Any:
    """The plugin itself."""
    return next(plugin for plugin in cluster.framework.plugins.all if plugin.name == name)
