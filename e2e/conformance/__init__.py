"""Does bayplan decide as kube-scheduler does?

Random clusters go through both, and every difference is named, shrunk and kept.
"""
