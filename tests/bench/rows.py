"""One measured figure, beside its peer and its bar, and contestants that take turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """What was measured, one number a run.

    ``runs`` are ours and ``peer_runs`` those of the package named in ``peer``, in ``unit``. A bar bounds
    our median (``at_most``), or how many times better than the peer we are (``ratio_at_least``); exact
    counts that must be reached have ``at_least``. ``note`` is one clause a reader of the table needs.
    """

    what: str
    runs: tuple[float, ...]
    unit: str
    peer: str = ""
    peer_runs: tuple[float, ...] = ()
    more_is_better: bool = False
    at_most: float | None = None
    at_least: float | None = None
    ratio_at_least: float | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not self.runs:
            raise ValueError(f"{self.what!r} has no run")
        if bool(self.peer) != bool(self.peer_runs):
            raise ValueError(f"{self.what!r}: a peer has a name and runs, or neither")
        if self.ratio_at_least is not None and not self.peer:
            raise ValueError(f"{self.what!r}: a ratio needs a peer")

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def peer_median(self) -> float | None:
        return statistics.median(self.peer_runs) if self.peer_runs else None

    @property
    def ratio(self) -> float | None:
        """How many times better than the peer, of medians; None without a peer, or beside a zero."""
        if not self.peer_median or not self.median:
            return None
        ours = self.median / self.peer_median
        return ours if self.more_is_better else 1 / ours

    @property
    def bar(self) -> str:
        bars = (
            ("≤", self.at_most, f" {self.unit}"),
            ("≥", self.at_least, f" {self.unit}"),
            ("≥", self.ratio_at_least, "×"),
        )
        return ", ".join(
            f"{sign} {value:g}{after}" for sign, value, after in bars if value is not None
        )

    @property
    def held(self) -> bool | None:
        """Whether every bar of this row is kept; None when it has none."""
        if not self.bar:
            return None
        return (
            (self.at_most is None or self.median <= self.at_most)
            and (self.at_least is None or self.median >= self.at_least)
            and (self.ratio_at_least is None or (self.ratio or 0.0) >= self.ratio_at_least)
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Row:
        runs = {name: tuple(fields[name]) for name in ("runs", "peer_runs")}
        return cls(**{**fields, **runs})


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def alternate(
    contestants: Mapping[str, Callable[[], float]], rounds: int, warm: int = 1
) -> dict[str, tuple[float, ...]]:
    """What each contestant answers, ``rounds`` times, in turns, so that a busy minute hits all alike.

    A contestant runs once and returns its own figure; the first ``warm`` turns are left out.
    """
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warm + rounds):
        for name, contestant in contestants.items():
            figure = contestant()
            if turn >= warm:
                figures[name].append(figure)
    return {name: tuple(runs) for name, runs in figures.items()}
