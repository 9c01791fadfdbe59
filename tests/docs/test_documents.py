"""What the documents say about files, commands and metrics is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from tests.docs.kinds_table import kinds_table
from tests.docs.plugin_methods import plugin_methods
from tests.docs.queue_diagram import queue_diagram
from typer.testing import CliRunner

from bayplan.api.kinds import KINDS, KUBERNETES_POD_GROUP, POD_GROUP
from bayplan.cli.app import app
from bayplan.config import parse_config
from bayplan.engine.registry import Registry
from bayplan.telemetry.metrics import Metrics
from bayplan.telemetry.polled import POLLED

ROOT = Path(__file__).parents[2]
POD_GROUPS = (POD_GROUP, KUBERNETES_POD_GROUP)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def document_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", DOCUMENTS, ids=document_id)
def test_every_link_within_the_repository_leads_somewhere(path: Path) -> None:
    targets = [link for link in LINK.findall(path.read_text()) if "://" not in link]
    broken = [link for link in targets if not leads_somewhere(path, link)]
    assert broken == []


def test_every_document_that_the_source_names_is_there() -> None:
    text = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    names = set(re.findall(r"docs/[\w/-]+\.md", text))
    assert len(names) > 20
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def leads_somewhere(path: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = path.parent / name if name else path
    if not target.exists():
        return False
    return not anchor or anchor in anchors(target)


def anchors(path: Path) -> set[str]:
    """As Git forges make them of headings."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def test_the_picture_of_the_queue_is_drawn_from_its_table() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert f"begin -->\n{queue_diagram()}\n<!-- queue diagram: end" in text


def test_the_pictures_of_the_paths_name_files_and_folders_that_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    pictures = "".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    paths = re.findall(r"\b[a-z_]+(?:/[a-z_]+)*(?:\.py|/)(?=[,\n])", pictures)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / "src" / "bayplan" / path).exists()] == []


def test_the_table_of_kinds_is_made_from_their_types() -> None:
    text = (ROOT / "docs" / "plugins.md").read_text()
    assert f"begin -->\n{kinds_table()}\n<!-- kinds: end" in text


def test_the_table_of_plugin_methods_is_made_from_the_protocols() -> None:
    text = (ROOT / "docs" / "plugins.md").read_text()
    table = plugin_methods()
    assert f"plugin methods: begin -->\n{table}\n<!-- plugin methods: end" in text, table


def test_the_list_of_metrics_is_what_there_is() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    prefixes = "scheduler|bayplan|dynamic_resource|rest|process|leader|kubernetes"
    listed = set(re.findall(rf"^\| `((?:{prefixes})_\w+)`", text, re.MULTILINE))
    served = re.findall(r"^# TYPE (\w+)", Metrics().render().decode(), re.MULTILINE)
    assert listed == {*served, *(family.name for family in POLLED)}


def test_the_command_that_dumps_a_cluster_names_every_kind() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    dump = page[page.index("kubectl get -A -o yaml nodes") : page.index(">> cluster.yaml")]
    named = {name.partition(".")[0] for name in re.findall(r"[\w.-]+", dump)}
    assert {kind.plural for kind in KINDS.values()} <= named
    assert {f"podgroups.{k.api_version.partition('/')[0]}" for k in POD_GROUPS} <= set(dump.split())


def test_the_readme_says_of_speed_what_the_newest_table_shows() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    _, _, table = page.partition("<!-- throughput -->\n")
    head, _, *rows = table.partition("\n<!-- end -->")[0].splitlines()
    column = [cell.strip() for cell in head.split("|")].index("ratio")
    ratios = sorted(float(row.split("|")[column]) for row in rows)
    said = (
        f"On {len(rows)} workloads bayplan bound {ratios[0]:.1f} to {ratios[-1]:.1f} times as many"
    )
    assert said in (ROOT / "README.md").read_text()
    [version] = re.findall(r"<!-- measured -->\n- kube-scheduler (v[\d.]*\d)", page)
    assert f"Pods a second as kube-scheduler {version}." in (ROOT / "README.md").read_text()


DIFFERS = 1
COMMANDS = {
    "run": ("run",),
    "explain": ("explain",),
    "simulate": ("simulate",),
    "record": ("record",),
    "replay": ("replay",),
    "compare": ("compare",),
    "queues": ("queues",),
    "view": ("view",),
    "shadow": ("shadow",),
    "controllers": ("controllers",),
    "api": ("api",),
    "config check": ("config", "check"),
    "config show": ("config", "show"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_option_of_the_command(command: str) -> None:
    text = (ROOT / "README.md").read_text()
    [row] = re.findall(rf"^\| `bayplan {command}\b.*$", text, re.MULTILINE)
    assert set(re.findall(r"`(--?[a-z-]+)", row)) >= options_of(COMMANDS[command])


def options_of(words: tuple[str, ...]) -> set[str]:
    """The first name of every option, as the help shows them."""
    group = typer.main.get_command(app)
    for word in words:
        group = group.get_command(None, word)  # type: ignore[attr-defined]
    options = (p for p in group.params if p.param_type_name == "option")
    return {max(option.opts, key=len) for option in options} - {"--help", "--v"}


def blocks(language: str) -> list[tuple[str, str]]:
    found = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [
        (f"{document_id(path)}-{index}", block)
        for path in DOCUMENTS
        for index, block in enumerate(found.findall(path.read_text()))
    ]


@pytest.mark.parametrize("text", [pytest.param(t, id=name) for name, t in blocks("yaml")])
def test_every_yaml_block_can_be_read(text: str) -> None:
    assert list(yaml.safe_load_all(text))


CONFIGURATIONS = [
    pytest.param(text, id=name)
    for name, text in blocks("yaml")
    if "kind: KubeSchedulerConfiguration" in text
]


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_every_whole_configuration_is_a_good_one(text: str) -> None:
    registry = Registry()
    registry.load_folder(ROOT / "examples" / "plugins" / "avoid_node")
    parse_config(text, registry.known)


def test_the_command_line_is_there() -> None:
    assert CliRunner().invoke(app, ["--version"]).exit_code == 0


QUOTED = [
    pytest.param(text, id=name) for name, text in blocks("console") if text.startswith("$ bayplan ")
]


@pytest.mark.parametrize("text", QUOTED)
def test_what_the_readme_quotes_is_what_the_command_prints(text: str, tmp_path: Path) -> None:
    command, _, expected = text.partition("\n")
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "my-plugins").mkdir()
    (tmp_path / "my-plugins" / "avoid_node.py").write_text(first_block("python", readme))
    (tmp_path / "my-config.yaml").write_text(
        first_block("yaml", readme, "kind: KubeSchedulerConfiguration")
    )
    for folder in ("deploy", "docs", "examples"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    asked = [sys.executable, "-m", "bayplan", *command.removeprefix("$ bayplan ").split()]
    answer = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == (DIFFERS if " compare " in command else 0)
    assert stripped(answer.stdout) == stripped(expected)


def first_block(language: str, document: str, needle: str = "") -> str:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    return next(block for block in found if needle in block)


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]
