from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from tests.simulation.support import node, pod, write
from typer.testing import CliRunner, Result

from bayplan.cli.app import app

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTERS = Path(__file__).parent.parent / "simulation" / "clusters"
RAW, PREEMPTION = CLUSTERS / "raw.yaml", CLUSTERS / "preemption.yaml"


Bayplan = Callable[..., Result]
"""Runs a command with these arguments."""


@pytest.fixture
def bayplan() -> Iterator[Bayplan]:
    """Runs a command; logging, which it sets up, is as before afterwards."""
    yield lambda *args, **kwargs: CliRunner().invoke(app, [str(a) for a in args], **kwargs)
    structlog.reset_defaults()


@pytest.mark.parametrize("mode", ["explain", "simulate"])
@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_data_is_printed_as_json_or_yaml_and_nothing_else(
    bayplan: Bayplan, mode: str, output: str, load: Callable[..., Any]
) -> None:
    result = bayplan(mode, "-f", RAW, "-o", output)
    assert result.exit_code == 0
    assert load(result.stdout) == json.loads((CLUSTERS / f"raw.{mode}.json").read_text())
    assert result.stderr == ""


def test_yaml_repeats_what_is_said_twice(bayplan: Bayplan) -> None:
    assert "&id" not in bayplan("explain", "-f", RAW, "-o", "yaml").stdout


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        pytest.param(
            "limits-only",
            ["default/limits-only goes to n3\n", "rejected", "node(s) had untolerated taint(s)"],
            id="goes-to-a-node",
        ),
        pytest.param("tolerant", ["goes to n3", "didn't match Pod's node affinity"], id="only-one"),
        pytest.param(
            "gated",
            ["is held back by SchedulingGates: waiting for scheduling gates: [example.com/later]"],
            id="gated",
        ),
        pytest.param(
            "too-large",
            [
                "stays pending\n",
                "0/3 nodes are available: 1 node(s) had untolerated",
                "Insufficient cpu",
            ],
            id="pending",
        ),
        pytest.param("leaving", ["stays pending", "skip schedule deleting pod"], id="deleting"),
        pytest.param("team-a/small", ["team-a/small goes to n3\n", "TaintToleration"], id="scored"),
    ],
)
def test_text_says_where_a_pod_goes_or_why_nowhere(
    bayplan: Bayplan, name: str, parts: list[str]
) -> None:
    result = bayplan("explain", "-f", RAW, "--pod", name)
    assert result.exit_code == 0
    for part in parts:
        assert part in result.stdout


def test_text_tells_of_preemption(bayplan: Bayplan) -> None:
    text = bayplan("explain", "-f", PREEMPTION, "--pod", "high").stdout
    assert (
        "Preemption would make room on n1 by evicting default/low-1. n2 would do as well." in text
    )


@pytest.mark.parametrize(
    ("priorities", "told"),
    [
        pytest.param([1], "by evicting default/low-0.\n", id="the-only-one"),
        pytest.param(
            [2, 1], "by evicting default/low-1. It is the best of 2 nodes.", id="the-best"
        ),
    ],
)
def test_text_says_how_many_nodes_preemption_could_choose_from(
    bayplan: Bayplan, tmp_path: Path, priorities: list[int], told: str
) -> None:
    nodes = [node(f"n{i}") for i in range(len(priorities))]
    large = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    low = [
        pod(f"low-{i}", nodeName=f"n{i}", priority=priority, containers=large)
        for i, priority in enumerate(priorities)
    ]
    path = write(tmp_path, *nodes, *low, pod("high", priority=9, containers=large))
    assert told in bayplan("explain", "-f", path).stdout


def test_text_shows_the_best_nodes_first(bayplan: Bayplan, tmp_path: Path) -> None:
    path = write(tmp_path, *(node(f"n{i}") for i in range(9)), pod("p"))
    lines = bayplan("explain", "-f", path, "--top", 2).stdout.splitlines()
    assert lines[0] == "default/p goes to one of n0, n1, n2, n3, n4, n5 and 3 more"
    assert [line.split()[0] for line in lines[1:4]] == ["node", "n0", "n1"]
    assert lines[4] == "  ... and 7 more nodes that fit"


def test_text_says_what_rejected_the_pod_before_nodes_were_looked_at(
    bayplan: Bayplan,
) -> None:
    text = bayplan("explain", "-f", CLUSTERS / "volumes.yaml", "--pod", "with-none").stdout
    assert "default/with-none stays pending, rejected by VolumeRestrictions" in text


