"""A cluster whose nodes run Pods: real kubelets on this machine, containerd, bayplan's image.

Each node is a box of namespaces (`box.py`, `box.sh`, `node.sh`) on a bridge of the run's own
(`network.py`). What it is made of is got without installing anything (`software.py`: Debian
packages unpacked, Go modules built; `images.py`: the image from the Dockerfile), and cached.

Invariants: nothing of the machine's own network, sysctls and cgroups is changed; nothing outside of
the machine is asked at run time; and process 1 of a box ends with the process that started it, and
with it all that the box holds.
"""

from e2e.provider.kubelet.control_plane import KubeletControlPlane

__all__ = ["KubeletControlPlane"]
