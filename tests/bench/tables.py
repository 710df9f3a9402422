"""Figures as tables: on the terminal, as JSON, and in the two READMEs.

``figures.json`` is what the last runs measured, one entry a bench with its own date and machine, so a
bench can be run again alone. The READMEs' tables are made from it and from nothing else.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.rows import Row

REPOSITORY = Path(__file__).parents[2]
FIGURES = Path(__file__).with_name("figures.json")
# Which benches a document shows, and whether only the rows that have a bar.
DOCUMENTS = {
    "README.md": (
        ("grading", "hostile", "circuits", "waiting", "training", "course", "quality"),
        True,
    ),
    "solutions/README.md": (("grading", "hostile", "hostile_elsewhere"), False),
}
BLOCK = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- /figures -->)", re.DOTALL)


@dataclass(frozen=True)
class Measured:
    """One bench's rows, and when, on what and against which versions they were measured."""

    date: str
    minutes: float
    machine: dict[str, Any]
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "rows": [row.as_json() for row in self.rows]}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Measured:
        return cls(**{**fields, "rows": tuple(map(Row.from_json, fields["rows"]))})


def read(file: Path = FIGURES) -> dict[str, Measured]:
    """The kept figures, by bench; none where nothing was measured yet."""
    if not file.exists():
        return {}
    return {name: Measured.from_json(told) for name, told in json.loads(file.read_text()).items()}


def write(figures: dict[str, Measured], file: Path = FIGURES) -> None:
    told = {name: measured.as_json() for name, measured in figures.items()}
    file.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def cells(row: Row) -> tuple[str, str, str, str, str]:
    """What is measured; ours; the peer's; the ratio; the bar and whether it was held."""
    what = f"{row.what} ({row.note})" if row.note else row.what
    peer = f"{spread(row.peer_runs, row.unit)} {row.peer}" if row.peer else ""
    ratio = f"{row.ratio:.3g}×" if row.ratio is not None else ""
    held = {None: "", True: f"{row.bar}: held", False: f"{row.bar}: **missed**"}[row.held]
    return what, spread(row.runs, row.unit), peer, ratio, held


def spread(runs: Sequence[float], unit: str) -> str:
    """Median with unit, then least and most where runs differ."""
    median = f"{number(statistics.median(runs))} {unit}"
    if min(runs) == max(runs):
        return median
    return f"{median} ({number(min(runs))}–{number(max(runs))})"


def number(value: float) -> str:
    """Three significant digits, never an exponent; whole numbers whole."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.6f}".rstrip("0")


HEADINGS = ("what", "ours: median (least–most)", "peer", "times better", "bar")


def show(title: str, measured: Measured) -> None:
    """Print one bench."""
    table = Table(*HEADINGS, title=f"{title}, {measured.minutes:.1f} minutes")
    for row in measured.rows:
        table.add_row(*(cell.replace("**", "") for cell in cells(row)))
    Console().print(table)


def markdown(figures: dict[str, Measured], benches: Iterable[str], only_bars: bool) -> str:
    """The table of some benches, with what it belongs to."""
    shown = {name: figures[name] for name in benches if name in figures}
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    for measured in shown.values():
        kept = [row for row in measured.rows if row.held is not None or not only_bars]
        lines += ["| " + " | ".join(cells(row)) + " |" for row in kept]
    return "\n".join([*lines, "", *_belongs_to(shown), ""])


def _belongs_to(shown: dict[str, Measured]) -> Iterator[str]:
    machines: dict[str, list[str]] = {}
    for name, measured in shown.items():
        about = ", ".join(f"{key} {value}" for key, value in measured.machine.items())
        machines.setdefault(f"{measured.date}, {about}", []).append(name)
    for about, names in machines.items():
        yield f"Measured {about} ({', '.join(names)})."
    yield "Made by `python -m tests.bench`, which measures anew and writes this table; runs alternate"
    yield "between us and the peer on the same machine."


def render(figures: dict[str, Measured], root: Path = REPOSITORY) -> None:
    """Write the tables into the documents, between their two marks."""
    for document, (benches, only_bars) in DOCUMENTS.items():
        file = root / document
        text = file.read_text(encoding="utf-8")
        if not BLOCK.search(text):
            raise ValueError(
                f"{document} has no place for figures (<!-- figures --> … <!-- /figures -->)"
            )
        before, after = BLOCK.split(text)
        table = markdown(figures, benches, only_bars)
        file.write_text(f"{before}\n{table}\n{after}", encoding="utf-8")
