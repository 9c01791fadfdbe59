"""Every file of the table is answered with exactly its errors or warnings."""

import pytest
from tests.config.cases import ACCEPTED, CASES, Case

from bayplan.config import IN_TREE, ConfigError, parse_config, render_config


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_file_is_answered_with_its_errors_or_warnings(case: Case) -> None:
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    try:
        effective = parse_config(case.text, IN_TREE)
        # Most cases name no Lease; the warning about that has a test of its own.
        warnings = tuple(str(w) for w in effective.warnings if w.path[:14] != "leaderElection")
    except ConfigError as error:
        errors = tuple(error.lines())
    assert (errors, warnings) == (case.errors, case.warnings)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_what_show_prints_loads_to_the_same(case: Case) -> None:
    effective = parse_config(case.text, IN_TREE)
    again = parse_config(render_config(effective), IN_TREE)
    assert again.settings.model_dump(exclude={"profiles"}) == effective.settings.model_dump(
        exclude={"profiles"}
    )
    for shown, meant in zip(again.profiles, effective.profiles, strict=True):
        assert shown.scheduler_name == meant.scheduler_name
        assert shown.percentage_of_nodes_to_score == meant.percentage_of_nodes_to_score
        assert shown.plugins == meant.plugins
        assert shown.plugin_args == meant.plugin_args


def test_names_of_cases_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
