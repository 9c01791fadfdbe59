"""Small clusters through explain and simulate; what is expected is what kube-scheduler answered.

The answers beside each cluster were printed by e2e/oracle: ``oracle explain -f raw.yaml``.
Only why a PreEnqueue plugin holds a Pod back is added to what it prints for simulate, which does
not name victims.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.simulation.answers import explained, simulated

CLUSTERS = Path(__file__).parent / "clusters"
NAMES = sorted(path.name.removesuffix(".explain.json") for path in CLUSTERS.glob("*.explain.json"))


def _answer(name: str, mode: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads((CLUSTERS / f"{name}.{mode}.json").read_text())
    return answer


def _files(name: str) -> tuple[Path, Path | None]:
    config = CLUSTERS / f"{name}.config.yaml"
    return CLUSTERS / f"{name}.yaml", config if config.exists() else None


@pytest.mark.parametrize("name", NAMES)
def test_explain_says_what_kube_scheduler_decides(name: str) -> None:
    assert explained(*_files(name)) == _answer(name, "explain")


@pytest.mark.parametrize("name", NAMES)
def test_simulate_places_pods_as_kube_scheduler_does(name: str) -> None:
    ours = simulated(*_files(name))
    for result in ours:
        result.pop("victims", None)
    assert ours == _answer(name, "simulate")


@pytest.mark.parametrize("name", NAMES)
def test_a_cluster_explained_pod_by_pod_gets_the_same_answers(name: str) -> None:
    for verdict in _answer(name, "explain"):
        assert explained(*_files(name), "--pod", verdict["pod"]) == [verdict]


def test_the_same_cluster_in_json_is_explained_alike(tmp_path: Path) -> None:
    items = list(yaml.safe_load_all((CLUSTERS / "raw.yaml").read_text()))
    path = tmp_path / "raw.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert explained(path) == _answer("raw", "explain")
