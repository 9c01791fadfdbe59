"""Alerts and dashboard name metrics and labels that exist; the runbook has each alert."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.polled import POLLED

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "components" / "monitoring" / "prometheus-rule.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "bayplan.json"
RUNBOOK = ROOT / "docs" / "runbook.md"

ADDED_BY_PROMETHEUS = {"job", "pod", "instance", "namespace"}
FUNCTIONS = {"absent", "histogram_quantile", "label_values", "rate"}
AGGREGATIONS = {"max", "min", "sum"}
KEYWORDS = FUNCTIONS | AGGREGATIONS | {"and", "by", "or"}
DURATION = r"\[(?:\d+[smh]|\$__rate_interval)\]"
SELECTOR = re.compile(rf"([a-z_]+)\{{([^}}]*)\}}(?:{DURATION})?")
MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!=|!~|=)\s*"[^"]*"')


class Use(NamedTuple):
    """A metric in an expression, and the labels that its selector and the grouping name."""

    metric: str
    labels: frozenset[str]


def families() -> dict[str, set[str]]:
    """Names of samples, as /metrics has them, with the names of their labels."""
    served = re.findall(r"^# TYPE (\w+)", Metrics().render().decode(), re.MULTILINE)
    found: dict[str, set[str]] = {name: set() for name in served}
    collectors: dict[Any, Any] = Metrics().registry._collector_to_names
    for collector, names in collectors.items():
        own = getattr(collector, "_labelnames", getattr(collector, "_names", ()))
        found |= {name: set(own) for name in names}
        found |= {
            f"{name}_{part}": {*own, "le"} for name in names for part in ("bucket", "sum", "count")
        }
    return found | {family.name: set(family.labels) for family in POLLED}


def uses(expression: str) -> Iterator[Use]:
    """What an expression reads.

    Raises:
        AssertionError: something in it is no PromQL that these files use.
    """
    assert expression.count("(") == expression.count(")")
    grouping = re.findall(r"\bby \(([a-z_, ]+)\)", expression)
    grouped = {name.strip() for names in grouping for name in names.split(",")}
    for metric, matchers in SELECTOR.findall(expression):
        parts = [part.strip() for part in matchers.split(",")]
        assert all(MATCHER.fullmatch(part) for part in parts), matchers
        yield Use(metric, frozenset(MATCHER.findall(matchers)) | grouped)
    rest = re.sub(r"\bby \([a-z_, ]+\)", "", SELECTOR.sub("", expression))
    words = set(re.findall(r"[a-z_]+", rest))
    assert words <= KEYWORDS, words - KEYWORDS


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in rules()),
    *(
        pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    served = families()
    found = list(uses(expression))
    assert found
    for use in found:
        assert use.metric in served
        assert use.labels - ADDED_BY_PROMETHEUS <= served[use.metric]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_counter_is_read_as_a_rate_and_a_gauge_is_not(expression: str) -> None:
    grows = re.findall(r"rate\(([a-z_]+)\{", expression)
    for use in uses(expression):
        counter = use.metric.endswith(("_total", "_bucket", "_sum", "_count"))
        assert (use.metric in grows) is counter


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means_and_where_help_is(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
    named = set(re.findall(r"\$labels\.([a-z_]+)", rule["annotations"]["summary"]))
    grouped = {label for use in uses(rule["expr"]) for label in use.labels}
    assert named <= grouped


def test_the_runbook_has_each_alert_in_its_order() -> None:
    headings = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules()]


def test_the_legend_of_a_panel_names_labels_of_its_expression() -> None:
    for panel in panels():
        for target in panel["targets"]:
            grouped = {label for use in uses(target["expr"]) for label in use.labels}
            named = set(re.findall(r"\{\{([a-z_]+)\}\}", target["legendFormat"]))
            assert named <= grouped, panel["title"]


def test_panels_do_not_overlap() -> None:
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels()]
    assert len(set(places)) == len(places)
    assert len({p["id"] for p in panels()}) == len(places)
