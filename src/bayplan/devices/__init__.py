"""Devices: Dynamic Resource Allocation (resource.k8s.io/v1), used by the plugin above.

Start with `bayplan.devices.allocator`.
"""