def test_text_names_the_nominated_node(bayplan: Bayplan) -> None:
    text = bayplan("explain", "-f", CLUSTERS / "nominated.yaml", "--pod", "rival").stdout
    assert "default/rival goes to n1, for which it is nominated" in text


def test_a_cluster_without_pending_pods_is_no_error(bayplan: Bayplan, tmp_path: Path) -> None:
    result = bayplan("explain", "-f", write(tmp_path, node("n1")))
    assert (result.exit_code, result.stdout) == (0, "There is no pending Pod.\n")


@pytest.mark.parametrize("mode", ["explain", "simulate"])
def test_a_file_comes_from_the_standard_input_too(bayplan: Bayplan, mode: str) -> None:
    result = bayplan(mode, "-f", "-", "-o", "json", input=RAW.read_text())
    assert json.loads(result.stdout) == json.loads((CLUSTERS / f"raw.{mode}.json").read_text())


@pytest.mark.parametrize("mode", ["explain", "simulate"])
@pytest.mark.parametrize(
    ("content", "error"),
    [
        pytest.param(None, "No such file or directory", id="no-file"),
        pytest.param(b"\xff\xfe", "is no UTF-8 text", id="no-text"),
        pytest.param(b"", "there is neither a Node nor a Pod in it", id="empty"),
        pytest.param(
            b"a: [",
            "document 1 (line 1): line 1: expected the node content",
            id="broken-and-nothing-else",
        ),
        pytest.param(
            b"kind: Ingress",
            "kind Ingress is not read, 1 left out",
            id="unknown-kind-and-nothing-else",
        ),
    ],
)
def test_a_file_with_nothing_to_judge_ends_with_code_2(
    bayplan: Bayplan, tmp_path: Path, mode: str, content: bytes | None, error: str
) -> None:
    path = tmp_path / "c.yaml"
    if content is not None:
        path.write_bytes(content)
    result = bayplan(mode, "-f", path)
    assert result.exit_code == 2
    assert f"{path}: " in result.stderr
    assert error in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("mode", ["explain", "simulate"])
def test_what_is_left_out_is_said_on_stderr(bayplan: Bayplan, tmp_path: Path, mode: str) -> None:
    path = write(tmp_path, node("n1"), pod("p"), pod("p"), pod("q", priority="high"))
    result = bayplan(mode, "-f", path, "-o", "json")
    assert result.exit_code == 1
    assert [told["pod"] for told in json.loads(result.stdout)] == ["default/p"]
    where = f"{path}: document 1 (line 1), items"
    assert result.stderr.splitlines() == [
        f"{where}[3]: Pod q: spec.priority: Expected `int`, got `str`; left out",
        f"{where}[2]: second Pod default/p; left out",
    ]


@pytest.mark.parametrize("mode", ["explain", "simulate"])
def test_a_misspelt_field_is_named_with_the_one_that_is_meant(
    bayplan: Bayplan, tmp_path: Path, mode: str
) -> None:
    path = write(tmp_path, node("n1"), pod("p", nodeSelecter={"a": "b"}))
    result = bayplan(mode, "-f", path)
    assert result.exit_code == 0
    assert result.stderr == (
        f"{path}: document 1 (line 1), items[1]: Pod p: spec.nodeSelecter: unknown field, "
        'is "nodeSelector" meant?\n'
    )


def test_a_file_whose_only_pod_is_refused_does_not_end_well(
    bayplan: Bayplan, tmp_path: Path
) -> None:
    wrong = [{"name": "c", "resources": {"requests": {"cpu": "-1"}}}]
    result = bayplan("explain", "-f", write(tmp_path, node("n1"), pod("p", containers=wrong)))
    assert result.exit_code == 1
    assert "Pod p: spec.containers[0].resources.requests.cpu: '-1' is negative" in result.stderr


