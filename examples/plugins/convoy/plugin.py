"""Convoy: Pods that belong together are bound together, or not at all.

A Pod says so by two labels: convoy names the group, convoy-size how many Pods it takes.
"""

from dataclasses import dataclass

from bayplan.framework import SUCCESS, WAIT, Plugin, Status


@dataclass
class ConvoyArgs:
    """What stands under pluginConfig."""

    seconds: float = 30.0


class Convoy(Plugin):
    """Lets each Pod of a convoy wait, on the node that it got, until all of them have one."""

    Args = ConvoyArgs

    def permit(self, state, pod, node_name):
        """The Pod has a node, but is not bound yet: let it go on, wait, or turn it down."""
        convoy, size = pod.labels.get("convoy"), pod.labels.get("convoy-size", "")
        if convoy is None:
            return SUCCESS
        if not size.isdecimal():
            return Status.unresolvable(f"label convoy-size is no number: {size!r}")
        if self._with_node(pod) < int(size):
            return WAIT, self.args.seconds
        for other in self._waiting(pod):
            other.allow(self.name)
        return SUCCESS

    def unreserve(self, state, pod, node_name):
        """The Pod gives its node back (it timed out, or its binding failed): so do the others."""
        for other in self._waiting(pod):
            other.reject(self.name, "another Pod of the convoy gave up")

    def _waiting(self, pod):
        return [w for w in self.handle.waiting if w.pod.uid != pod.uid and _together(w.pod, pod)]

    def _with_node(self, pod):
        """How many of the convoy have a node, this Pod included.

        It looks at every Pod, which is fine for an example; for large clusters count in reserve.
        """
        return sum(_together(other, pod) for node in self.handle.nodes for other in node.pods)


def _together(pod, other):
    convoy = other.labels.get("convoy")
    return bool(convoy) and (pod.namespace, pod.labels.get("convoy")) == (other.namespace, convoy)
