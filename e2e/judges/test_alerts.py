"""Alerts and dashboard of deploy/, judged by promtool: what is a rule, and when each one fires."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.cluster import DEPLOY, Json
from e2e.provider.programs import PROMTOOL

pytestmark = pytest.mark.e2e

RULES = DEPLOY / "components" / "monitoring" / "prometheus-rule.yaml"
CASES = PROMTOOL.module / "alerts.yaml"


def spec() -> Json:
    """What the Prometheus operator gives to Prometheus."""
    found: Json = yaml.safe_load(RULES.read_text())["spec"]
    return found


def rules(groups: Json | None = None) -> list[Json]:
    return [rule for group in (groups or spec())["groups"] for rule in group["rules"]]


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [PROMTOOL.binary(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_cases(groups: Json, folder: Path) -> subprocess.CompletedProcess[str]:
    """Try the rules on the cases, which name them ``rules.yaml``."""
    (folder / "rules.yaml").write_text(yaml.safe_dump(groups))
    (folder / "alerts.yaml").write_text(CASES.read_text())
    return promtool("test", "rules", folder / "alerts.yaml")


def test_they_are_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(spec()))
    run = promtool("check", "rules", "--lint=all", "--lint-fatal", path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(rules())} rules found" in run.stdout


def test_each_fires_when_it_is_to_and_only_then(tmp_path: Path) -> None:
    run = run_cases(spec(), tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("broken", ["", "sum by ("])
def test_prometheus_understands_the_expressions_of_the_dashboard(
    tmp_path: Path, broken: str
) -> None:
    panels = json.loads((DEPLOY / "grafana" / "bayplan.json").read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    expressions = [one.replace("$__rate_interval", "5m") for one in asked]  # as Grafana does
    expressions += [broken] if broken else []
    recorded = [{"record": f"panel:{n}", "expr": one} for n, one in enumerate(expressions)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    run = promtool("check", "rules", path)
    assert (run.returncode != 0) == bool(broken), run.stdout + run.stderr


CHANGES = {
    "never fires": ({"expr": "vector(0) > 0", "for": "0s"}, "got:[]"),
    "always fires": ({"expr": "vector(1)", "for": "0s"}, "exp:[]"),
    "does not wait": ({"for": "0s"}, "exp:[]"),
}
"""What may be wrong with an alert, and how promtool tells that from what is expected."""


@pytest.mark.parametrize(
    ("alert", "change"),
    [
        pytest.param(rule["alert"], change, id=f"{rule['alert']} {change}")
        for rule in rules()
        for change in CHANGES
        if change != "does not wait" or "for" in rule
    ],
)
def test_the_cases_tell_an_alert_that(tmp_path: Path, alert: str, change: str) -> None:
    fields, difference = CHANGES[change]
    changed = spec()
    [rule] = [one for one in rules(changed) if one["alert"] == alert]
    rule.update(fields)
    run = run_cases(changed, tmp_path)
    assert run.returncode != 0
    differences = (run.stdout + run.stderr).split(" name: ")
    assert any(f"alertname: {alert}," in one and difference in one for one in differences)
