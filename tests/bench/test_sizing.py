"""The load of the sizing table: so many Pods a second, each for a while, and nodes that report."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import msgspec
import pytest
from bench.api import BulkClient
from bench.objects import Item
from bench.sizing import HEADINGS, HEARTBEAT, LIFETIME, Figures, Load, Window, of_kwok

from bench import sizing

NODES = 30


class FakeTime:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeClient:
    """Notes what it is asked for, and when."""

    def __init__(self, clock: FakeTime) -> None:
        self._clock = clock
        self.created: dict[str, float] = {}
        self.deleted: dict[str, float] = {}
        self.reported: Counter[str] = Counter()

    def create(self, item: Item) -> None:
        self.created[f"{item.path}/{item.name}"] = self._clock.now

    def delete(self, path: str) -> None:
        self.deleted[path] = self._clock.now

    def merge(self, path: str, _change: object) -> None:
        self.reported[path] += 1


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    clock = FakeTime()
    monkeypatch.setattr(sizing, "time", clock)
    return FakeClient(clock)


def load(client: FakeClient) -> Load:
    return Load(cast(BulkClient, client), NODES, pods=90)


def test_pods_come_at_their_rate_and_live_for_their_time(client: FakeClient) -> None:
    load(client).run(3 * LIFETIME, rate=20)
    assert len(client.created) == pytest.approx(60 * LIFETIME, abs=2)
    assert len(client.deleted) == pytest.approx(40 * LIFETIME, abs=2)
    lives = [moment - client.created[path] for path, moment in client.deleted.items()]
    assert min(lives) >= LIFETIME
    assert max(lives) < LIFETIME + 2 * sizing.TICK


def test_each_node_reports_once_in_a_while(client: FakeClient) -> None:
    load(client).run(HEARTBEAT, rate=0)
    assert not client.created
    assert len(client.reported) == NODES
    assert set(client.reported.values()) == {1}


def test_a_node_is_kwoks_and_a_pod_is_as_it_was() -> None:
    def item(kind: str) -> Item:
        return Item(kind, "", "a", msgspec.json.encode({"metadata": {"name": "a"}}))

    node: Any = msgspec.json.decode(of_kwok(item("Node")).body)
    assert node["metadata"] == {"name": "a", "annotations": {"kwok.x-k8s.io/node": "fake"}}
    assert of_kwok(item("Pod")) == item("Pod")


def test_a_row_has_a_cell_for_each_heading() -> None:
    idle, steady = Window(10.0, 0.01, 100.0), Window(10.0, 0.25, 110.0, bound=500)
    row = Figures(1000, 30000, 1.5, 2.5, idle, steady, 120.0).row()
    assert len(row) == len(HEADINGS)
    assert row[-5:] == ("50", "110 MiB", "25.0%", "5.0 ms", "120 MiB")
