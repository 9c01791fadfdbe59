"""A cluster in memory where plans are applied: owners make evicted Pods again, time goes on.

The process that applies and the scheduler's part are the real ones; the API server between them is
a dictionary, and between two looks of the process the scheduler does what there is to do.
`python -m tests.improve.applied` applies the plans of 200 random clusters.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer
from tests.improve.brute import MOST, built, fragmented

from bayplan.api.kinds import NAMESPACE, POD
from bayplan.api.meta import GenericObject
from bayplan.app.improvement import Improvement
from bayplan.client.connection import JSON
from bayplan.client.errors import ApiError, NotFound
from bayplan.client.hold import DURATION, HeldError
from bayplan.improve.applying import Application, Plan, RefusedError, StoppedError, plan_of
from bayplan.improve.goals import fitting
from bayplan.improve.orders import ANSWER, MOVED
from bayplan.improve.plan import improve
from bayplan.inbox.messages import Changed, Removed
from bayplan.testing import Builder, Cluster, PodBuilder, make_object

Action = Callable[["Applied"], object]


class Applied:
    """See the module's docstring; it is the `Http` and the `Hold` of an `Application`.

    Args:
        objects: what there is.
        config: of the scheduler.
        feature_gates: likewise.

    Attributes:
        evicted: keys of the Pods that were evicted.
        on_evicted: called with this, and the builder of each Pod that its owner makes again, which
            it may change; False leaves the Pod out.
        where: see `bayplan.client.hold.Hold`.
        on_sleep: called with this whenever the process waits.
        moved: the annotation of the Lease that stays.
        refused: by key, what the API server says of an eviction.
    """

    def __init__(self, *objects: Builder[Any], config: Any = None, feature_gates: str = "") -> None:
        self.cluster = Cluster(config=config, feature_gates=feature_gates)
        self.improvement = Improvement(
            self.cluster.core, self.cluster.ports, ("kube-system", "bayplan"), "scheduler-1"
        )
        self.builders: dict[str, Builder[Any]] = {}
        self.lease: dict[str, Any] | None = None
        self.where = "kube-system/bayplan-improve"
        self.evicted: list[str] = []
        self.moved = ""
        self.on_evicted: Callable[[Applied, PodBuilder], bool] = lambda _, __: True
        self.on_sleep: Action = lambda _: None
        self.refused: dict[str, ApiError] = {}
        self.add(make_object(NAMESPACE, "kube-system").uid("this-cluster"), *objects)

    def add(self, *objects: Builder[Any]) -> None:
        """These are new or have changed."""
        for one in objects:
            self.builders[one.path] = one
            self.cluster.add(one)

    def remove(self, one: Builder[Any]) -> None:
        """This one is gone."""
        del self.builders[one.path]
        self.cluster.remove(one)

    # The process

    def plan(self, goal: Any, **more: Any) -> dict[str, Any]:
        """What has to move."""
        answer = improve(self.cluster.core, goal, self.cluster.clock(), seconds=60, **more)
        plan: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer))
        return plan

    def application(self, plan: Mapping[str, Any]) -> Application:
        """What applies the plan."""
        return self.applies(plan_of(plan), {})

    def applies(self, plan: Plan, notes: Mapping[str, str], _sleep: object = None) -> Application:
        """The same, with more annotations of the Lease."""
        real: Any = self  # an Http and a Hold as far as it is used
        clock, sleep = self.cluster.clock, self.sleep
        return Application(
            real, real, plan, 20.0, lambda _: None, clock=clock, sleep=sleep, notes=notes
        )

    def sleep(self, seconds: float) -> None:
        """Time goes on; the Lease is renewed."""
        self.on_sleep(self)
        self.cluster.wait(seconds)
        self.cluster.run()
        if self.lease is not None:
            self._tell_lease()

    @property
    def held(self) -> bool:
        """Whether any room is held."""
        nominator = self.cluster.world.nominator
        names = nominator.nominated_nodes()
        pods = (pod for name in names for pod in nominator.nominated_pods(name))
        return bool(self.cluster.world.rooms) or any("stand-in" in pod.uid for pod in pods)

    # Http

    def get(self, path: str, timeout: float = 0) -> bytes:
        """See `bayplan.client.http.Http`."""
        if path not in self.builders:
            raise NotFound(f"{path} not found", status=404)
        return msgspec.json.encode(self.builders[path].json)

    def once(self, method: str, path: str, body: bytes, content_type: str = JSON) -> bytes:
        """See `bayplan.client.http.Http`; an eviction."""
        pod = self.builders[path.removesuffix("/eviction")]
        assert isinstance(pod, PodBuilder)
        if (error := self.refused.get(pod.key)) is not None:
            raise error
        options = msgspec.json.decode(body)["deleteOptions"]
        assert options["preconditions"]["uid"] == pod.json["metadata"]["uid"]
        if "dryRun" not in options:
            self.evict(pod)
        return b"{}"

    def evict(self, pod: PodBuilder) -> None:
        """The Pod ends, and its owner makes it again."""
        self.evicted.append(pod.key)
        again = PodBuilder(POD, f"{pod.json['metadata']['name']}-again")
        uid = again.json["metadata"]["uid"]
        again.json = copy.deepcopy(pod.json)
        again.json["metadata"] |= {"name": f"{pod.json['metadata']['name']}-again", "uid": uid}
        born = datetime.fromtimestamp(self.cluster.clock(), UTC)
        again.json["metadata"]["creationTimestamp"] = f"{born:%Y-%m-%dT%H:%M:%SZ}"
        del again.json["spec"]["nodeName"]
        again = _rewired(again)
        self.add(pod.terminating())
        if self.on_evicted(self, again):
            self.add(again)
        self.remove(pod)

    # Hold

    def acquire(self, annotations: Mapping[str, str]) -> None:
        """See `bayplan.client.hold.Hold`."""
        kept = {MOVED: self.moved} if self.moved else {}
        annotations = {**kept, **annotations}
        self.lease = {
            "metadata": {"name": "bayplan-improve", "annotations": annotations},
            "spec": {"holderIdentity": "process", "leaseDurationSeconds": DURATION},
        }
        self._tell_lease()

    def annotate(self, name: str, text: str) -> None:
        """See `bayplan.client.hold.Hold`."""
        assert self.lease is not None
        self.lease["metadata"]["annotations"][name] = text
        self.moved = text if name == MOVED else self.moved
        self._tell_lease()

    def annotations(self) -> Mapping[str, str]:
        """See `bayplan.client.hold.Hold`."""
        if self.lease is None:
            raise HeldError("the Lease was lost")
        for _, body in self.cluster.writer.patched:
            said = msgspec.json.decode(body)["metadata"]["annotations"]
            self.lease["metadata"]["annotations"][ANSWER] = said[ANSWER]
        self.cluster.writer.patched.clear()
        annotations: Mapping[str, str] = self.lease["metadata"]["annotations"]
        return annotations

    def give_up(self) -> None:
        """See `bayplan.client.hold.Hold`."""
        if self.lease is not None:
            self.lease["spec"]["holderIdentity"] = ""
            self.lease["metadata"]["annotations"] = {MOVED: self.moved} if self.moved else {}
            self._tell_lease()
            self.lease = None

    def _tell_lease(self) -> None:
        assert self.lease is not None
        lease = GenericObject.decode(msgspec.json.encode(self.lease))
        self.cluster.tell(Changed(self.improvement.kind, lease))

    def delete_lease(self) -> None:
        """Somebody deletes the Lease."""
        assert self.lease is not None
        lease = GenericObject.decode(msgspec.json.encode(self.lease))
        self.cluster.tell(Removed(self.improvement.kind, lease))
        self.lease = None


def _rewired(builder: PodBuilder) -> PodBuilder:
    """A builder of what is in ``builder.json``."""
    fresh = PodBuilder(POD, builder.json["metadata"]["name"])
    fresh.json.clear()
    fresh.json |= builder.json
    fresh._meta, fresh._spec = fresh.json["metadata"], fresh.json["spec"]
    fresh._status = fresh.json.setdefault("status", {})
    return fresh


def outcome(seed: int) -> tuple[int, int]:
    """Plan for a random cluster and apply it; how many Pods were evicted, and whether it stood."""
    world = Applied(*built(fragmented(random.Random(seed))))
    plan = world.plan(fitting(world.cluster.core, "waits", "default"), most=MOST)
    if not plan["reached"]:
        return 0, 1
    try:
        world.application(plan).run()
    except (RefusedError, StoppedError) as error:
        typer.echo(f"cluster {seed}: {error}")
        return len(world.evicted), 0
    stands = bool(world.cluster.node_of("waits")) and not world.held
    return len(world.evicted), int(stands)


def main(clusters: int = 200) -> None:
    """Apply the plans of so many random clusters."""
    outcomes = [outcome(seed) for seed in range(clusters)]
    applied = [evicted for evicted, _ in outcomes if evicted]
    typer.echo(f"{len(applied)} plans of {clusters} clusters applied, {sum(applied)} evictions:")
    vain = sum(evicted for evicted, stands in outcomes if not stands)
    typer.echo(f"{vain} evictions whose goal was not reached")


if __name__ == "__main__":
    typer.run(main)
