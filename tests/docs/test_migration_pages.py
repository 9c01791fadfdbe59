"""The pages for those who come from elsewhere: their Queues are the examples, and can be made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from bayplan.api.kinds import QUEUE
from bayplan.api.queues import QueueSpec
from bayplan.cache.queue_tree import Structure
from bayplan.testing import Json, make_object

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "migration"
PAGES = sorted(ROOT.glob("docs/migrate-from-*.md"))
FIELDS = {re.sub(r"_(\w)", lambda m: m[1].upper(), name) for name in QueueSpec.__struct_fields__}
OURS = "bayplan.dev/v1alpha1"


def example(page: Path) -> Path:
    """The file of the page's worked example."""
    return EXAMPLES / f"{page.stem.removeprefix('migrate-from-')}.yaml"


def queues(page: Path) -> list[Json]:
    """The Queues of the example."""
    return list(yaml.safe_load_all(example(page).read_text(encoding="utf-8")))


def test_there_are_four() -> None:
    assert len(PAGES) == 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_queues_of_a_page_are_those_of_its_example(page: Path) -> None:
    blocks = re.findall(
        r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert [list(yaml.safe_load_all(block)) for block in blocks if OURS in block] == [queues(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_nothing_is_wrong_with_the_queues_of_an_example(page: Path) -> None:
    objects = [
        make_object(QUEUE, q["metadata"]["name"]).spec(**q.get("spec", {})) for q in queues(page)
    ]
    assert Structure(builder.obj() for builder in objects).faults == []
    assert {field for queue in queues(page) for field in queue.get("spec", {})} <= FIELDS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_field_that_a_page_sends_to_is_there(page: Path) -> None:
    _, _, rest = page.read_text(encoding="utf-8").partition("## Field by field")
    table, *_ = rest.split("\n\n", 2)[1:]
    rows = [row.split(" | ") for row in table.splitlines()[2:]]
    named = {name.partition(":")[0] for row in rows for name in re.findall(r"`([^`]+)`", row[1])}
    assert len(named) >= 5
    assert named <= FIELDS
