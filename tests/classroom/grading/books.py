"""Small notebooks of the course's first one, zips as LMSs make them, and a stand-in for the sandbox."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_notebook

from grader.classroom.grading.one import Outcome
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.pupil.runs import CellRun

NOTEBOOK = "00-residual-stream"
RIGHT = "def virtual_weights(W_out, W_in):\n    return W_out @ W_in"
WRONG = "def virtual_weights(W_out, W_in):\n    return W_out + 1"
CRASHING = "def virtual_weights(W_out, W_in):\n    raise KeyError('mine')"


def book(*sources: str, stamp: dict[str, str] | None = None) -> bytes:
    """A notebook of one code cell a source."""
    notebook = new_notebook(cells=[new_code_cell(source) for source in sources])
    notebook.metadata["transformer_circuits"] = stamp or {
        "edition": "2026.1",
        "notebook": NOTEBOOK,
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return json.dumps(notebook).encode()


OTHER = book(
    "def bigram_counts(tokens, d_vocab):\n    return tokens",
    stamp={"edition": "2026.1", "notebook": "01-zero-layer"},
)


def zipped(members: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> bytes:
    """A zip's bytes; as a sequence, one name may come twice."""
    pairs = members.items() if isinstance(members, Mapping) else members
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in pairs:
            info = zipfile.ZipInfo(name, (2026, 3, 1, 12, 0, 0))
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def laid_out(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


class _Bench(InProcess):
    def __init__(self, functions: Mapping[str, Any], runs: list[CellRun]) -> None:
        super().__init__(functions)
        self.runs = runs


class Bench:
    """In place of the sandbox: runs cells in this very process. Counts how often it was asked."""

    def __init__(self, *isolation: object, jobs: int = 1) -> None:
        self.opened = 0
        self._one_at_a_time = threading.Lock()  # output and generators are the process's

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *failure: object) -> None:
        return None

    @contextlib.contextmanager
    def pupil(
        self,
        cells: Sequence[tuple[int, str]],
        *,
        wall: float = 300.0,
        memory_mib: int = 0,
        files: Mapping[str, bytes] | None = None,
    ) -> Iterator[_Bench]:
        with self._one_at_a_time:
            self.opened += 1
            yield self._ran(cells, files or {})

    def _ran(self, cells: Sequence[tuple[int, str]], files: Mapping[str, bytes]) -> _Bench:
        space: dict[str, Any] = {"FILES": dict(files)}
        runs = []
        for number, source in cells:
            try:
                exec(source, space)
                runs.append(CellRun(number))
            except Exception as error:
                runs.append(CellRun(number, error=f"{type(error).__name__}: {error}"))
        return _Bench({name: value for name, value in space.items() if callable(value)}, runs)


class Silent:
    """A watcher that only counts."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int]] = []
        self.outcomes: list[Outcome] = []

    def begins(self, to_grade: int, graded_before: int) -> None:
        self.told.append((to_grade, graded_before))

    def graded(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def verdict(name: str, status: Status, points: float = 0.0, **more: Any) -> Verdict:
    return Verdict(name, status, points, 2.0, more.pop("message", "Look."), seed=7, **more)
