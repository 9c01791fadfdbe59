"""CsiNodes: what the CSINode of each node says, as columns over the node table.

Kept up to date by changes of nodes and CSINodes; shared by the plugins of all profiles.
"""

from __future__ import annotations

from bayplan.api.kinds import CSI_NODE
from bayplan.api.storage import CSINode
from bayplan.cache.node_table import BoolArray, IntArray, Listener, LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.plugins.shared.csi_migration import MIGRATED_PLUGINS
from bayplan.plugins.shared.row_columns import RowColumns

NO_LIMIT = 2**62
_KNOWN = "has a CSINode"
_LIMITED = "its CSINode has a limit"


def migrated_plugins(csi_node: CSINode | None) -> list[str]:
    """Names of the in-tree plugins that the node has handed over to CSI drivers."""
    annotations = csi_node.metadata.annotations if csi_node else {}
    return annotations.get(MIGRATED_PLUGINS, "").split(",")


def limits(csi_node: CSINode) -> dict[str, int]:
    """How many volumes the node takes, for drivers that have a limit."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class CsiNodes(Listener):
    """Columns over the full table."""

    def __init__(self, nodes: LiveNodeTable, objects: ObjectStore) -> None:
        self._nodes = nodes
        self._objects = objects
        self._limits = RowColumns(nodes, NO_LIMIT)
        self._drivers = RowColumns(nodes)
        self._migrated = RowColumns(nodes)
        self._facts = RowColumns(nodes)
        nodes.listen(self)
        objects.on_change(CSI_NODE, self._csi_node_changed)

    def limit(self, driver: str) -> IntArray:
        """How many volumes of ``driver`` each node takes, `NO_LIMIT` where it does not say."""
        return self._limits[driver]

    def installed(self, driver: str) -> BoolArray:
        """Which nodes name ``driver`` in their CSINode."""
        return self._drivers.holds(driver)

    def migrated(self, plugin: str) -> BoolArray:
        """The nodes where the in-tree ``plugin`` is migrated to a CSI driver."""
        return self._migrated.holds(plugin)

    @property
    def known(self) -> BoolArray:
        """Which nodes have a CSINode."""
        return self._facts.holds(_KNOWN)

    @property
    def limited(self) -> BoolArray:
        """Which nodes have a limit for any driver."""
        return self._facts.holds(_LIMITED)

    def node_changed(self, row: int) -> None:
        """Rewrite the row: it may have another node now."""
        name = self._nodes.names[row]
        self._write(row, self._objects.get(CSI_NODE, name) if name is not None else None)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        changed = new or old
        assert changed is not None
        row = self._nodes.row(changed.name)
        if row is not None:
            self._write(row, new)

    def _write(self, row: int, csi_node: CSINode | None) -> None:
        for columns in (self._limits, self._drivers, self._migrated, self._facts):
            columns.clear(row)
        if csi_node is None:
            return
        self._facts[_KNOWN][row] = 1
        self._facts[_LIMITED][row] = int(bool(limits(csi_node)))
        for installed in csi_node.spec.drivers:
            self._drivers[installed.name][row] = 1
        for driver, limit in limits(csi_node).items():
            self._limits[driver][row] = limit
        for plugin in migrated_plugins(csi_node):
            self._migrated[plugin][row] = 1
