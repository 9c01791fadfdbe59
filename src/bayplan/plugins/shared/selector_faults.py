"""What is wrong with a node selector's requirements, in the words of Kubernetes' validation.

The API server keeps most faulty requirements out, but not all: a label value, or a bound of Gt
and Lt, may be one that the scheduler cannot use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from bayplan.api import selectors
from bayplan.api.meta import LabelSelectorRequirement

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_LABEL_VALUE = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_VALID_VALUE = re.compile(_LABEL_VALUE)
_MAX_VALUE = 63
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    f"'12345', regex used for validation is '{_LABEL_VALUE}')"
)


def label_faults(requirement: LabelSelectorRequirement, path: str) -> list[str]:
    """The faults of a requirement on a label; ``path`` is what they begin with."""
    operator, values = requirement.operator, requirement.values
    if operator not in _LABEL_OPERATORS:
        return [_unsupported(operator, _LABEL_OPERATORS, path)]
    faults = []
    if operator in ("In", "NotIn") and not values:
        faults.append(
            f"{path}.values: Invalid value: null: for 'in', 'notin' operators, values "
            "set can't be empty"
        )
    if operator in ("Exists", "DoesNotExist") and values:
        faults.append(
            f"{path}.values: Invalid value: {_listed(values)}: values set must be empty "
            "for exists and does not exist"
        )
    if operator in ("Gt", "Lt"):
        faults += _comparison_faults(values, path)
    faults += [
        f'{path}.values[{i}][{requirement.key}]: Invalid value: "{value}": {why}'
        for i, value in enumerate(values)
        for why in _value_faults(value)
    ]
    return faults


def _comparison_faults(values: Sequence[str], path: str) -> list[str]:
    faults = []
    if len(values) != 1:
        faults.append(
            f"{path}.values: Invalid value: {_listed(values)}: for 'Gt', 'Lt' operators, "
            "exactly one value is required"
        )
    return faults + [
        f"{path}.values[{i}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must "
        "be an integer"
        for i, value in enumerate(values)
        if selectors.integer(value) is None
    ]


def _value_faults(value: str) -> list[str]:
    faults = []
    if len(value) > _MAX_VALUE:
        faults.append(f"must be no more than {_MAX_VALUE} bytes")
    if not _VALID_VALUE.fullmatch(value):
        faults.append(_BAD_VALUE)
    return ["; ".join(faults)] if faults else []


def field_faults(requirement: LabelSelectorRequirement, path: str) -> list[str]:
    """The faults of a requirement on a field; ``path`` is what they begin with."""
    if requirement.operator not in _FIELD_OPERATORS:
        return [_unsupported(requirement.operator, _FIELD_OPERATORS, path)]
    if len(requirement.values) != 1:
        listed = _listed(requirement.values)
        return [f"{path}.values: Invalid value: {listed}: must have one element"]
    return []


def _unsupported(operator: str, known: Iterable[str], path: str) -> str:
    listed = ", ".join(f'"{name}"' for name in known)
    return f'{path}.operator: Unsupported value: "{operator}": supported values: {listed}'


def _listed(values: Sequence[str]) -> str:
    return msgspec.json.encode(values).decode() if values else "null"


def joined(faults: Sequence[str]) -> str:
    """Several faults as one message, as Kubernetes joins errors."""
    distinct = list(dict.fromkeys(faults))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
