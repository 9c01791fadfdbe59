"""Devices that the tests of selectors look at."""

from __future__ import annotations

from typing import Any

from e2e.cel_conformance.devices import to_device

from bayplan.cel import Device

DRIVER = "gpu.example.com"
# As the API has it, so that Kubernetes' own CEL can be asked about it as well.
GPU_JSON: dict[str, Any] = {
    "driver": DRIVER,
    "attributes": {
        "model": {"string": "A100"},
        "count": {"int": 5},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.2.3"},
        "partitions": {"ints": [1, 2, 3]},
        "numa.example.com/node": {"int": 1},
    },
    "capacity": {
        "memory": {"value": "40Gi"},
        "numa.example.com/cores": {"value": "2500m"},
    },
    "allowMultipleAllocations": True,
}
GPU = to_device(GPU_JSON)
BARE = Device(DRIVER)
