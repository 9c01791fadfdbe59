"""The fields of the API, as the checks of files know them."""

import pytest
from tests.simulation import client_fields

from bayplan.simulation.schema import Schema, UnusableError, schema


def test_the_fields_are_those_of_the_client_that_is_installed() -> None:
    assert client_fields.TARGET.read_text() == client_fields.text()


def test_an_object_as_the_api_has_it_passes() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    assert schema().check("Pod", pod) == []


@pytest.mark.parametrize(
    ("data", "unknown"),
    [
        ({"spec": {"containers": [{"Name": "c"}]}}, "spec.containers[0].Name"),
        ({"metadata": {"lables": {}}}, "metadata.lables"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_a_field_that_the_api_does_not_have_is_named_with_its_path(
    data: dict[str, object], unknown: str
) -> None:
    (line,) = schema().check("Pod", data)
    assert line.startswith(f"{unknown}: unknown field")


def test_a_type_may_contain_itself() -> None:
    tree = Schema({"Tree": "Tree"}, {"Tree": {"leaves": "[Tree]", "name": "string"}})
    assert tree.check("Tree", {"leaves": [{"leaves": [{"name": "a"}]}]}) == []
    with pytest.raises(UnusableError, match=r"^leaves\[0\].name: Expected `str`, got `int`$"):
        tree.check("Tree", {"leaves": [{"name": 1}]})


def test_the_key_of_a_map_is_part_of_the_path() -> None:
    with pytest.raises(UnusableError, match=r"^metadata.labels.app: Expected `str`, got `int`$"):
        schema().check("Pod", {"metadata": {"labels": {"app": 1}}})
