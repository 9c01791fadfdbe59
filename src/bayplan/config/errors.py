"""What is wrong with a configuration, one line for each field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class FieldError:
    """One complaint about one field.

    `path` is the field as the file spells it, `profiles[0].plugins.score.enabled[1].name`; it is
    empty when the complaint is about the file as a whole.
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(ValueError):
    """A configuration that cannot be used, with all errors.

    Its text has one line for each complaint, each led by the name of the file when there is one.
    """

    def __init__(self, errors: Iterable[FieldError], file: str = "") -> None:
        self.errors = tuple(dict.fromkeys(errors))
        self.file = file
        super().__init__("\n".join(self.lines()))

    def lines(self) -> list[str]:
        """One line for each complaint, `file: path: message`."""
        prefix = f"{self.file}: " if self.file else ""
        return [f"{prefix}{error}" for error in self.errors]
