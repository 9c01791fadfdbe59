"""What the Pod is told: events are cut, conditions are not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.core_harness import Cluster
from tests.scripted import scripted

from bayplan.framework import Status
from bayplan.report.pods import NOTE_LIMIT, cut_note
from bayplan.testing import make_node, make_pod


def node(name: str = "n1", cpu: str = "4") -> Any:
    return make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10)


@pytest.mark.parametrize(
    ("message", "note"),
    [
        pytest.param("x" * NOTE_LIMIT, "x" * NOTE_LIMIT, id="just fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("é" * 513, "é" * 510 + " ...", id="never half a character"),
    ],
)
def test_the_note_of_an_event_is_cut_the_condition_is_not(message: str, note: str) -> None:
    assert cut_note(message) == note
    assert len(note.encode()) <= NOTE_LIMIT


def test_a_long_message_is_whole_in_the_condition() -> None:
    cluster = Cluster(scripted("Verbose", filter=Status.unschedulable("no" * 800)), bare=True)
    cluster.add(node(), make_pod("p"))
    cluster.run()
    assert len(cluster.notes[0][1].encode()) == NOTE_LIMIT
    assert len(cluster.verdict[1]) > 1600
