"""Named formats: `format.dns1123Label().validate("x")` and the others.

Source: k8s.io/apiserver/pkg/cel/library/format.go; the rules are Kubernetes' own for names and
labels, whose messages surface, and those of its OpenAPI formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bayplan.cel.functions.registry import STRING, exactly, function, method
from bayplan.cel.functions.urls import uri_problem
from bayplan.cel.golang.quoting import utf8
from bayplan.cel.golang.times import civil_from_days, days_from_civil
from bayplan.cel.values import NONE, Extension, Optional, optional_of

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
)
_START_AND_END = "and must start and end with an alphanumeric character"
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    f"{_START_AND_END}"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', {_START_AND_END}"
)
_LABEL_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character"
)
_KEY_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_START_AND_END}"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', {_START_AND_END}"
)

Check = Callable[[str], list[str]]


@dataclass(slots=True)
class Format(Extension):
    """A named format: `check` gives what is wrong with a text."""

    type_name = "kubernetes.NamedFormat"
    hashable = False
    name: str
    check: Check = field(compare=False)

    def text(self) -> str:
        """Go prints addresses here; the name has to do."""
        return self.name


def _mismatch(rule: str, pattern: str, *examples: str) -> str:
    shown = "".join(f"{' or ' if n else ''}'{example}', " for n, example in enumerate(examples))
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def _check(text: str, longest: int, pattern: str, message: str) -> list[str]:
    problems = []
    if len(utf8(text)) > longest:
        problems.append(f"must be no more than {longest} bytes")
    if not re.fullmatch(pattern, text):
        problems.append(message)
    return problems


def _label(text: str) -> list[str]:
    message = _mismatch(_LABEL_RULE, _LABEL, "my-name", "123-abc")
    if re.fullmatch(_SUBDOMAIN, text):
        message = "must not contain dots"
    return _check(text, 63, _LABEL, message)


def _subdomain(text: str) -> list[str]:
    return _check(text, 253, _SUBDOMAIN, _mismatch(_SUBDOMAIN_RULE, _SUBDOMAIN, "example.com"))


def _label_1035(text: str) -> list[str]:
    message = _mismatch(_LABEL_1035_RULE, _LABEL_1035, "my-name", "abc-123")
    return _check(text, 63, _LABEL_1035, message)


def _label_value(text: str) -> list[str]:
    pattern = f"({_KEY})?"
    message = _mismatch(_VALUE_RULE, pattern, "MyValue", "my_value", "12345")
    return _check(text, 63, pattern, message)


def _qualified_name(text: str) -> list[str]:
    rule = _mismatch(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule} {optional}"]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in _subdomain(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {problem}" for problem in _check(name, 63, _KEY, rule)]


def _prefix(check: Check) -> Check:
    def checked(text: str) -> list[str]:
        return check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return checked


def _rule(message: str, holds: Callable[[str], bool]) -> Check:
    return lambda text: [] if holds(text) else [message]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    if not 1 <= month <= 12:
        return False
    return civil_from_days(days_from_civil(year, month, day)) == (year, month, day)


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _TIME.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _uri(text: str) -> list[str]:
    problem = uri_problem(text)
    return [problem] if problem else []


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _label),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain),
    "dns1035Label": Format("DNS1035Label", _label_1035),
    "qualifiedName": Format("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(_label)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(_subdomain)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(_label_1035)),
    "labelValue": Format("LabelValue", _label_value),
    "uri": Format("URI", _uri),
    "uuid": Format(
        "uuid", _rule("does not match the UUID format", lambda text: bool(_UUID.fullmatch(text)))
    ),
    "byte": Format("byte", _rule("invalid base64", lambda text: bool(_BASE64.fullmatch(text)))),
    "date": Format("date", _rule("invalid date", _is_date)),
    "datetime": Format("datetime", _rule("invalid datetime", _is_datetime)),
}


def _validate(named: Format, text: str) -> Optional:
    problems = named.check(text)
    return optional_of(problems) if problems else NONE


for _name in FORMATS:
    function(f"format.{_name}")(partial(FORMATS.__getitem__, _name))
function("format.named", STRING)(
    lambda name: optional_of(FORMATS[name]) if name in FORMATS else NONE
)
method("validate", exactly(Format), STRING)(_validate)
