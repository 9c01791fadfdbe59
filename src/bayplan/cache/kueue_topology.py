"""Kueue's annotations of Pods, where Kueue itself does not place these.

A user of Kueue asks for a topology in the Pod template. Where Kueue decides about nodes (its
topology-aware scheduling), it holds Pods by a gate, writes the nodes into their nodeSelector, and
has left an annotation with the name of the Workload in the template. Pods without that are placed
by nobody else: their annotations ask the same of bayplan as those of `bayplan.cache.group_topology`
do on the object of the group.

Kueue asks it of a PodSet, the Pods of one template. A group whose Pods do not all ask for the same
is not one PodSet, and nothing of that is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from bayplan.api.pod import Pod
from bayplan.cache.group_topology import GroupTopology, Levels, Slice, of_parts, slices_in

_KUEUE = "kueue.x-k8s.io/"
REQUIRED = f"{_KUEUE}podset-required-topology"
PREFERRED = f"{_KUEUE}podset-preferred-topology"
SLICE_TOPOLOGY = f"{_KUEUE}podset-slice-required-topology"
SLICE_SIZE = f"{_KUEUE}podset-slice-size"
SLICE_LAYERS = f"{_KUEUE}podset-slice-required-topology-constraints"
_ASKS = (REQUIRED, PREFERRED, SLICE_TOPOLOGY, SLICE_SIZE, SLICE_LAYERS)
WORKLOAD = f"{_KUEUE}workload"
"""Annotation of Pods that Kueue has admitted, if its topology-aware scheduling is on."""
PLACED_LABEL = f"{_KUEUE}tas"
"""Label of Pods that Kueue up to v0.13 places."""
_GATE = f"{_KUEUE}topology"

_Asked = tuple[str, ...]


def asks(pod: Pod) -> bool:
    """Whether Kueue's annotations of the Pod ask something of bayplan."""
    return any(_asked(pod))


def labels_in(pod: Pod) -> frozenset[str]:
    """The node labels that Kueue's annotations of the Pod ask about."""
    required, preferred, topology, _, layers = _asked(pod)
    inner = (layer.topology for layer in slices_in(layers, 0)[0])
    return frozenset({required, preferred, topology, *inner}) - {""}


def asked_by(pods: Iterable[Pod], levels: Levels) -> GroupTopology | None:
    """The topology in the annotations of all Pods; None where these are unlike each other."""
    asked = set(map(_asked, pods))
    if len(asked) != 1:
        return None
    required, preferred, topology, size, layers = asked.pop()
    slices, fault = slices_in(layers, 0)
    fault = fault and f"{SLICE_LAYERS}: {fault}"
    if topology and not layers:
        if size.isdecimal() and int(size):
            slices = (Slice(topology, int(size)),)
        else:
            fault = f'{SLICE_SIZE} is "{size}"; it must be a number, at least 1'
    found = of_parts(required, preferred, slices, levels)
    if found is None:
        return GroupTopology(fault=fault) if fault else None
    names = REQUIRED, PREFERRED, SLICE_LAYERS if layers else SLICE_TOPOLOGY
    return replace(found, names=names, fault=fault)


def _asked(pod: Pod) -> _Asked:
    """The values of `_ASKS`; "" where the annotation is not there or not for bayplan."""
    annotations = pod.annotations
    if not annotations or _is_placed_by_kueue(pod):
        return ("",) * len(_ASKS)
    return tuple(annotations.get(name, "") for name in _ASKS)


def _is_placed_by_kueue(pod: Pod) -> bool:
    return (
        WORKLOAD in pod.annotations
        or PLACED_LABEL in pod.shape.labels
        or any(gate.name == _GATE for gate in pod.spec.scheduling_gates)
    )
