"""Devices that the tests of selectors look at."""

from __future__ import annotations

from bayplan.cel import Device, Version

DRIVER = "gpu.example.com"
GPU = Device(
    DRIVER,
    {
        "model": "A100",
        "count": 5,
        "healthy": True,
        "driverVersion": Version("1.2.3"),
        "partitions": [1, 2, 3],
        "numa.example.com/node": 1,
    },
    {"memory": "40Gi", "numa.example.com/cores": "2500m"},
    allow_multiple_allocations=True,
)
BARE = Device(DRIVER)
