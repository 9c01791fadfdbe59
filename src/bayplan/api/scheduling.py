"""PodGroup of scheduling.x-k8s.io/v1alpha1, as the plugin Coscheduling reads it."""

from __future__ import annotations

from bayplan.api.meta import Object, Wire
from bayplan.api.pod_spec import Resources


class PodGroupSpec(Wire, frozen=True):
    """What a group asks for; every field may be absent."""

    min_member: int = 0
    min_resources: Resources = {}
    schedule_timeout_seconds: int | None = None


class PodGroup(Object, frozen=True):
    """A PodGroup: Pods that are placed at once, or not at all."""

    spec: PodGroupSpec = PodGroupSpec()
