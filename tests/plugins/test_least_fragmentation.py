"""LeastFragmentation beside a judge: the formulas of the docs as plain loops on exact numbers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from math import floor
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.devices.support import DRIVER, decode
from tests.plugins.harness import PluginWorld, make, scored

from bayplan.api.kinds import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from bayplan.api.pod import Pod
from bayplan.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from bayplan.config import ConfigError
from bayplan.explain.explanation import explain
from bayplan.framework.cycle_state import CycleState
from bayplan.plugins.least_fragmentation import LeastFragmentation
from bayplan.testing import Cluster, make_node, make_pod
from bayplan.testing.ports import Clock

GPU = "nvidia.com/gpu"
PARTS = (250, 300, 500, 1000)
WHOLE = 1000


@dataclass(frozen=True)
class Ask:
    """What a Pod asks for: milli-CPU, GPUs, thousandths of each, a model, and if it may be shy."""

    cpu: int
    gpus: int = 0
    part: int = WHOLE
    model: str = ""
    tolerant: bool = True


@dataclass
class Site:
    """A node as the judge sees it: GPUs by what is left of each, in thousandths."""

    name: str
    cpu: int
    left: list[int]
    model: str
    tainted: bool
    shared: bool
    used: int = 0


# The judge


def stranded(cpu: int, left: Sequence[int], site: Site, typical: dict[Ask, Fraction]) -> Fraction:
    """F(n): what typical Pods cannot use of a node with so much CPU and these GPUs left."""
    total = Fraction(0)
    for ask, frequency in typical.items():
        able = sum(1 for part in left if part >= ask.part)
        wrong = ask.model not in ("", site.model) or (site.tainted and not ask.tolerant)
        if ask.gpus == 0 or wrong or able < ask.gpus or cpu < ask.cpu:
            total += frequency * sum(left)
        else:
            total += frequency * sum(part for part in left if part < ask.part)
    return total / WHOLE


def judged(site: Site, ask: Ask, typical: dict[Ask, Fraction], grain: Fraction) -> int | None:
    """The score of a node for a Pod; None where the Pod does not fit."""
    if not site.left:
        return 47
    after, missing, full = list(site.left), ask.gpus, Fraction(0)
    for i, part in enumerate(after):
        if missing and part >= ask.part:
            after[i] -= ask.part
            missing -= 1
            full += (1 - Fraction(after[i], WHOLE)) / ask.gpus
    free = site.cpu - site.used
    if missing or free < ask.cpu:
        return None
    gain = stranded(free, site.left, site, typical) - stranded(free - ask.cpu, after, site, typical)
    step = min(max(floor(gain / grain) + 10, 0), 20)
    used = 1 - Fraction(sum(after), WHOLE * len(after))
    if ask.gpus and ask.part < WHOLE:
        used = (used + full) / 2
    return floor((step + min(used, Fraction(999, 1000))) * 100 / 21)


def frequencies(asks: Sequence[Ask]) -> dict[Ask, Fraction]:
    # Whom a taint keeps away, and what of a GPU one asks for, is nothing to Pods without GPUs.
    counted = Counter(ask if ask.gpus else Ask(ask.cpu) for ask in asks)
    return {ask: Fraction(count, len(asks)) for ask, count in counted.items()}


# The same for the plugin


class Floor(PluginWorld):
    """Nodes with GPUs of device plugins, or of a driver that shares them."""

    def __init__(self, sites: Sequence[Site]) -> None:
        super().__init__()
        self.number = 0
        self.queue: Any = self.handle.queued
        body = {"metadata": {"name": "gpu", "uid": "gpu"}, "spec": {"extendedResourceName": GPU}}
        self.objects.set(DEVICE_CLASS, decode(body, DeviceClass))
        for site in sites:
            amounts = {"cpu": f"{site.cpu}m", "pods": "110"}
            if not site.shared:
                amounts[GPU] = str(len(site.left))
            node = make_node(site.name).capacity(**amounts).label("model", site.model)
            self.add(node.taint("gpu", "true", "NoSchedule") if site.tainted else node)
            if site.shared:
                self.objects.set(RESOURCE_SLICE, _slice(site))

    def claim(self, ask: Ask) -> ResourceClaim:
        self.number += 1
        name = f"c{self.number}"
        request = {
            "deviceClassName": "gpu",
            "count": ask.gpus,
            "capacity": {"requests": {"milli": str(ask.part)}},
        }
        body = {
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": request}]}},
        }
        claim = decode(body, ResourceClaim)
        self.objects.set(RESOURCE_CLAIM, claim)
        return claim

    def pod(self, ask: Ask, *, by_claim: bool) -> Pod:
        """A Pod that asks for that, by a claim where ``by_claim``."""
        self.number += 1
        builder = make_pod(f"p{self.number}")
        builder.req(
            cpu=f"{ask.cpu}m", **({GPU: str(ask.gpus)} if ask.gpus and not by_claim else {})
        )
        if ask.model:
            builder.spec(nodeSelector={"model": ask.model})
        if ask.tolerant:
            builder.spec(tolerations=[{"key": "gpu", "operator": "Exists"}])
        if ask.gpus and by_claim:
            name = self.claim(ask).name
            builder.spec(resourceClaims=[{"name": "g", "resourceClaimName": name}])
        return builder.obj()

    def take(self, site: Site, ask: Ask) -> bool:
        """A Pod runs on the node, if there is room."""
        if ask.gpus and ask.part < WHOLE and not site.shared:
            return False
        chosen = [i for i, part in enumerate(site.left) if part >= ask.part][: ask.gpus]
        if len(chosen) < ask.gpus or site.cpu - site.used < ask.cpu:
            return False
        site.used += ask.cpu
        by_claim = site.shared and ask.gpus > 0
        pod = self.pod(ask, by_claim=by_claim).on_node(site.name)
        self.nodes.add_pod(self.row(site.name), pod)
        if by_claim:
            key = f"default/{pod.spec.resource_claims[0].resource_claim_name}"
            claim = self.objects.get(RESOURCE_CLAIM, key)
            assert claim is not None
            results = [_share(site, i, ask.part) for i in chosen]
            body = {"allocation": {"devices": {"results": results}}}
            self.objects.set(RESOURCE_CLAIM, _with_status(claim, body))
        for i in chosen:
            site.left[i] -= ask.part
        return True


def _slice(site: Site) -> ResourceSlice:
    devices = [
        {
            "name": f"d{i}",
            "allowMultipleAllocations": True,
            "capacity": {"milli": {"value": "1000"}},
        }
        for i in range(len(site.left))
    ]
    pool = {"name": site.name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": site.name, "pool": pool, "devices": devices}
    return decode({"metadata": {"name": site.name}, "spec": spec}, ResourceSlice)


def _share(site: Site, device: int, part: int) -> dict[str, Any]:
    return {
        "request": "r",
        "driver": DRIVER,
        "pool": site.name,
        "device": f"d{device}",
        "shareID": f"s-{site.name}-{device}-{part}",
        "consumedCapacity": {"milli": str(part)},
    }


def _with_status(claim: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
    body = msgspec.to_builtins(claim) | {"status": status}
    body["metadata"]["resourceVersion"] = "2"
    return decode(body, ResourceClaim)


def some_ask(dice: random.Random, *, parts: bool) -> Ask:
    gpus = dice.choice((0, 0, 1, 1, 1, 2, 4))
    part = dice.choice(PARTS) if gpus == 1 and parts else WHOLE
    model = dice.choice(("", "", "A", "B")) if gpus else ""
    return Ask(dice.choice((500, 1000, 4000, 8000)), gpus, part, model, dice.random() < 0.8)


def some_site(dice: random.Random, name: str, *, shared: bool) -> Site:
    gpus = [WHOLE] * dice.choice((0, 1, 2, 4, 8))
    return Site(
        name,
        dice.choice((8000, 16000, 64000)),
        gpus,
        dice.choice("AB"),
        dice.random() < 0.3,
        shared and bool(gpus),
    )


@pytest.mark.parametrize("shared", [False, True], ids=["device-plugins", "claims"])
@pytest.mark.parametrize("seed", range(25))
def test_scores_are_those_of_the_judge(seed: int, shared: bool) -> None:
    dice = random.Random(seed)
    sites = [some_site(dice, f"n{i}", shared=shared and dice.random() < 0.8) for i in range(8)]
    world = Floor(sites)
    asks = [some_ask(dice, parts=shared) for _ in range(40)]
    for ask in asks:
        world.queue.add(world.pod(ask, by_claim=shared))
    plugin = world.make(LeastFragmentation, typicalShare=1.0)
    typical = frequencies(asks)
    compared = 0
    for _ in range(12):
        ask = some_ask(dice, parts=shared)
        scores: Any = scored(plugin, world.pod(ask, by_claim=shared), world.nodes)
        for site in sites if any(s.left for s in sites) else ():
            # A share of a GPU is to be had from drivers alone.
            usable = ask.part == WHOLE or site.shared or not site.left
            expected = judged(site, ask, typical, Fraction(1, 25)) if usable else None
            if expected is not None:
                assert scores[site.name] == expected, (site, ask)
                compared += 1
        world.take(dice.choice(sites), replace(ask, model="", tolerant=True))
    assert compared > 20


def test_where_no_node_has_devices_all_are_equal() -> None:
    world = Floor([Site("n", 8000, [], "A", False, False)])
    plugin = world.make(LeastFragmentation)
    assert (
        plugin.score_nodes(CycleState(), world.pod(Ask(1000), by_claim=False), world.nodes) is None
    )


def test_nodes_without_devices_are_as_good_as_a_pod_without_effect() -> None:
    sites = [
        Site("cpu", 8000, [], "A", False, False),
        Site("gpu", 8000, [WHOLE], "A", False, False),
    ]
    world = Floor(sites)
    world.queue.add(world.pod(Ask(4000, 1), by_claim=False))
    plugin = world.make(LeastFragmentation)
    # 4 CPUs are left for the typical Pod, or 3.
    assert scored(plugin, world.pod(Ask(4000), by_claim=False), world.nodes) == {
        "cpu": 47,
        "gpu": 47,
    }
    assert scored(plugin, world.pod(Ask(5000), by_claim=False), world.nodes) == {
        "cpu": 47,
        "gpu": 0,
    }


def test_a_node_that_gets_devices_later_counts() -> None:
    world = Floor(
        [Site("a", 8000, [WHOLE], "A", False, False), Site("b", 8000, [], "A", False, False)]
    )
    for _ in range(3):
        world.queue.add(world.pod(Ask(4000, 1), by_claim=False))
    plugin = world.make(LeastFragmentation)
    pod = world.pod(Ask(5000), by_claim=False)
    assert scored(plugin, pod, world.nodes) == {"a": 0, "b": 47}
    world.add(make_node("b").capacity(cpu="8", pods="110", **{GPU: "2"}))
    fresh = world.pod(Ask(6000), by_claim=False)
    assert scored(plugin, pod, world.nodes) == {"a": 0, "b": 0}
    assert scored(plugin, fresh, world.nodes) == {"a": 0, "b": 0}


def test_what_if_tables_are_scored_like_the_live_one() -> None:
    dice = random.Random(7)
    sites = [some_site(dice, f"n{i}", shared=i % 2 == 0) for i in range(6)]
    world = Floor(sites)
    asks = [some_ask(dice, parts=True) for _ in range(30)]
    for ask in asks:
        world.queue.add(world.pod(ask, by_claim=True))
    plugin = world.make(LeastFragmentation)
    pod = world.pod(Ask(1000, 1), by_claim=True)
    live = scored(plugin, pod, world.nodes)
    table = world.nodes.take(np.flatnonzero(world.nodes.exists)[::-1].copy())
    assert scored(plugin, pod, table) == live


@pytest.mark.parametrize(("by_claim", "part"), [(True, WHOLE), (False, WHOLE), (True, 500)])
def test_typical_is_the_part_that_most_pods_are(by_claim: bool, part: int) -> None:
    """The one Pod that is not among 99 %, or 95 % of parts, says nothing: its GPUs may go."""
    others = 99 if part == WHOLE else 19
    world = Floor([Site("n", 8000, [WHOLE] * 2, "A", False, part < WHOLE)])
    for ask in [Ask(1000, 1, part)] * others + [Ask(8000, 2, part)]:
        world.queue.add(world.pod(ask, by_claim=by_claim))
    pod = world.pod(Ask(500), by_claim=False)
    assert scored(world.make(LeastFragmentation), pod, world.nodes) == {"n": 47}
    # 2 GPUs less for one Pod in 100 are half a grain, for one in 20 two and a half.
    everyone = world.make(LeastFragmentation, typicalShare=1.0)
    steps = -(-2 * 25 // (others + 1))
    assert scored(everyone, pod, world.nodes) == {"n": (10 - steps) * 100 // 21}


def test_pods_that_wait_no_more_count_half_after_each_half_life() -> None:
    clock = Clock()
    world = Floor([Site("n", 8000, [WHOLE], "A", False, False)])
    handle = replace(world.handle, now=clock)
    plugin = make(LeastFragmentation, handle, halfLifeSeconds=100)
    typical = plugin._rooms.typical
    pods = [world.pod(Ask(1000, 1), by_claim=False) for _ in range(40)]
    typical.update()
    for pod in pods:
        world.queue.add(pod)
        world.queue.delete(pod)
    typical.update()
    assert [t.demand.cpu for t in typical.types] == [1000]
    clock.time += 200  # 40 count as 10
    for _ in range(32):
        world.queue.add(world.pod(Ask(2000, 1), by_claim=False))
    typical.update()
    weights = {t.demand.cpu: weight for t, weight in typical.types.items()}
    assert weights == pytest.approx({1000: 10 / 42, 2000: 32 / 42})


def test_pods_on_nodes_at_the_start_count_by_their_age() -> None:
    clock = Clock()
    world = Floor([Site("n", 64000, [WHOLE] * 4, "A", False, False)])
    handle = replace(world.handle, now=clock)
    clock.time = 1_000_000.0
    cache: Any = handle.pods
    for cpu, age in ((1000, 100.0), (2000, 0.0)):
        stamp = datetime.fromtimestamp(clock.time - age, UTC).isoformat()
        pod = make_pod(f"p{cpu}").req(cpu=f"{cpu}m", **{GPU: "1"}).meta(creationTimestamp=stamp)
        cache.add(pod.obj().on_node("n"))
    plugin = make(LeastFragmentation, handle, halfLifeSeconds=100)
    plugin._rooms.typical.update()
    weights = {t.demand.cpu: w for t, w in plugin._rooms.typical.types.items()}
    assert weights == pytest.approx({1000: 1 / 3, 2000: 2 / 3})


def test_devices_that_a_claim_gives_back_count_again() -> None:
    site = Site("n", 8000, [WHOLE], "A", False, True)
    world = Floor([site])
    for _ in range(4):
        world.queue.add(world.pod(Ask(1000, 1, 500), by_claim=True))
    plugin = world.make(LeastFragmentation)
    pod = world.pod(Ask(1000, 1, 500), by_claim=True)
    before = scored(plugin, pod, world.nodes)
    world.take(site, Ask(1000, 1, 250))
    assert scored(plugin, pod, world.nodes) != before
    for placed in list(world.nodes.pods[world.row("n")].values()):
        world.nodes.remove_pod(world.row("n"), placed)
        world.objects.remove(
            RESOURCE_CLAIM, f"default/{placed.spec.resource_claims[0].resource_claim_name}"
        )
    assert scored(plugin, pod, world.nodes) == before


def test_explain_has_the_figures_of_the_best_nodes() -> None:
    config = {
        "profiles": [
            {
                "schedulerName": "bayplan",
                "plugins": {"score": {"enabled": [{"name": "LeastFragmentation", "weight": 10}]}},
            }
        ]
    }
    cluster = Cluster(config=config)
    cluster.add(make_node("a").capacity(cpu="8", pods="110", **{GPU: "2"}))
    cluster.add(make_node("b").capacity(cpu="32", pods="110", **{GPU: "2"}))
    cluster.add(make_pod("waits").req(cpu="8", **{GPU: "2"}))
    pod = make_pod("p").req(cpu="4")
    cluster.add(pod)
    framework = cluster.framework
    details = explain(framework, cluster.core.placers, pod.obj(), details=True)["details"]
    assert details == [
        "b: 1.00 of 2 devices stranded, 1.00 with the Pod; 0 in use with it",
        "a: 1.00 of 2 devices stranded, 2.00 with the Pod; 0 in use with it",
    ]


@pytest.mark.parametrize(
    ("plugin", "args", "where", "problem"),
    [
        ("LeastFragmentation", {"resources": []}, "resources", "must name at least one resource"),
        ("LeastFragmentation", {"resources": ["cpu"]}, "resources[0]", "is no extended resource"),
        ("LeastFragmentation", {"resources": [GPU, GPU]}, "resources[1]", "is there already"),
        ("LeastFragmentation", {"grain": 0}, "grain", "must be more than 0"),
        ("LeastFragmentation", {"halfLifeSeconds": 0}, "halfLifeSeconds", "must be at least 1"),
        ("LeastFragmentation", {"typicalShare": 1.5}, "typicalShare", "at most 1"),
        ("ReservedFor", {"resources": {}}, "resources", "must name at least one resource"),
        ("ReservedFor", {"resources": {"gpu": {"cpu": "1"}}}, "resources[gpu]", "no extended"),
        ("ReservedFor", {"resources": {GPU: {}}}, f"resources[{GPU}]", "at least one resource"),
        ("ReservedFor", {"resources": {GPU: {"cpu": "x"}}}, f"resources[{GPU}][cpu]", "x"),
        ("ReservedFor", {"resources": {GPU: {"cpu": "0"}}}, f"resources[{GPU}][cpu]", "greater"),
        ("ReservedFor", {"resources": {GPU: {GPU: "1"}}}, f"resources[{GPU}][{GPU}]", "scarce"),
    ],
)
def test_args_that_cannot_be_are_named(
    plugin: str, args: dict[str, Any], where: str, problem: str
) -> None:
    profile = {
        "schedulerName": "b",
        "plugins": {"score": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    with pytest.raises(ConfigError) as caught:
        Cluster(config={"profiles": [profile]})
    assert f"args.{where}: " in str(caught.value)
    assert problem in str(caught.value)
