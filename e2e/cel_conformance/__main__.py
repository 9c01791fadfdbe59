"""`python -m e2e.cel_conformance --count 20000 --seed 1`: selectors against Kubernetes' own CEL."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from e2e.cel_conformance.run import Findings, run
from e2e.provider.programs import CELJUDGE

_PART = 250  # seeds that a process takes at a time
_SHOWN = 20


def main(
    count: Annotated[int, typer.Option(help="How many random expressions.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Where to start.")] = 1,
    jobs: Annotated[int, typer.Option(help="How many processes.")] = 2,
    judge: Annotated[Path | None, typer.Option(help="The judge, if it is built already.")] = None,
) -> None:
    """Compare matches and error texts of random selectors on random devices."""
    program = judge or CELJUDGE.binary()
    first = seed * 10_000_000
    last = first + count
    parts = [range(at, min(at + _PART, last)) for at in range(first, last, _PART)]
    total = Findings()
    with multiprocessing.Pool(jobs) as pool:
        for findings in pool.imap_unordered(partial(run, program), parts):
            total.add(findings)
    _report(total)
    raise typer.Exit(bool(total.differences))


def _report(total: Findings) -> None:
    for verdict, number in sorted(total.verdicts.items(), key=lambda item: -item[1]):
        typer.echo(f"{number:7} {verdict.value}")
    answers = ", ".join(f"{number} {name}" for name, number in total.matches.most_common())
    typer.echo(f"answers that are the same: {answers}")
    for difference in total.differences[:_SHOWN]:
        typer.echo(str(difference))
    typer.echo(f"{len(total.differences)} differences")


if __name__ == "__main__":
    typer.run(main)
