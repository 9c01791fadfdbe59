"""How long properties are tried: briefly with the unit tests, longer where the environment says so.

``BAYPLAN_PROPERTIES=20`` tries twenty times as many examples.
"""

from __future__ import annotations

import os

from hypothesis import settings

FACTOR = int(os.environ.get("BAYPLAN_PROPERTIES", "1"))


def length(examples: int, steps: int = 30) -> settings:
    """The settings of a property: how many examples, of how many steps each."""
    return settings(max_examples=examples * FACTOR, stateful_step_count=steps)
