from __future__ import annotations

import pytest

from bayplan.plugins.shared.resource_names import is_extended, is_scalar


@pytest.mark.parametrize(
    ("name", "extended", "scalar"),
    [
        ("nvidia.com/gpu", True, True),
        ("example/foo", True, True),
        ("cpu", False, False),
        ("pods", False, False),
        ("foo", False, False),
        ("hugepages-2Mi", False, True),
        ("attachable-volumes-aws-ebs", False, True),
        ("kubernetes.io/something", False, True),
        ("sub.kubernetes.io/something", False, True),
        ("requests.nvidia.com/gpu", False, False),
        ("Bad_Prefix/foo", False, False),
        ("nvidia.com/-gpu", False, False),
        ("nvidia.com/a/b", False, False),
        ("nvidia.com/" + "a" * 64, False, False),
        ("a" * 245 + "/foo", False, False),
        ("/foo", False, False),
    ],
)
def test_resources_are_extended_or_scalar_by_name(name: str, extended: bool, scalar: bool) -> None:
    assert (is_extended(name), is_scalar(name)) == (extended, scalar)
