"""What extenders answer, in any case of letters, as Go reads it."""

from __future__ import annotations

import msgspec
import pytest

from bayplan.extenders import wire


@pytest.mark.parametrize(
    ("body", "names"),
    [
        pytest.param(b'{"NodeNames": ["a"]}', ["a"], id="Go's names"),
        pytest.param(b'{"nodenames": ["a"]}', ["a"], id="lower case"),
        pytest.param(b'{"nodeNames": ["a"], "Other": 1}', ["a"], id="more fields"),
        pytest.param(b'{"NodeNames": null}', None, id="null"),
        pytest.param(b"{}", None, id="nothing"),
    ],
)
def test_field_names_come_in_any_case(body: bytes, names: list[str] | None) -> None:
    assert wire.decode(body, wire.FilterResult).node_names == names


def test_nested_field_names_come_in_any_case() -> None:
    body = b'{"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}}'
    result = wire.decode(body, wire.PreemptionResult)
    assert result.victims is not None
    victims = result.victims["n"]
    assert victims.pods is not None
    assert ([pod.uid for pod in victims.pods], victims.pdb_violations) == (["u"], 2)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"NodeNames": 1}'])
def test_another_form_is_an_error(body: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        wire.decode(body, wire.FilterResult)
