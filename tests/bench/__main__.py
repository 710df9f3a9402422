"""``python -m tests.bench [NAME…]``: measure, print the figures beside their bars, write them down."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import os
import platform
import sys
import time
from typing import Any

import click

from tests.bench import peers, tables
from tests.bench.tables import Measured

# Each is a module here with `rows()`, which yields Rows; what needs a quiet machine most comes first.
BENCHES = ("waiting", "circuits", "training", "grading", "hostile", "course", "quality")
# By name only: half an hour and more.
LONG = ("hostile_elsewhere",)
PEERED = {"circuits", "training", "grading", "hostile_elsewhere"}


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--render", is_flag=True, help="Measure nothing: make the READMEs' tables again.")
def main(names: tuple[str, ...], render: bool) -> None:
    """Run the named benches, or all but the longest, and write figures.json and the READMEs' tables."""
    known = (*BENCHES, *LONG)
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise click.UsageError(f"No bench is called {unknown[0]}; there are {', '.join(known)}.")
    if not render:
        for name in names or BENCHES:
            measured = measure(name)
            tables.show(name, measured)
            # Written bench by bench: a run that is stopped keeps what it has.
            tables.write({**tables.read(), name: measured})
    tables.render(tables.read())


def measure(name: str) -> Measured:
    """Run one bench."""
    about = machine() | (peers.versions() if name in PEERED else {})
    print(f"{name} …", file=sys.stderr, flush=True)
    started = time.perf_counter()
    rows = tuple(importlib.import_module(f"tests.bench.{name}").rows())
    minutes = (time.perf_counter() - started) / 60
    return Measured(datetime.date.today().isoformat(), minutes, about, rows)


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    return {
        "cores": os.cpu_count(),
        "Python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
    }


if __name__ == "__main__":
    main()