def test_several_files_and_folders_are_one_cluster(bayplan: Bayplan, tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes", tmp_path / "pods"
    for folder in (nodes, pods):
        folder.mkdir()
    write(nodes, node("n1"))
    path = write(pods, pod("p"))
    result = bayplan("simulate", "-f", nodes, "-f", path, "-o", "json")
    assert [(told["pod"], told["node"]) for told in json.loads(result.stdout)] == [
        ("default/p", "n1")
    ]


def test_the_namespace_of_what_names_none_can_be_given(bayplan: Bayplan, tmp_path: Path) -> None:
    path = write(tmp_path, node("n1"), pod("p"))
    result = bayplan("explain", "-f", path, "-n", "team", "--pod", "p")
    assert result.stdout.startswith("team/p goes to n1")


def test_the_replicas_of_a_manifest_are_placed(bayplan: Bayplan, tmp_path: Path) -> None:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
    }
    result = bayplan("simulate", "-f", write(tmp_path, node("n1"), deployment), "-o", "json")
    placed = [told["node"] for told in json.loads(result.stdout)]
    assert placed == ["n1"] * 4 + [None] * 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nobody", ""),
        ("ended", ": it has ended (Succeeded)"),
    ],
)
def test_a_pod_that_cannot_be_judged_is_named_with_the_reason(
    bayplan: Bayplan, name: str, why: str
) -> None:
    result = bayplan("explain", "-f", RAW, "--pod", name)
    assert result.exit_code == 2
    first = result.stderr.splitlines()[0]
    assert first == f"{RAW}: there is no Pod default/{name} to judge{why}"


def test_a_running_pod_is_judged_as_if_it_were_pending(bayplan: Bayplan, tmp_path: Path) -> None:
    full = [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]
    running = pod("p", nodeName="n1", containers=full)
    path = write(tmp_path, node("n1"), node("n2"), running, pod("q", nodeName="n2"))
    verdict = json.loads(bayplan("explain", "-f", path, "--pod", "p", "-o", "json").stdout)[0]
    assert (verdict["runsOn"], verdict["best"]) == ("n1", ["n1"])
    text = bayplan("explain", "-f", path, "--pod", "p").stdout
    assert text.startswith("default/p (runs on n1; judged as if it were pending) goes to n1")


PROFILES, CONFIG = CLUSTERS / "profiles.yaml", CLUSTERS / "profiles.config.yaml"


def test_a_pod_of_no_profile_is_named(bayplan: Bayplan) -> None:
    result = bayplan("explain", "-f", PROFILES, "--config", CONFIG, "-o", "json")
    assert (
        result.stderr
        == f"{PROFILES}: Pod default/stranger is not judged: there is no profile nobody\n"
    )
    result = bayplan("explain", "-f", PROFILES, "--config", CONFIG, "--pod", "stranger")
    assert result.exit_code == 2
    assert "to judge: no profile is called nobody\n" in result.stderr


def test_of_one_pod_nothing_is_said_about_others(bayplan: Bayplan) -> None:
    result = bayplan("explain", "-f", PROFILES, "--config", CONFIG, "--pod", "packed")
    assert (result.stderr, result.exit_code) == ("", 0)


def test_without_a_configuration_every_pod_is_judged_whatever_scheduler_it_asks_for(
    bayplan: Bayplan,
) -> None:
    told = json.loads(bayplan("explain", "-f", PROFILES, "-o", "json").stdout)
    assert [verdict["pod"] for verdict in told] == [
        "default/packed",
        "default/spread",
        "default/unscored",
        "default/stranger",
    ]


def test_a_wrong_configuration_ends_with_code_2(bayplan: Bayplan, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("kind: KubeSchedulerConfiguration\n")
    result = bayplan("explain", "-f", RAW, "--config", config)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{config}: ")


def config_with(folder: Path, **fields: list[dict[str, Any]]) -> Path:
    path = folder / "config.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(yaml.safe_dump({**head, **fields}))
    return path


def test_extenders_are_not_asked(bayplan: Bayplan, tmp_path: Path) -> None:
    extender = {"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}
    config = config_with(tmp_path, extenders=[extender])
    result = bayplan("explain", "-f", PROFILES, "--config", config, "-o", "json")
    assert result.exit_code == 1  # there are Pods of no profile
    assert f"{PROFILES}: the extenders of the configuration are not asked" in result.stderr


def test_as_data_equal_outcomes_of_one_owner_stand_once(bayplan: Bayplan, tmp_path: Path) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "u", "controller": True}
    requests = {"resources": {"requests": {"cpu": "100"}}}

    def pod(name: str, of: str) -> dict[str, Any]:
        meta = {"name": name, "ownerReferences": [{**owner, "name": of}]}
        spec = {"containers": [{"name": "c", "image": "i", **requests}]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}

    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }
        for i in range(50)
    ]
    pods = [pod(f"web-{i}", "web") for i in range(20)] + [pod("other", "other")]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    first, *rest = json.loads(bayplan("explain", "-f", path, "-o", "json").stdout)
    assert (first["pod"], len(first["nodes"])) == ("default/web-0", 50)
    assert rest[:-1] == [{"pod": f"default/web-{i}", "as": "default/web-0"} for i in range(1, 20)]
    assert (rest[-1]["pod"], len(rest[-1]["nodes"])) == ("default/other", 50)


