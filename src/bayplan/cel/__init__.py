'''CEL, the language of device selectors: compiled here, evaluated on one device at a time.

The dialect is the one of Dynamic Resource Allocation in Kubernetes v1.37: what the API server
admits as a selector works here, with kube-scheduler's answers and error texts::

    from bayplan.cel import Device, Program, Version

    program = Program("""device.driver == "gpu.example.com" &&
        device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.0"))""")
    device = Device("gpu.example.com", {"driverVersion": Version("1.3.0")}, {"memory": "40Gi"})
    assert program.evaluate(device)
    program.paths  # {Path("driver"), Path("attributes", "gpu.example.com", "driverVersion")}

The reasons: docs/decisions/0012-own-cel.md.
'''

from bayplan.cel.device import Attribute, Device, Version
from bayplan.cel.errors import CelError, CompileError
from bayplan.cel.paths import Path
from bayplan.cel.program import Program

__all__ = ["Attribute", "CelError", "CompileError", "Device", "Path", "Program", "Version"]
