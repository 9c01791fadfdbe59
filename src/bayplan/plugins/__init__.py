"""The in-tree plugins, one module each, named after the plugin, and shared helpers.

Plugins do not import each other. Every one of them answers for all nodes at once (the column form,
see `bayplan.framework.interface`), with the codes, reasons and scores of kube-scheduler v1.37.
"""
