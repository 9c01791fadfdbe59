from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.support import read

from bayplan.config import source

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p1}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"{NODE}---\n{POD}", ["Node n1", "Pod p1"], id="documents"),
        pytest.param(f"---\n\n---\n{NODE}---\n# nothing\n---", ["Node n1"], id="blank-documents"),
        pytest.param(f"--- # a node\n{NODE}--- \n{POD}", ["Node n1", "Pod p1"], id="comments"),
        pytest.param(f"\ufeff{NODE}".replace("\n", "\r\n"), ["Node n1"], id="windows"),
        pytest.param(
            '{"kind": "List", "items": [{"kind": "Node", "metadata": {"name": "n1"}}]}',
            ["Node n1"],
            id="json-list",
        ),
        pytest.param(
            "kind: NodeList\nitems:\n- metadata: {name: n1}\n- metadata: {name: n2}\n",
            ["Node n1", "Node n2"],
            id="typed-list",
        ),
        pytest.param(
            "kind: List\nitems:\n"
            "- {kind: List, items: [{kind: PodList, items: [{metadata: {name: p}}]}]}",
            ["Pod p"],
            id="lists-in-lists",
        ),
        pytest.param("kind: List\nitems: null\n", [], id="empty-list"),
    ],
)
def test_a_file_holds_objects_in_documents_and_lists(text: str, expected: list[str]) -> None:
    entries, notes = read(text)
    assert [str(entry) for entry in entries] == expected
    assert notes == []


@pytest.mark.parametrize(
    ("text", "note"),
    [
        pytest.param(
            f"{NODE}---\na: b: c\n---\n{POD}",
            "f: document 2 (line 5): line 5: mapping values are not allowed here; "
            "the document is left out",
            id="broken-yaml",
        ),
        pytest.param(
            f'{NODE}---\n{{"kind": "Pod",\n---\n{POD}',
            "f: document 2 (line 5): line 6: Expecting property name enclosed in double quotes; "
            "the document is left out",
            id="broken-json",
        ),
        pytest.param(
            f"{NODE}---\n- kind: Pod\n---\n{POD}",
            "f: document 2 (line 5): is no object; left out",
            id="not-an-object",
        ),
        pytest.param(
            f"{NODE}---\nmetadata: {{name: x}}\n---\n{POD}",
            "f: document 2 (line 5): kind: is missing; the object is left out",
            id="no-kind",
        ),
        pytest.param(
            f"{NODE}---\nkind: 3\n---\n{POD}",
            "f: document 2 (line 5): kind: is missing; the object is left out",
            id="kind-of-another-type",
        ),
        pytest.param(
            f"{NODE}---\nkind: List\nitems: [5]\n---\n{POD}",
            "f: document 2 (line 5), items[0]: is no object; left out",
            id="item-is-no-object",
        ),
        pytest.param(
            f"{NODE}---\nkind: List\nitems: 5\n---\n{POD}",
            "f: document 2 (line 5): items: is no list; left out",
            id="items-are-no-list",
        ),
        pytest.param(
            f"{NODE}---\napiVersion: policy/v1beta1\nkind: PodDisruptionBudget\n---\n{POD}",
            "f: document 2 (line 5): apiVersion: PodDisruptionBudget of policy/v1beta1 is not "
            "read; left out",
            id="another-version",
        ),
        pytest.param(
            f"{NODE}---\nkind: Ingress\n---\nkind: Ingress\n---\n{POD}",
            "f: kind Ingress is not read, 2 left out (document 2 (line 5); document 3 (line 7))",
            id="unknown-kind",
        ),
        pytest.param(
            f"{NODE}---\na: {'[' * 20000}\n---\n{POD}",
            "f: document 2 (line 5): is nested deeper than 200 levels; the document is left out",
            id="too-deep-brackets",
        ),
        pytest.param(
            f"{NODE}---\n{'- ' * 20000}\n---\n{POD}",
            "f: document 2 (line 5): is nested deeper than 200 levels; the document is left out",
            id="too-deep-blocks",
        ),
        pytest.param(
            NODE + "---\n" + '{"a":' * 20000 + "\n---\n" + POD,
            "f: document 2 (line 5): is nested deeper than 200 levels; the document is left out",
            id="too-deep-json",
        ),
        pytest.param(
            f"{NODE}spec: {{unschedulable: true}}\nspec: {{}}\n---\n{POD}",
            "f: document 1 (line 1): spec: the field is given twice, the last one counts",
            id="given-twice",
        ),
    ],
)
def test_what_cannot_be_read_is_named_and_the_rest_is_read(text: str, note: str) -> None:
    entries, notes = read(text)
    assert [str(entry) for entry in entries] == ["Node n1", "Pod p1"]
    assert notes == [note]


def test_many_objects_of_an_unknown_kind_make_one_short_note() -> None:
    _, notes = read("kind: SecretList\nitems: [" + "{}, " * 7 + "]")
    places = "; ".join(f"document 1 (line 1), items[{i}]" for i in range(5))
    assert notes == [f"f: kind Secret is not read, 7 left out ({places}; ...)"]


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        pytest.param("spec: null", {}, id="null-counts-as-left-out"),
        pytest.param("spec: {a: [1, null]}", {"spec": {"a": [1]}}, id="in-a-list"),
        pytest.param(
            "spec: {nodeSelector: {a: }}", {"spec": {"nodeSelector": {"a": ""}}}, id="label"
        ),
        pytest.param(
            "spec: {nodeSelector: 3}", {"spec": {"nodeSelector": 3}}, id="no-map-of-texts"
        ),
        pytest.param(
            "spec: {a: 010, b: 1e3, c: 1:30}", {"spec": {"a": 8, "b": 1000, "c": "1:30"}}, id="go"
        ),
        pytest.param(
            "spec: {a: 2026-01-01T00:00:00Z}", {"spec": {"a": "2026-01-01T00:00:00Z"}}, id="time"
        ),
    ],
)
def test_values_are_read_as_kubernetes_reads_them(
    field: str, expected: dict[str, dict[str, Any]]
) -> None:
    (entry,), _ = read(f"{POD}{field}\n")
    data = {k: v for k, v in entry.data.items() if k not in ("apiVersion", "kind", "metadata")}
    assert data == expected


class Counted(str):
    """A text that counts the characters among which others are counted."""

    looked_at = 0

    def removeprefix(self, prefix: str, /) -> Counted:
        assert not self.startswith(prefix)
        return self

    def count(self, sub: str, *where: Any) -> int:
        start, end = where
        self.looked_at += end - start
        return super().count(sub, start, end)


@pytest.mark.parametrize("document", [POD, "a: b: c\n", '{"kind": "Pod",\n'])
def test_many_documents_are_read_in_proportion_to_their_length(
    monkeypatch: pytest.MonkeyPatch, document: str
) -> None:
    parsed: list[int] = []
    parse = source.parse

    def counting(text: str, **more: Any) -> source.Document:
        parsed.append(len(text))
        return parse(text, **more)

    monkeypatch.setattr(source, "parse", counting)
    text = Counted(f"---\n{document}" * 200)
    entries, notes = read(text)
    assert len(entries) + len(notes) == 200
    assert 0 < text.looked_at <= len(text)
    assert sum(parsed) <= 2 * len(text)  # what is broken is parsed again
