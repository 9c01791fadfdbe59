"""Other plugins and another configuration while the scheduler runs."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import structlog
from tests.core_harness import Cluster, loaded, only, profile, uid_of
from tests.groups import group_cluster, members, nodes, pod_group
from tests.scripted import scripted

from bayplan.api.kinds import POD, Kind
from bayplan.app import reload as module
from bayplan.app.leadership import Leadership
from bayplan.app.load import LoadFeeds
from bayplan.app.reload import Collect, Reloader, needs_restart
from bayplan.app.sources import Sources
from bayplan.config import ConfigError, EffectiveConfig, FieldError
from bayplan.config.args import LoadSource
from bayplan.engine.registry import PluginLoadError, Registry
from bayplan.framework import WAIT, Plugin, Status
from bayplan.inbox.messages import Replaced
from bayplan.informers.factory import Informers
from bayplan.queue.states import QueueState
from bayplan.testing import PROFILE, Json, NodeBuilder, make_node, make_pod


def node(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu="4", pods=9)


def bare(*plugins: type[Plugin], **fields: Any) -> Json:
    """Fields of a configuration: these plugins, PrioritySort and DefaultBinder; and others."""
    return {"profiles": [profile(*(p.name for p in plugins), bare=True)], **fields}


def read(*plugins: type[Plugin], **fields: Any) -> tuple[Registry, EffectiveConfig]:
    """The same, as if read from files."""
    return loaded(*plugins, **bare(*plugins, **fields))


def swap(cluster: Cluster, *plugins: type[Plugin], **fields: Any) -> None:
    """The same is in force."""
    cluster.reload(*plugins, **bare(*plugins, **fields))


def test_the_new_plugin_decides_about_the_next_pod() -> None:
    cluster = Cluster(scripted("Picky", filter=Status.unschedulable("no")), bare=True)
    waits, later = make_pod("waits").uid("waits"), make_pod("later").uid("later")
    cluster.add(node("n1"), waits)
    cluster.run()
    assert cluster.state(waits) is QueueState.UNSCHEDULABLE
    swap(cluster, scripted("Easy", filter=None))
    assert cluster.state(waits) is QueueState.BACKOFF, "whoever was rejected before is tried again"
    cluster.add(later)
    cluster.run()
    assert cluster.bound == [("later", "n1"), ("waits", "n1")]


def test_a_pod_that_nobody_holds_any_more_is_let_go() -> None:
    cluster = Cluster(scripted("Hold", pre_enqueue=Status.unschedulable("later")), bare=True)
    pod = make_pod("p").uid("p")
    cluster.add(node("n1"), pod)
    assert cluster.state(pod) is QueueState.GATED
    swap(cluster)
    cluster.run()
    assert cluster.bound == [("p", "n1")]


def test_a_pod_that_a_new_plugin_holds_is_not_tried() -> None:
    cluster = Cluster(bare=True)
    active, backing_off = make_pod("a").uid("a"), make_pod("b").req(cpu="9").uid("b")
    cluster.writer.outcome = RuntimeError("no")
    cluster.add(node("n1"), backing_off)
    cluster.run()
    cluster.add(active)
    assert cluster.state(active) is QueueState.ACTIVE
    assert cluster.state(backing_off) is QueueState.BACKOFF
    swap(cluster, scripted("Hold", pre_enqueue=Status.unschedulable("later")))
    assert cluster.state(active) is QueueState.GATED
    assert cluster.state(backing_off) is QueueState.GATED
    assert cluster.is_at_rest()


def test_the_new_order_holds_for_pods_that_wait_already() -> None:
    class ByName(scripted("ByName", sort_key=None)):  # type: ignore[misc]
        def sort_key(self, queued: Any) -> Any:
            return queued.pod.name

    cluster = Cluster(bare=True)
    cluster.add(node("n1"), *(make_pod(name).uid(name) for name in "cab"))
    order = {"queueSort": {"enabled": [{"name": "ByName"}], "disabled": [{"name": "*"}]}}
    by_name = {"schedulerName": PROFILE, "plugins": profile(bare=True)["plugins"] | order}
    swap(cluster, ByName, profiles=[by_name])
    cluster.run()
    assert [pod for pod, _ in cluster.bound] == ["a", "b", "c"]


def test_a_binding_in_flight_ends_with_the_plugins_it_began_with() -> None:
    calls: list[str] = []

    class Old(scripted("Old", reserve=None)):  # type: ignore[misc]
        def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
            calls.append("unreserve")

        def close(self) -> None:
            calls.append("close")

    cluster = Cluster(Old, bare=True)
    cluster.writer.slow = True
    pod = make_pod("p").uid("p")
    cluster.add(node("n1"), pod)
    cluster.run()
    swap(cluster, scripted("New", filter=Status.unschedulable("not again")))
    assert calls == []
    assert cluster.scheduler.retiring
    cluster.writer.answer(RuntimeError("conflict"))
    cluster.take_in()
    assert calls == ["unreserve", "close"]
    retiring: bool = cluster.scheduler.retiring
    assert not retiring
    assert cluster.state(pod) is QueueState.BACKOFF
    assert cluster.is_at_rest()


def test_a_pod_that_waits_in_permit_is_decided_about_by_the_new_plugin() -> None:
    cluster = Cluster(scripted("Gate", permit=(WAIT, 60)), bare=True)
    cluster.add(node("n1"), make_pod("p").uid("p"))
    cluster.run()
    swap(cluster, scripted("Gate", permit=None))
    [waiting] = cluster.core.world.waiting
    waiting.allow("Gate")
    cluster.take_in()
    assert cluster.bound == [("p", "n1")]
    assert cluster.is_at_rest()


def test_pods_of_a_new_profile_are_ours_and_those_of_a_removed_one_are_not() -> None:
    cluster = Cluster(bare=True)
    ours, theirs = make_pod("ours").uid("ours"), make_pod("theirs").uid("theirs")
    theirs.json["spec"]["schedulerName"] = "second"
    cluster.add(ours, theirs)
    second = profile(bare=True, scheduler_name="second")
    swap(cluster, profiles=[second])
    assert (cluster.state(ours), cluster.state(theirs)) == (QueueState.OUTSIDE, QueueState.ACTIVE)
    swap(cluster)
    assert (cluster.state(ours), cluster.state(theirs)) == (QueueState.ACTIVE, QueueState.OUTSIDE)


def test_a_bound_pod_of_a_removed_profile_that_is_gone_counts_no_more() -> None:
    cluster = Cluster(bare=True)
    pod = make_pod("p").uid("p")
    cluster.add(node("n1"), pod)
    cluster.run()
    swap(cluster, profiles=[profile(bare=True, scheduler_name="second")])
    # Its end was not watched, and so was not its binding.
    cluster.tell(Replaced(POD, []))
    assert cluster.counted_on(pod) == ""
    assert cluster.is_at_rest()


@pytest.mark.parametrize("plugins", [["Coscheduling"], ["PrioritySort"]], ids=["still", "no more"])
def test_a_group_that_could_not_be_bound_is_tried_by_the_new_configuration(
    plugins: list[str],
) -> None:
    cluster = group_cluster()
    cluster.writer.slow = True
    cluster.add(pod_group("g", minMember=2))
    pods = members("g", 2)
    cluster.add(*nodes(1), *pods)
    cluster.run()
    cluster.add(*members("g", 1, first=2))
    replaced = [weakref.ref(plugin) for plugin in plugins_of(cluster)]
    swap(cluster, profiles=[only(*plugins, "NodeResourcesFit", "DefaultBinder")])
    for _ in range(2):
        cluster.writer.answer(RuntimeError("no"))
        cluster.take_in()
    gc.collect()
    assert [plugin for ref in replaced if (plugin := ref()) is not None] == []
    cluster.bound.clear()
    cluster.writer.slow = False
    cluster.wait(11)
    cluster.run()
    assert sorted(pod for pod, _ in cluster.bound) == ["g-0", "g-1", "g-2"]
    assert cluster.is_at_rest()


def plugins_of(cluster: Cluster) -> list[Plugin]:
    profiles = cluster.scheduler.profiles.values()
    return [plugin for framework in profiles for plugin in framework.plugins.all]


def test_nothing_of_a_replaced_plugin_stays_reachable() -> None:
    """Neither of users' plugins nor of bayplan's own, after every kind of thing has happened."""

    class Watcher(scripted("Watcher", filter=None, pre_enqueue=None, score=1)):  # type: ignore[misc]
        def __init__(self, args: Any, handle: Any) -> None:
            super().__init__(args, handle)
            self.seen = 0
            handle.nodes.listen(self)

        def node_changed(self, row: int) -> None:
            self.seen += 1

        def pod_added(self, row: int, pod: Any) -> None:
            self.seen += 1

        def pod_removed(self, row: int, pod: Any) -> None:
            self.seen += 1

    cluster = Cluster(Watcher)
    cluster.add(node("n1"), node("n2"))
    cluster.add(*(make_pod(f"p{i}").uid(f"p{i}").req(cpu="1") for i in range(3)))
    cluster.add(make_pod("huge").uid("huge").req(cpu="99"))
    cluster.run()
    assert cluster.plugin(Watcher).seen
    framework = cluster.core.profiles[PROFILE]
    plugins = {p.name: weakref.ref(p) for p in framework.plugins.all}
    whole = weakref.ref(framework)
    assert len(plugins) > 15
    del framework
    swap(cluster, scripted("New", filter=None))
    gc.collect()
    assert whole() is None
    assert [name for name, plugin in plugins.items() if plugin() is not None] == []
    cluster.wait(20)
    cluster.run()
    assert cluster.bound[-1][0] == "huge", "no plugin is left that looks at CPU"


@pytest.mark.parametrize("error", [RuntimeError("oops"), SystemExit(3), GeneratorExit()])
def test_a_plugin_that_raises_when_it_is_closed_does_not_stop_the_others(
    error: BaseException,
) -> None:
    closed: list[str] = []

    class First(scripted("First", filter=None)):  # type: ignore[misc]
        def close(self) -> None:
            raise error

    class Second(scripted("Second", filter=None)):  # type: ignore[misc]
        def close(self) -> None:
            closed.append("Second")

    cluster = Cluster(First, Second, bare=True)
    swap(cluster)
    assert closed == ["Second"]


def test_plugins_that_were_made_are_closed_when_another_cannot_be() -> None:
    closed: list[str] = []

    class Good(scripted("Good", filter=None)):  # type: ignore[misc]
        def close(self) -> None:
            closed.append("Good")

    class Bad(scripted("Bad", filter=None)):  # type: ignore[misc]
        def __init__(self, args: Any, handle: Any) -> None:
            raise LookupError("no region")

    cluster = Cluster(bare=True)
    before = cluster.core.profiles
    with pytest.raises(ConfigError, match="no region"):
        swap(cluster, Good, Bad)
    assert closed == ["Good"]
    assert cluster.core.profiles is before


# The reloader


@dataclass
class Files:
    """What the files say: what `read` answers or raises, and how they look."""

    answer: Callable[[], tuple[Registry, EffectiveConfig]] = read
    version: int = 0
    reads: int = 0

    def read(self) -> tuple[Registry, EffectiveConfig]:
        self.reads += 1
        return self.answer()

    def fingerprint(self) -> int:
        return self.version


@dataclass
class Watched:
    """Informers that list what they are told to at once, unless it is `missing`."""

    kinds: set[Kind[Any]] = field(default_factory=set)
    history: list[set[Kind[Any]]] = field(default_factory=list)

    def watch(self, kinds: set[Kind[Any]]) -> None:
        self.kinds = set(kinds)
        self.history.append(self.kinds)

    def statistics(self) -> dict[Kind[Any], None]:
        return dict.fromkeys(self.kinds)

    def unsynced(self) -> dict[Kind[Any], str]:
        return {}


@dataclass
class Lead:
    """Keeps the events about the Lease."""

    told: list[tuple[str, str, str]] = field(default_factory=list)

    def event(self, type_: str, reason: str, note: str) -> None:
        self.told.append((type_, reason, note))


class Load:
    """Keeps the sources of load that are to be asked."""

    def __init__(self) -> None:
        self.sources: list[str] = []

    def watch(self, sources: Iterable[LoadSource]) -> None:
        self.sources = [str(source) for source in sources]


class Rig:
    """A reloader, and a scheduling thread that takes in what it posts."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = Cluster(bare=True)
        self.files, self.informers, self.lead = Files(), Watched(), Lead()
        self.load = Load()
        _, config = read(**settings)
        self.reloader = Reloader(
            cast("Sources", self.files),
            config,
            self.cluster.core,
            self.cluster.ports,
            cast("Informers", self.informers),
            cast("Leadership", self.lead),
            cast("LoadFeeds", self.load),
        )

    def look(self, *, asked: bool = False) -> None:
        thread = threading.Thread(target=self.reloader.look, kwargs={"asked": asked})
        thread.start()
        while thread.is_alive():
            self.cluster.take_in()
        self.cluster.take_in()

    @property
    def plugins(self) -> set[str]:
        return {plugin.name for plugin in self.cluster.core.profiles[PROFILE].plugins.all}


