"""VolumeBinding: a Pod goes where its volumes are, can be bound, or can be made.

- PreFilter sorts the Pod's claims: all that do not wait for a node must be bound by now.
- Filter finds out, for all nodes at once, what the claims would get there (`finder`).
- Reserve assumes it (`assume`), so that the next Pod sees it.
- PreBind writes it to the API server and waits for the PV controller (`binding`, `tasks`).
- Score prefers nodes with more free storage, by the ``shape`` of the args (`scoring`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayplan.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan.api.pod import Pod
from bayplan.api.storage import PersistentVolumeClaim
from bayplan.cache.node_table import BoolArray, IntArray, NodeTable
from bayplan.config.args import VolumeBindingArgs
from bayplan.framework.cluster_events import EventRegistration
from bayplan.framework.cycle_state import CycleState, MissingStateError
from bayplan.framework.in_tree_handle import InTreeHandle
from bayplan.framework.interface import Integers, Plugin
from bayplan.framework.points import (
    EnqueueExtensions,
    FilterNodes,
    PreBind,
    PreBindPreFlight,
    PreFilter,
    PreScore,
    Reserve,
    ScoreNodes,
    Unreserve,
)
from bayplan.framework.status import SKIP, Status
from bayplan.plugins.shared.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    UsesVolumes,
    claim_class,
    claim_uses,
    has_claims,
    not_found,
    not_owner,
)
from bayplan.plugins.shared.csi_nodes import CsiNodes
from bayplan.plugins.shared.scoring_strategies import curve
from bayplan.plugins.volume_binding import hints, scoring
from bayplan.plugins.volume_binding.assume import Volumes
from bayplan.plugins.volume_binding.binding import BindingTask, is_fully_bound
from bayplan.plugins.volume_binding.finder import FoundVolumes, PodVolumeClaims
from bayplan.plugins.volume_binding.tasks import Tasks

_NOT_PREPARED = "not found"
UNBOUND_IMMEDIATE = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")


@dataclass
class _State:
    """What is known of the Pod's claims in this cycle.

    Attributes:
        found: the answer of Filter, for the full table where it was asked about that.
        task: what PreBind has to do; None where all claims are bound.
    """

    claims: PodVolumeClaims
    found: FoundVolumes | None = None
    task: BindingTask | None = None


class VolumeBinding(
    Plugin,
    PreFilter,
    UsesVolumes,
    FilterNodes,
    PreScore,
    ScoreNodes,
    Reserve,
    Unreserve,
    PreBind,
    PreBindPreFlight,
    EnqueueExtensions,
):
    """See the module's docstring."""

    kinds = (
        PERSISTENT_VOLUME_CLAIM,
        PERSISTENT_VOLUME,
        STORAGE_CLASS,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
    )

    Args = VolumeBindingArgs
    args: VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs, handle: InTreeHandle) -> None:
        super().__init__(args, handle)
        self._preparing = handle.preparing
        self._csi_nodes = handle.objects.shared(CsiNodes, handle.nodes, handle.objects)
        self._volumes = handle.objects.shared(Volumes, handle.objects)
        self._tasks = handle.objects.shared(Tasks, handle.nodes, handle.objects)
        self._curve = curve(args.shape) if args.shape else None

    # Scheduling cycle

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Sort the Pod's claims; Skip when it has none."""
        if not has_claims(pod):
            return SKIP
        uses = claim_uses(pod)
        for use in uses:
            if trouble := self._claim_trouble(pod, use):
                return Status.unresolvable(trouble)
        claims = PodVolumeClaims()
        unbound_immediate = False
        for use in uses:
            claim = self._volumes.claims.get(f"{pod.namespace}/{use.name}")
            assert claim is not None
            if is_fully_bound(claim):
                claims.bound.append(claim)
                continue
            waits = self._waits_for_consumer(claim)
            if isinstance(waits, Status):
                return waits
            if waits and not claim.spec.volume_name:
                claims.delayed.append(claim)
            else:
                unbound_immediate = True
        if unbound_immediate:
            return UNBOUND_IMMEDIATE
        state.write(self.name, _State(claims))
        return None

    def _claim_trouble(self, pod: Pod, use: ClaimUse) -> str | None:
        """Why the Pod has to wait for something to happen to a claim; None when it has not."""
        key = f"{pod.namespace}/{use.name}"
        claim = self.handle.objects.get(PERSISTENT_VOLUME_CLAIM, key)
        if claim is None and use.ephemeral:
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{use.name}"'
            )
        if claim is None:
            return not_found("persistentvolumeclaim", use.name)
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{claim.name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        return not_owner(claim, pod) if use.ephemeral else None

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool | Status:
        """Whether the claim's class binds only once a node is known; a missing class does not."""
        name = claim_class(claim)
        storage_class = self.handle.objects.get(STORAGE_CLASS, name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
        return bool(storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> Integers:
        """Codes of `FoundVolumes`."""
        mine = state.read(self.name, _State)
        volumes = self._find(mine, nodes)
        if mine.found is None or nodes is self.handle.nodes:
            mine.found = volumes
        return volumes.codes

    def _find(self, mine: _State, nodes: NodeTable) -> FoundVolumes:
        return FoundVolumes(mine.claims, nodes, self._volumes, self._csi_nodes)

    def reasons(self, state: CycleState, pod: Pod, code: int) -> Status:
        """What the code says."""
        mine = state.read(self.name, _State)
        assert mine.found is not None
        return mine.found.status(code)

    def pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray
    ) -> Status | None:
        """Nothing to do, but PreFilter must have run."""
        if not self.args.shape:
            return SKIP
        return None if self._is_prepared(state) else Status.error(_NOT_PREPARED)

    def _is_prepared(self, state: CycleState) -> bool:
        """Whether PreFilter has run, if only to find that the Pod has no claims."""
        return self.name in state.skip_filter or state.get(self.name, _State) is not None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeTable) -> IntArray | None:
        """How full the volumes would be, by the shape of the args.

        Nothing counts where Filter has not looked for volumes: a profile may have it off.
        """
        if self._curve is not None and not self._is_prepared(state):
            raise MissingStateError(_NOT_PREPARED)
        mine = state.get(self.name, _State)
        if mine is None or mine.found is None or self._curve is None:
            return None
        volumes = mine.found if mine.found.nodes is nodes else self._find(mine, nodes)
        if not (volumes.static or volumes.capacity):
            return None
        return scoring.scores(volumes, self._curve)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Assume what the Pod's unbound claims get on the node."""
        mine = state.get(self.name, _State)
        row = self.handle.nodes.row(node_name)
        if mine is None or not mine.claims.delayed or row is None:
            return None
        node, volumes = self.handle.nodes.nodes[row], mine.found
        assert node is not None
        if volumes is None:
            # The profile has no VolumeBinding at Filter, so no volumes were looked up.
            return None
        if volumes.nodes is not self.handle.nodes:
            volumes, row = self._find(mine, self.handle.nodes.take(np.array([row]))), 0
        if volumes.codes[row]:
            return volumes.status(int(volumes.codes[row]))
        csi_node = self.handle.objects.get(CSI_NODE, node_name)
        task = mine.task = BindingTask(pod, node, csi_node, volumes.at(row))
        for volume in task.volumes:
            self._volumes.volumes.assume(volume)
        for claim in task.claims:
            self._volumes.claims.assume(claim)
        self._tasks.add(task)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take back what was assumed and has not been written."""
        mine = state.get(self.name, _State)
        task = mine.task if mine is not None else None
        if task is None:
            return
        self._tasks.discard(task)
        for volume in task.volumes:
            if volume.key not in task.written:
                self._volumes.volumes.restore(volume)
        for claim in task.claims:
            if claim.key not in task.written:
                self._volumes.claims.restore(claim)

    # Binding cycle

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Skip where nothing is to be bound."""
        mine = state.get(self.name, _State)
        return SKIP if mine is None or mine.task is None else Status()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write what was assumed and wait until the PV controller has bound it all."""
        mine = state.get(self.name, _State)
        if mine is None or mine.task is None:
            return None
        task = mine.task
        preparing = self._preparing.get(pod.uid)
        if preparing is not None:
            preparing.on_cancel(task.give_up)
        writer = self.handle.writer
        assert writer is not None, "without a cluster nothing is bound"
        trouble = task.run(writer, self.args.bind_timeout_seconds)
        self._tasks.discard(task)
        return Status.error(trouble) if trouble else None

    def events_to_register(self) -> list[EventRegistration]:
        """What may undo a rejection."""
        return hints.registrations()