PLUGIN = """
from bayplan.framework import Plugin, Status


class Picky(Plugin):
    def pre_filter(self, state, pod, nodes):
        if pod.name == "breaks-early":
            raise RuntimeError("too early")

    def filter(self, state, pod, node):
        if pod.name == "breaks":
            raise RuntimeError("on a node")
        if node.name == "n1":
            return Status.unschedulable("n1 is not liked")

    def reserve(self, state, pod, node_name):
        if pod.name == "refused":
            return Status.unschedulable("not today")
        if pod.name == "breaks-late":
            raise RuntimeError("too late")
"""


def told_by_program(*args: Path | str) -> tuple[list[dict[str, Any]], str]:
    """What the program prints over plugins that raise, run by itself: results, and stderr.

    A logger keeps the stderr that it logs to first.
    """
    command = [sys.executable, "-m", "bayplan", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def picky(tmp_path: Path) -> list[Path | str]:
    """Arguments with a plugin of a user that rejects n1 and breaks over some Pods."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "picky.py").write_text(PLUGIN)
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": {"enabled": [{"name": "Picky"}]}},
    }
    config = config_with(tmp_path, profiles=[profile])
    return ["--config", config, "--plugin-dir", folder, "-o", "json"]


def test_plugins_of_users_take_part_and_their_faults_are_told(
    tmp_path: Path, picky: list[Path | str]
) -> None:
    names = ("fine", "breaks", "breaks-early")
    path = write(tmp_path, node("n1"), node("n2"), *(pod(name) for name in names))
    (fine, breaks, early), stderr = told_by_program("explain", "-f", path, *picky)
    rejected = {"code": "Unschedulable", "plugin": "Picky", "reasons": ["n1 is not liked"]}
    assert fine["nodes"] == {"n1": rejected, "n2": {"code": "Success"}}
    assert fine["best"] == ["n2"]
    assert "on a node" in breaks["message"]
    assert "best" not in breaks
    assert "too early" in early["message"]
    assert early["preFilter"]["code"] == "Error"
    assert "fault" not in fine
    assert breaks["fault"] == {"plugin": "Picky", "node": "n1", "point": "Filter"}
    assert early["fault"] == {"plugin": "Picky", "point": "PreFilter"}
    assert stderr.count("Traceback") == 2, "one for each point at which the plugin raised"


def test_a_pod_that_reserve_turns_down_takes_no_room(
    tmp_path: Path, picky: list[Path | str]
) -> None:
    large = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
    names = ("refused", "breaks-late", "fine")
    path = write(tmp_path, node("n1"), node("n2"), *(pod(n, containers=large) for n in names))
    (refused, late, fine), stderr = told_by_program("simulate", "-f", path, *picky)
    assert refused == {
        "pod": "default/refused",
        "node": None,
        "best": ["n2"],
        "message": "0/1 nodes are available: 1 not today.",
    }
    assert late["node"] is None
    assert "too late" in late["message"]
    assert late["fault"] == {"plugin": "Picky", "point": "Reserve"}
    assert stderr.count("Traceback") == 1
    assert fine["node"] == "n2"


def rows_of(text: str) -> dict[str, list[str]]:
    """The words of each line, by the first of them."""
    return {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}


def test_simulate_as_text_sums_up(bayplan: Bayplan) -> None:
    text = bayplan("simulate", "-f", RAW).stdout
    assert "2 placed, 4 not" in text
    rows = rows_of(text)
    assert rows["default/limits-only"] == ["default/limits-only", "n3"]
    assert rows["default/gated"][1:6] == ["-", "held", "back", "by", "SchedulingGates:"]
    assert rows["cpu"] == ["cpu", "10", "0.5", "5%", "3.6", "36%"]
    assert rows["pods"] == ["pods", "330", "1", "0%", "3", "1%"]


def test_a_plugin_that_cannot_be_made_ends_with_code_2(bayplan: Bayplan, tmp_path: Path) -> None:
    path = tmp_path / "plugin.py"
    broken = "def __init__(self, args, handle):\n        raise ValueError('no')\n\n"
    path.write_text(PLUGIN.replace("def pre_filter", f"{broken}    def pre_filter"))
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Picky"}]}}}
    config = config_with(tmp_path, profiles=[profile])
    result = bayplan("explain", "-f", RAW, "--config", config, "--plugin-dir", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f'{config}: profiles[0].pluginConfig: plugin "Picky": ValueError: no\n'


def test_resources_that_no_node_has_any_of_have_no_share(bayplan: Bayplan, tmp_path: Path) -> None:
    nothing = {"cpu": "0", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"}
    path = write(tmp_path, node("n1", allocatable=nothing), pod("p"))
    rows = rows_of(bayplan("simulate", "-f", path).stdout)
    assert rows["cpu"] == ["cpu", "0", "0", "-", "0", "-"]
    assert rows["memory"][1] == "8.0Gi"
    assert rows["example.com/gpu"][1] == "2"


def test_text_says_what_stands_against_the_devices_that_a_claim_asks_for(bayplan: Bayplan) -> None:
    result = bayplan("explain", "-f", EXAMPLES / "devices.yaml")
    told = " ".join(result.stdout.split())
    assert "default/inference goes to one of gpu-a, gpu-b" in told
    assert (
        "claim default/training-gpus, request gpus (2 of class gpu.example.com), 2 nodes: "
        '2 not selected by the request (device.capacity["gpu.example.com"].memory'
        '.compareTo(quantity("40Gi")) >= 0), 1 tainted, 1 free'
    ) in told
    assert result.stderr == ""


def test_data_leaves_out_what_only_people_read(bayplan: Bayplan) -> None:
    result = bayplan("explain", "-f", EXAMPLES / "devices.yaml", "-o", "json")
    assert not any("details" in verdict for verdict in json.loads(result.stdout))


GANG = EXAMPLES / "groups" / "gang.yaml"
DEPLOYED = Path(__file__).parents[2] / "deploy" / "base" / "config.yaml"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A cluster file with two nodes."""
    return write(tmp_path, node("n1"), node("n2"))


def test_the_plan_of_a_group_is_printed(bayplan: Bayplan, room: Path) -> None:
    result = bayplan("explain", "group", "gang", "-f", GANG, "-f", room, "--config", DEPLOYED)
    assert result.exit_code == 0
    assert "default/gang 4 Pods wait, of which 4 are needed" in result.stdout
    arguments = ("-f", GANG, "-f", room, "--config", DEPLOYED, "-o", "json")
    verdict = json.loads(bayplan("explain", "group", "default/gang", *arguments).stdout)
    assert len(verdict["plan"]) == 4
    placed = json.loads(bayplan("simulate", *arguments).stdout)
    assert {result["pod"]: result["node"] for result in placed} == verdict["plan"]


def test_a_pod_of_a_group_is_explained_alone_and_with_its_group(
    bayplan: Bayplan, room: Path
) -> None:
    arguments = ("-f", GANG, "-f", room, "--config", DEPLOYED)
    first = json.loads(bayplan("explain", *arguments, "-o", "json").stdout)[0]
    text = bayplan("explain", *arguments, "--pod", first["pod"]).stdout
    assert f"waits with the group default/gang: it goes to {first['group']['node']}" in text
    assert "Alone it goes to one of" in text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(["nobody"], "there is no Pod of a group default/nobody", id="unknown"),
        pytest.param([], "explain group needs the name of a group", id="no-name"),
    ],
)
def test_a_group_that_cannot_be_explained_is_refused(
    bayplan: Bayplan, room: Path, name: list[str], text: str
) -> None:
    result = bayplan("explain", "group", *name, "-f", room, "--config", DEPLOYED)
    assert result.exit_code == 2
    assert text in result.stderr


def test_text_in_brackets_is_shown_as_it_is(bayplan: Bayplan, tmp_path: Path) -> None:
    gate = {"schedulingGates": [{"name": "example.com/[/x]:boom:"}]}
    pod = {"kind": "Pod", "metadata": {"name": "gated"}, "spec": gate}
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(pod))
    for mode in ("explain", "simulate"):
        result = bayplan(mode, "-f", path)
        assert result.exit_code == 0, result.output
        assert "waiting for scheduling gates: [example.com/[/x]:boom:]" in result.stdout


def test_of_files_it_is_said_why_no_node_is_added(bayplan: Bayplan, tmp_path: Path) -> None:
    large = [{"name": "c", "resources": {"requests": {"cpu": "40"}}}]
    gate = [{"name": "example.com/later"}]
    pods = [pod("fits"), pod("large", containers=large), pod("gated", schedulingGates=gate)]
    run = bayplan("explain", "-f", write(tmp_path, node("n1"), *pods), "--autoscaler")
    fits, too_large, gated = run.stdout.splitlines()
    assert fits == "default/fits: it fits on a node that is there"
    assert "it needs 40 cpu, the largest has 4" in too_large
    assert "it does not say Unschedulable" in gated
