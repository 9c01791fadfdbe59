"""The grammar of random selectors: see `grammar.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

_WEIGHT = re.compile(r"([0-9]+) \* (?=.*)", re.DOTALL)
_DATA: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


def _weighted(productions: list[str]) -> list[str]:
    result = []
    for text in productions:
        match = _WEIGHT.match(text)
        result += [text[match.end() :]] * int(match[1]) if match else [text]
    return result


VALUES = list("biudsyDTqvUpctn")
LITERALS: dict[str, list[str]] = _DATA["literals"]
PRODUCTIONS = {kind: _weighted(texts) for kind, texts in _DATA["productions"].items()}
GENERIC = _weighted(_DATA["generic"])
LISTS = _weighted(_DATA["lists"])
LISTS_OF = {kind: _weighted(texts) for kind, texts in _DATA["lists_of"].items()}
MAPS = _weighted(_DATA["maps"])
OPTIONALS = _weighted(_DATA["optionals"])
ANY_OPTIONALS = _weighted(_DATA["any_optionals"])
QUANTIFIERS = [
    text.replace("Q", name)
    for text in _weighted(_DATA["quantifiers"])
    for name in ("all", "exists", "exists_one")
]
TEXTS = {name: _weighted(texts) for name, texts in _DATA["texts"].items()}
