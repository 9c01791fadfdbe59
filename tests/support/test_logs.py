"""What is logged at which level, and in what form. Each test has a process of its own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

SCENE = """
import sys
from bayplan.support import logs
logs.configure({level}, json={json})
from bayplan.testing import make_node, make_pod
from tests.core_harness import Cluster
from tests.scripted import scripted
cluster = Cluster(scripted("Mine", score=3))
cluster.add(*(make_node(n).capacity(cpu="4", pods=9) for n in ("n1", "n2")))
cluster.add(make_pod("fits").req(cpu="1"), make_pod("huge").req(cpu="9"))
cluster.run()
cluster.plugin(scripted("Mine").__mro__[1]).script["score"] = RuntimeError("oops")
cluster.add(make_pod("fails").req(cpu="1"))
cluster.run()
"""


def lines(level: int, as_json: bool = True) -> list[str]:
    """What three attempts log: one that succeeds, one rejected, one that fails."""
    done = subprocess.run(
        [sys.executable, "-c", SCENE.format(level=level, json=as_json)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def events(level: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(level)]


def test_failures_always_appear_with_their_traceback() -> None:
    failed, retried = events(0)
    assert (failed["level"], failed["msg"], failed["plugin"]) == (
        "error",
        "plugin failed",
        "Mine",
    )
    assert failed["exception"].startswith("Traceback (most recent call last):")
    assert failed["exception"].endswith("RuntimeError: oops")
    assert retried["msg"] == "Error scheduling pod; retrying"
    assert retried["err"] == 'running Score plugin "Mine": RuntimeError: oops'
    assert retried["ts"].endswith("Z")


def test_level_two_has_one_line_a_decision() -> None:
    bound, rejected = [line for line in events(2) if line["level"] == "info"]
    assert bound["msg"] == "Successfully bound pod to node"
    assert (bound["pod"], bound["node"], bound["v"]) == ("default/fits", "n1", 2)
    assert (bound["evaluatedNodes"], bound["feasibleNodes"]) == (2, 2)
    assert rejected["msg"] == "Unable to schedule pod; no fit; waiting"
    assert rejected["pod"] == "default/huge"
    assert rejected["err"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_level_five_tells_of_attempts_and_of_post_filter() -> None:
    said = [line["msg"] for line in events(5)]
    assert said.count("Attempting to schedule pod") == 3
    assert said.count("Status after running PostFilter plugins for pod") == 1
    assert "Plugin scored node for pod" not in said


def test_level_ten_tells_every_score() -> None:
    scored = [line for line in events(10) if line["msg"] == "Plugin scored node for pod"]
    mine = [(line["node"], line["score"]) for line in scored if line["plugin"] == "Mine"]
    assert mine == [("n1", 3), ("n2", 3)]


@pytest.mark.parametrize("level", [0, 2])
def test_the_console_form_is_for_people(level: int) -> None:
    text = "\n".join(lines(level, as_json=False))
    assert "Error scheduling pod; retrying" in text
    assert "RuntimeError: oops" in text
    assert ("Successfully bound pod to node" in text) is (level == 2)


def test_colours_go_to_a_terminal_only_and_not_where_the_user_wants_none() -> None:
    program = "from bayplan.support import logs\nlogs.configure(json=False)\nimport structlog\n"
    program += "structlog.get_logger().error('oops')"
    assert "\x1b[" not in "".join(lines(0, as_json=False))
    assert "\x1b[" in on_a_terminal(program, {})
    assert "\x1b[" not in on_a_terminal(program, {"NO_COLOR": "1"})


def on_a_terminal(program: str, environment: dict[str, str]) -> str:
    """What the program writes to standard error if that is a terminal."""
    ours, theirs = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    argv = [sys.executable, "-c", program]
    subprocess.run(argv, stderr=theirs, check=True, env=inherited | environment)
    written = os.read(ours, 65536).decode()
    os.close(theirs)
    os.close(ours)
    return written
