"""Semantic versions: `semver()`, version attributes, and their methods.

Source: github.com/blang/semver/v4, whose error texts surface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.registry import (
    BOOL,
    STRING,
    define_order,
    exactly,
    function,
    method,
    takes_what,
)
from bayplan.cel.golang.numbers import parse_uint
from bayplan.cel.golang.quoting import quote
from bayplan.cel.values import Extension

_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")
# A part of a pre-release: numbers come before words.
Part: TypeAlias = tuple[int, int, str]


@dataclass(slots=True, eq=False)
class Semver(Extension):
    """A version; build metadata does not count when comparing.

    Attributes:
        numbers: major, minor and patch.
        release: the parts of the pre-release.
    """

    type_name = "kubernetes.Semver"
    hashable = False
    numbers: tuple[int, ...]
    release: list[Part]
    build: list[str]

    @staticmethod
    def parse(text: str) -> Semver:
        """The version that `text` stands for.

        Raises:
            EvaluationError: with Go's text, when it is none.
        """
        if not text:
            raise EvaluationError("Version string empty")
        parts = text.split(".", 2)
        if len(parts) != 3:
            raise EvaluationError("No Major.Minor.Patch elements found")
        major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
        rest, plus, build = parts[2].partition("+")
        patch_text, dash, release = rest.partition("-")
        patch = _number(patch_text, "Patch")
        released = [_release_part(part) for part in release.split(".")] if dash else []
        built = [_build_part(part) for part in build.split(".")] if plus else []
        return Semver((major, minor, patch), released, built)

    def equals(self, other: Any) -> bool:
        """Whether they are equal, but for the build metadata."""
        return self.compare(other) == 0

    def text(self) -> str:
        """The version as text."""
        release = ".".join(word or str(number) for _, number, word in self.release)
        build = ".".join(self.build)
        numbers = ".".join(map(str, self.numbers))
        return numbers + (f"-{release}" if release else "") + (f"+{build}" if build else "")

    def compare(self, other: Semver) -> int:
        """-1, 0 or 1 for older than, equal to or newer than `other`."""
        # A pre-release is older than its release.
        left = (self.numbers, not self.release, self.release)
        right = (other.numbers, not other.release, other.release)
        return (left > right) - (left < right)


def _number(text: str, name: str) -> int:
    if not set(text) <= _DIGITS:
        message = f"Invalid character(s) found in {name.lower()} number {quote(text)}"
        raise EvaluationError(message)
    if len(text) > 1 and text[0] == "0":
        raise EvaluationError(f"{name} number must not contain leading zeroes {quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    number = parse_uint(text)
    if number is None:
        reason = "value out of range" if text else "invalid syntax"
        raise EvaluationError(f"strconv.ParseUint: parsing {quote(text)}: {reason}")
    return number


def _release_part(text: str) -> Part:
    if not text:
        raise EvaluationError("Prerelease is empty")
    if set(text) <= _DIGITS:
        if len(text) > 1 and text[0] == "0":
            message = f"Numeric PreRelease version must not contain leading zeroes {quote(text)}"
            raise EvaluationError(message)
        return 0, _uint(text), ""
    if not set(text) <= _WORD:
        raise EvaluationError(f"Invalid character(s) found in prerelease {quote(text)}")
    return 1, 0, text


def _build_part(text: str) -> str:
    if not text:
        raise EvaluationError("Build meta data is empty")
    if not set(text) <= _WORD:
        raise EvaluationError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _normalize(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1] in _DIGITS else f"0{stripped}"
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        message = "short version cannot contain PreRelease/Build meta data"
        raise EvaluationError(message)
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _parse(text: str, normalize: bool) -> Semver:
    """The version in `text`, which with `normalize` may be short or have a v and leading zeroes."""
    return Semver.parse(_normalize(text) if normalize else text)


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


_SEMVER = exactly(Semver)

function("semver", STRING)(Semver.parse)
function("semver", STRING, BOOL)(_parse)
function("isSemver", STRING)(takes_what(Semver.parse))
function("isSemver", STRING, BOOL)(takes_what(_parse))
method("major", _SEMVER)(lambda version: _signed(version.numbers[0]))
method("minor", _SEMVER)(lambda version: _signed(version.numbers[1]))
method("patch", _SEMVER)(lambda version: _signed(version.numbers[2]))
define_order(_SEMVER)
