"""The store of all other kinds: keys, replacements, and who is told."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import NAMESPACE, SERVICE
from bayplan.api.meta import ObjectMeta
from bayplan.api.workloads import Namespace, Service
from bayplan.cache.objects import ObjectStore


def service(name: str, version: str = "", namespace: str = "default") -> Service:
    return Service(ObjectMeta(name=name, namespace=namespace, resource_version=version))


def test_objects_are_found_by_kind_and_key() -> None:
    store = ObjectStore()
    one, other = service("a"), service("a", namespace="other")
    assert store.set(SERVICE, one) is None
    store.set(SERVICE, other)
    store.set(NAMESPACE, Namespace(ObjectMeta(name="a")))
    assert store.get(SERVICE, "default/a") is one
    assert store.get(SERVICE, "other/a") is other
    assert store.get(SERVICE, "a") is None
    assert store.keys(SERVICE) == {"default/a", "other/a"}
    assert list(store.all(SERVICE)) == [one, other]
    assert store.keys(NAMESPACE) == {"a"}


def test_a_handler_hears_of_what_is_there_and_of_every_change_after() -> None:
    store = ObjectStore()
    first = service("a", "1")
    store.set(SERVICE, first)
    heard: list[tuple[Any, Any]] = []
    store.on_change(SERVICE, lambda old, new: heard.append((old, new)))
    assert heard == [(None, first)]
    second = service("a", "2")
    assert store.set(SERVICE, second) is first
    assert store.remove(SERVICE, "default/a") is second
    assert store.remove(SERVICE, "default/a") is None
    assert heard[1:] == [(first, second), (second, None)]


def test_a_shared_index_is_made_once() -> None:
    store = ObjectStore()

    class Index:
        def __init__(self, start: int) -> None:
            self.start = start

    index = store.shared(Index, 1)
    assert store.shared(Index, 2) is index
    assert index.start == 1
