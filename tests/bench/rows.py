"""One measured figure, and how a set of them is printed."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """times: seconds (or whatever ``unit`` says), one a run; bar: what the median should not exceed."""

    what: str
    times: tuple[float, ...]
    unit: str = "ms"
    bar: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def held(self) -> str:
        if self.bar is None:
            return ""
        return f"{'held' if self.median <= self.bar else 'missed'} (≤ {self.bar:g})"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median, "held": self.held}


def machine() -> dict[str, Any]:
    """What the figures belong to."""
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "system": platform.platform(terse=True),
    }


def show(title: str, rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "median", "least … most", "runs", "bar", title=title)
    for row in rows:
        spread = f"{min(row.times):.3g} … {max(row.times):.3g}"
        table.add_row(
            row.what, f"{row.median:.3g} {row.unit}", spread, str(len(row.times)), row.held
        )
    Console().print(table)
