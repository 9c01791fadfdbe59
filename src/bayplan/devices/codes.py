"""Codes: what `bayplan.devices.fleet` answers about a node; negative ones are errors."""

from __future__ import annotations

FITS, DOES_NOT_FIT, INVALID_POOLS = 0, 1, 2
ERROR, TIMEOUT = -1, -2
