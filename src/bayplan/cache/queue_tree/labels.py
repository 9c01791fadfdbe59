"""Labels: what those of a Pod, or of a PriorityClass, say to queues.

That Kueue admits the Pod, so that it is of no queue; and that it is never evicted.
"""

from __future__ import annotations

from bayplan.api.meta import ObjectFault, ObjectReference
from bayplan.api.pod import PodShape
from bayplan.api.workloads import PriorityClass

PREEMPTIBLE = "bayplan.dev/preemptible"
"""On a Pod or a PriorityClass: the label that says "false" where Pods are never evicted."""
OF_KUEUE, NEVER, MISREAD = "of Kueue", "never evicted", "neither true nor false"
"""What labels of a Pod may say."""
_KUEUE_LABELS = ("kueue.x-k8s.io/managed", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/queue-name")


def mark(shape: PodShape) -> str | None:
    """What the labels say, of these three; None for none of them."""
    if any(label in shape.labels for label in _KUEUE_LABELS):
        return OF_KUEUE
    if is_misread(shape):
        return MISREAD
    return NEVER if says_never(shape) else None


def says_never(labelled: PodShape | PriorityClass) -> bool:
    """Whether Pods are never evicted."""
    return labelled.labels.get(PREEMPTIBLE) == "false"


def is_misread(labelled: PodShape | PriorityClass) -> bool:
    """Whether the label has another value than "true" and "false"."""
    return labelled.labels.get(PREEMPTIBLE, "true") not in ("true", "false")


def label_fault(whose: ObjectReference, labelled: PodShape | PriorityClass) -> ObjectFault:
    """That the label is misread, of the object ``whose``."""
    wrong = f"{labelled.labels[PREEMPTIBLE]!r} means nothing, 'true' and 'false' do"
    return ObjectFault(whose, "InvalidLabel", f"metadata.labels.{PREEMPTIBLE}: {wrong}")
