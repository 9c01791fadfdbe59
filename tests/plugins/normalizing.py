"""Normalized scores of a plugin, as the framework asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.plugins.harness import scored

from bayplan.api.pod import Pod
from bayplan.cache.node_table import LiveNodeTable


def feasible_scores(
    plugin: Any, pod: Pod, nodes: LiveNodeTable, infeasible: tuple[str, ...] = ()
) -> dict[str, int]:
    """By node, those of ``infeasible`` nodes left out."""
    raw = scored(plugin, pod, nodes)
    assert isinstance(raw, dict)
    names = [name for name in raw if name not in infeasible]
    column = np.array(list(raw.values()), np.int64)
    feasible = np.array([name in names for name in raw], np.bool_)
    given = plugin.normalizer(column, plugin.normalizer.measure(column, feasible))
    return dict(zip(names, given[feasible].tolist(), strict=True))