def test_a_reload_that_is_asked_for_happens_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[Collect] = []

    def collect(message: Collect) -> None:
        collected.append(message)

    monkeypatch.setattr(Collect, "run", collect)
    rig = Rig()
    mine = scripted("Mine", filter=None)
    rig.files.answer = lambda: read(mine)
    rig.look(asked=True)
    assert rig.plugins == {"PrioritySort", "DefaultBinder", "Mine"}
    assert rig.reloader.counts == {"success": 1, "failure": 0}
    assert not rig.reloader.failing
    [(type_, reason, note)] = rig.lead.told
    assert (type_, reason) == ("Normal", "ConfigurationReloaded")
    assert PROFILE in note
    assert len(collected) == 1, "what was replaced leaves the memory"


def test_the_sources_of_load_of_new_plugins_are_asked() -> None:
    rig = Rig()
    named: Json = {"profiles": [profile("TargetLoadPacking", bare=True)]}
    rig.files.answer = lambda: loaded(**named)
    rig.look(asked=True)
    assert rig.load.sources == ["metrics.k8s.io"]
    rig.files.answer = read
    rig.look(asked=True)
    assert rig.load.sources == []


def test_a_changed_file_is_read_once_it_is_written_to_no_more() -> None:
    rig = Rig()
    rig.look()
    rig.files.version = 1
    rig.look()
    rig.files.version = 2
    rig.look()
    assert rig.files.reads == 0
    rig.look()
    rig.look()
    assert rig.files.reads == 1


