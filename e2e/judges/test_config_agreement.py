"""kube-scheduler accepts and refuses the configurations that bayplan does, and reads them alike.

The files are those of `tests/config/cases.yaml`; the word of the real one comes from `configcheck`,
which loads, validates and builds with kube-scheduler's own code.
"""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.config.cases import ACCEPTED, CASES, Case

from bayplan.config import (
    IN_TREE,
    ConfigError,
    EffectiveConfig,
    default_configuration,
    parse_config,
    parse_feature_gates,
    render_config,
    resolve_config,
)
from bayplan.config.feature_gate_table import GATES, NEEDS
from bayplan.config.feature_gates import FIXED
from e2e.provider.programs import CONFIGCHECK

if TYPE_CHECKING:
    from pathlib import Path

    from bayplan.config import ResolvedProfile

pytestmark = pytest.mark.e2e

Verdicts = dict[str, Any]


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """Return kube-scheduler's verdict on every case, and on what bayplan shows of the good ones."""
    texts = {case.name: case.text for case in CASES}
    texts |= {f"shown: {case.name}": _shown(case.text) for case in ACCEPTED}
    texts["shown defaults"] = render_config(resolve_config(default_configuration(), IN_TREE))
    return _ask(texts, tmp_path_factory.mktemp("configs"))


def _shown(text: str) -> str:
    try:
        return render_config(parse_config(text, IN_TREE))
    except ConfigError:
        return ""


def _ask(texts: dict[str, str], folder: Path) -> Verdicts:
    files = [folder / f"{i}.yaml" for i in range(len(texts))]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_bytes(text.encode())
    return dict(zip(texts, _configcheck(*map(str, files)), strict=True))


def _configcheck(*arguments: str) -> list[Any]:
    command = [str(CONFIGCHECK.binary()), *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in answer.splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_accept_or_both_refuse(case: Case, verdicts: Verdicts) -> None:
    refused: tuple[object, ...] = ()
    try:
        parse_config(case.text, IN_TREE)
    except ConfigError as error:
        refused = error.errors
    verdict = verdicts[case.name]
    assert bool(refused) == bool(verdict.get("errors")), (refused, verdict.get("errors"))


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_both_read_the_same(case: Case, verdicts: Verdicts) -> None:
    assert _ours(parse_config(case.text, IN_TREE)) == _theirs(verdicts[case.name])


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_what_bayplan_shows_is_a_file_for_kube_scheduler(case: Case, verdicts: Verdicts) -> None:
    verdict = verdicts[f"shown: {case.name}"]
    assert verdict.get("errors") is None
    assert _theirs(verdict) == _theirs(verdicts[case.name])


def test_the_defaults_that_bayplan_shows_are_a_file_for_kube_scheduler(verdicts: Verdicts) -> None:
    shown = _theirs(verdicts["shown defaults"])
    assert shown == _ours(resolve_config(default_configuration(), IN_TREE))


def _ours(effective: EffectiveConfig) -> Any:
    settings = effective.settings.model_dump(mode="json", by_alias=True, exclude={"profiles"})
    return _plain({"profiles": [_profile(p) for p in effective.profiles], "config": settings})


def _profile(profile: ResolvedProfile) -> Any:
    return {
        "schedulerName": profile.scheduler_name,
        "plugins": {
            point: [{"name": p.name, "weight": p.weight} for p in plugins]
            for point, plugins in profile.plugins.items()
        },
        "args": {
            name: args.model_dump(mode="json", by_alias=True)
            for name, args in profile.plugin_args.items()
        },
    }


def _theirs(verdict: Any) -> Any:
    settings = {k: v for k, v in verdict["config"].items() if k != "apiVersion"}
    profiles = verdict["profiles"]
    for profile in profiles:
        # Arguments of plugins that take none come through undecoded.
        profile["args"] = {k: v for k, v in profile["args"].items() if IN_TREE[k].args_model}
    return _plain({"profiles": profiles, "config": settings})


def _plain(value: Any) -> Any:
    """Return `value` without what is empty, keys in lower case: Go's types spell them anew."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key.lower(): _plain(item) for key, item in value.items()}
    return {key: item for key, item in plain.items() if item or item == 0}


def test_the_feature_gates_are_those_of_kube_scheduler() -> None:
    theirs = _configcheck("gates")[0]
    assert {g["name"]: (g["stage"], g["default"], g["locked"]) for g in theirs} == {
        gate.name: (gate.stage.value, gate.default, gate.locked) for gate in GATES.values()
    }
    always_on = {gate.name for gate in GATES.values() if gate.locked and gate.default}
    needs = {gate["name"]: set(gate.get("needs", ())) - always_on for gate in theirs}
    ours = {name: set(needed) for name, needed in NEEDS.items()}
    assert {name: needed for name, needed in needs.items() if needed} == ours


def _gates_on(flag: str) -> set[str] | None:
    """None where the value cannot be used."""
    try:
        gates = parse_feature_gates([flag])
    except ConfigError:
        return None
    return {name for name in GATES if gates.on(name)}


@pytest.mark.parametrize(
    "flag",
    [
        "",
        "StorageCapacityScoring=false",
        "VolumeLimitScaling=F, CSIVolumeHealth=1",
        "AllAlpha=false",
        "AllAlpha=false,AllBeta=true,CoordinatedLeaderElection=false,GenericWorkload=false,"
        "DRAFractionalCapacityRange=false,DRAWorkloadResourceClaims=false",
        "AllAlpha=true," + ",".join(f"{n}={str(GATES[n].default).lower()}" for n in sorted(FIXED)),
        "AllAlpha=true,WorkloadWithJob=false,"
        + ",".join(f"{n}={str(GATES[n].default).lower()}" for n in sorted(FIXED)),
        "Nonsense=true",
        "SchedulerQueueingHints=true",
        "GangScheduling=true",
        "StorageCapacityScoring",
        "StorageCapacityScoring=maybe",
        "DynamicResourceAllocation=false",
        "DynamicResourceAllocation=true",
        "PodGroupPreemptionPolicy=true,GenericWorkload=false",
        "AllAlpha=maybe",
    ],
)
def test_the_flag_means_what_it_means_to_kube_scheduler(flag: str) -> None:
    theirs = _configcheck("set", flag)[0]
    assert _gates_on(flag) == (None if theirs.get("errors") else set(theirs["config"]))
