"""GPUPriority: Pods go where most GPUs are free. Written in columns: all nodes in one step."""

from bayplan.framework import CycleState, Depends, Integers, NodeTable, Normalizer, Plugin, Pod

GPU = "nvidia.com/gpu"


class GPUPriority(Plugin):
    """Scores nodes by their free nvidia.com/gpu."""

    normalizer = Normalizer()
    score_depends = Depends.NODE | Depends.PODS  # until the node or the Pods on it change

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """One number a row, in the order of the table: whatever NumPy can do, at its speed."""
        return nodes.allocatable(GPU) - nodes.requested(GPU)
