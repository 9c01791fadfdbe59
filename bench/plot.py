"""Plots: Pods bound over time, one line a run; the cost of a Pod against the number of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.results import Comparison
from bench.schedulers import BAYPLAN, KUBE_SCHEDULER
from bench.tables import title

COLORS = {KUBE_SCHEDULER: "tab:gray", BAYPLAN: "tab:blue"}


def plot(comparison: Comparison) -> Path:
    """Write the PNG beside the JSON file, and return its path."""
    import matplotlib as mpl  # noqa: PLC0415  it takes a second

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(8, 4.5))
    for name, runs in comparison.runs.items():
        for number, run in enumerate(runs):
            seconds = [second for second, _ in run.timeline]
            bound = [count for _, count in run.timeline]
            axes.plot(seconds, bound, color=COLORS[name], label=name if not number else None)
    axes.set(xlabel="seconds since the scheduler was started", ylabel="Pods bound")
    axes.set_title(title(comparison), fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    path = comparison.file.with_suffix(".png")
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def plot_costs(path: Path, nodes: Sequence[int], costs: Mapping[str, Sequence[float]]) -> None:
    """Write the PNG: microseconds of CPU for a Pod, a line for each name, one value a size."""
    import matplotlib as mpl  # noqa: PLC0415  it takes a second

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(8, 4.5))
    for name, values in costs.items():
        axes.plot(nodes, values, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="CPU of a Pod, microseconds")
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
