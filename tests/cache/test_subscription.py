"""Who is told of changes, and that nobody is kept alive by it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from bayplan.api.kinds import SERVICE
from bayplan.api.meta import ObjectMeta
from bayplan.api.pod import Pod
from bayplan.api.workloads import Service
from bayplan.cache.node_table import LiveNodeTable
from bayplan.cache.objects import ObjectStore
from bayplan.cache.subscription import Subscribers


class Index:
    """Counts Services and nodes, as the index of a plugin does."""

    def __init__(self, store: ObjectStore, nodes: LiveNodeTable) -> None:
        self.changes = 0
        self.subscription = store.on_change(SERVICE, self._changed)
        nodes.listen(self)

    def _changed(self, _old: Service | None, _new: Service | None) -> None:
        self.changes += 1

    def pod_added(self, row: int, pod: Pod) -> None:
        """See `bayplan.cache.node_table.Listener`."""

    def pod_removed(self, row: int, pod: Pod) -> None:
        """See `bayplan.cache.node_table.Listener`."""

    def node_changed(self, row: int) -> None:
        """See `bayplan.cache.node_table.Listener`."""


def service(name: str) -> Service:
    return Service(ObjectMeta(name=name, namespace="default"))


def test_a_closed_subscription_tells_nothing_more() -> None:
    store = ObjectStore()
    index = Index(store, LiveNodeTable())
    store.set(SERVICE, service("a"))
    index.subscription.close()
    index.subscription.close()
    store.set(SERVICE, service("b"))
    assert index.changes == 1


def test_store_and_table_keep_no_subscriber_alive() -> None:
    store, nodes = ObjectStore(), LiveNodeTable()
    index = weakref.ref(Index(store, nodes))
    gc.collect()
    assert index() is None
    store.set(SERVICE, service("a"))


def test_a_shared_index_goes_with_its_last_user_and_is_made_anew_for_the_next() -> None:
    store, nodes = ObjectStore(), LiveNodeTable()
    first = store.shared(Index, store, nodes)
    assert store.shared(Index, store, nodes) is first
    gone = weakref.ref(first)
    del first
    gc.collect()
    assert gone() is None
    store.set(SERVICE, service("a"))
    assert store.shared(Index, store, nodes).changes == 1


def test_subscribers_may_come_and_go_while_the_others_are_told() -> None:
    subscribers: Subscribers[Any] = Subscribers()
    told: list[str] = []

    def first() -> None:
        told.append("first")
        second_subscription.close()
        subscribers.add(lambda: told.append("third"))

    subscribers.add(first)
    second_subscription = subscribers.add(lambda: told.append("second"))
    for _ in range(2):
        for subscriber in subscribers:
            subscriber()
    assert told == ["first", "second", "first", "third"]
