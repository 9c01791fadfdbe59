"""Devices: Dynamic Resource Allocation (resource.k8s.io/v1) below the plugin that uses it.

Start with `bayplan.devices.allocator`.
"""