def wrong(error: BaseException) -> Callable[[], tuple[Registry, EffectiveConfig]]:
    def answer() -> tuple[Registry, EffectiveConfig]:
        raise error

    return answer


class Refuses(Plugin):
    def __init__(self, args: Any, handle: Any) -> None:
        raise LookupError("no region")

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Never called."""


class Leaves(Plugin):
    def __init__(self, args: Any, handle: Any) -> None:
        raise GeneratorExit

    def filter(self, state: Any, pod: Any, node: Any) -> None:
        """Never called."""


class Mute(BaseException):
    """No Exception, and without a text."""

    def __str__(self) -> str:
        raise SystemExit(3)


FAULTS = {
    "a plugin file": (wrong(PluginLoadError("mine.py:3: SyntaxError")), "mine.py:3: SyntaxError"),
    "the configuration": (wrong(ConfigError([FieldError("profiles", "no")])), "profiles: no"),
    "something unforeseen": (wrong(RuntimeError("oops")), "RuntimeError: oops"),
    "what is no Exception": (wrong(KeyboardInterrupt()), "KeyboardInterrupt: "),
    "an exception without a text": (wrong(Mute()), "Mute: a Mute without text"),
    "a plugin that cannot be made": (lambda: read(Refuses), "no region"),
    "a plugin that ends the interpreter": (lambda: read(Leaves), "GeneratorExit"),
    "a setting that needs a restart": (
        lambda: read(parallelism=3),
        "restart bayplan for a change of parallelism",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_changes_nothing_and_is_said(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, text = FAULTS[fault]
    monkeypatch.setattr(module, "log", structlog.get_logger())
    rig = Rig()
    before, kinds = rig.cluster.core.profiles, set(rig.informers.kinds)
    rig.files.answer = answer
    with structlog.testing.capture_logs() as lines:
        rig.look(asked=True)
    assert rig.cluster.core.profiles is before
    assert rig.informers.kinds == kinds
    assert rig.reloader.counts == {"success": 0, "failure": 1}
    assert rig.reloader.failing
    assert text in rig.reloader.problem
    assert [line["event"] for line in lines][-1] == (
        "Configuration not reloaded; the previous one goes on"
    )
    assert text in lines[-1]["err"]
    [(type_, reason, note)] = rig.lead.told
    assert (type_, reason) == ("Warning", "ReloadFailed")
    assert text in note
    rig.files.answer = read
    rig.look(asked=True)
    assert not rig.reloader.failing


def test_kinds_that_only_the_old_plugins_watched_are_let_go_after_the_swap() -> None:
    rig = Rig()
    rig.look(asked=True)
    assert rig.informers.history[0] >= rig.informers.history[-1]
    assert rig.informers.kinds == set(read()[0].kinds(read()[1]))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"podMaxBackoffSeconds": 20}, []),
        ({"percentageOfNodesToScore": 50}, []),
        ({"clientConnection": {"qps": 7}}, ["clientConnection"]),
        ({"leaderElection": {"leaderElect": False}, "parallelism": 9},
         ["leaderElection", "parallelism"]),
        ({"extenders": [{"urlPrefix": "http://x", "filterVerb": "f", "nodeCacheCapable": True}]},
         ["extenders"]),
    ],
)  # fmt: skip
def test_settings_that_a_reload_cannot_change_are_named(settings: Any, named: list[str]) -> None:
    def yaml(document: Any) -> EffectiveConfig:
        return read(**document)[1]

    before, after = read()[1].settings, yaml(settings).settings
    assert needs_restart(before, after) == named


def test_pods_in_the_middle_of_everything_are_bound_once_each() -> None:
    """Nothing in flight is lost or doubled by a swap in the middle of everything."""
    cluster = Cluster(bare=True)
    cluster.writer.slow = True
    pods = [make_pod(f"p{i}").uid(f"p{i}") for i in range(6)]
    cluster.add(node("n1"), node("n2"), *pods)
    cluster.cycle()
    cluster.cycle()
    swap(cluster, scripted("New", score=1))
    cluster.cycle()
    cluster.writer.answer()
    cluster.run()
    cluster.writer.answer()
    cluster.take_in()
    assert sorted(pod for pod, _ in cluster.bound) == sorted(uid_of(pod) for pod in pods)
    assert cluster.is_at_rest()
