"""The cluster as the scheduling thread knows it: objects by kind, and the node table.

No I/O, no locks: only the scheduling thread reads and writes here.
"""
