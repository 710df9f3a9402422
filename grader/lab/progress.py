"""What a learner has reached, kept in one small file in the user's data folder.

Only the best result of an exercise counts, so trying again never costs points. Several notebooks
may be open at once: every change is read, made and written under a lock, and the file is replaced
whole. A file that can't be read is set aside under a dated name; the learner goes on with an empty
one.
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock

from grader.judge.verdict import Status, Verdict
from grader.lab.files import aside, write_whole
from grader.userdata import data_dir as data_dir  # part of what this module offers

FORMAT = 1
_LOCK_SECONDS = 5.0
# Nothing was tried, or the fault was ours: no attempt of the learner's.
_NO_ATTEMPT = (Status.NOT_ATTEMPTED, Status.GRADER_ERROR)

Records = dict[str, dict[str, Any]]


class ProgressNotSaved(Exception):
    """The answer was judged but its result not kept; the message says why and what helps."""


def progress_file() -> Path:
    return data_dir() / "progress.json"


def record(verdict: Verdict) -> None:
    """Keep the verdict if it is the exercise's best so far, and count the attempt.

    Raises ProgressNotSaved.
    """
    if verdict.status in _NO_ATTEMPT:
        return

    def attempt(kept: dict[str, Any]) -> None:
        kept["attempts"] = kept.get("attempts", 0) + 1
        kept["last"] = _now()
        best = kept.get("points", 0.0) / kept["max_points"] if kept.get("max_points") else 0.0
        if verdict.fraction >= best:
            kept |= {"points": float(verdict.points), "max_points": float(verdict.max_points)}
        if verdict.passed:
            kept.setdefault("passed", _now())

    _change(verdict.exercise, attempt)


def record_hint(name: str, n: int) -> None:
    """Note that hints 1 … ``n`` of an exercise have been seen. Raises ProgressNotSaved."""
    _change(name, lambda kept: kept.update(hints=max(n, kept.get("hints", 0))))


def hints_seen(name: str) -> int:
    """How many of the exercise's hints the learner has seen."""
    return int(snapshot().get(name, {}).get("hints", 0))


def best(name: str) -> float:
    """The most points reached so far; 0.0 where nothing was."""
    return float(snapshot().get(name, {}).get("points", 0.0))


def passed(name: str) -> bool:
    """Whether the exercise was ever passed."""
    return "passed" in snapshot().get(name, {})


def snapshot() -> Records:
    """All that is kept, by exercise: points, max_points, attempts, last, passed (when), hints.

    Never raises: what can't be read counts as nothing here, and is dealt with by the next change.
    """
    try:
        return _parse(progress_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def as_text() -> str:
    """The progress map for a terminal: every notebook, its exercises, and what comes next."""
    from grader.lab import progress_map  # needs the exercises, and with them torch

    return progress_map.as_text(progress_map.overview(snapshot()))


def as_html() -> str:
    """The progress map for a notebook's cell; readable in light and dark themes."""
    from grader.lab import progress_map, progress_page

    return progress_page.as_html(progress_map.overview(snapshot()))


def set_aside() -> list[Path]:
    """Unreadable progress files that were kept under another name, oldest first."""
    return sorted(data_dir().glob("progress.damaged-*.json"))


def _change(name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            records = _read_or_set_aside(path)
            change(records.setdefault(name, {}))
            whole = {"format": FORMAT, "exercises": records}
            write_whole(path, json.dumps(whole, indent=1, sort_keys=True) + "\n")
    except filelock.Timeout:
        raise ProgressNotSaved(
            f"This result isn't kept, since another program holds {path.with_suffix('.lock')}; "
            "close notebooks that hang and check again."
        ) from None
    except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
        raise ProgressNotSaved(
            f"This result isn't kept, since {path} can't be written ({_reason(error)}). Make that "
            "folder writable, or name another in the environment variable GRADER_DATA."
        ) from None


def _read_or_set_aside(path: Path) -> Records:
    """The records. Raises OSError if the file is there and can't be opened: it may be intact."""
    try:
        return _parse(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:  # UnicodeDecodeError and JSONDecodeError are ones
        os.replace(path, aside(path, "damaged"))
        return {}


def _parse(text: str) -> Records:
    """The records in the file's text. Raises ValueError on whatever this module hasn't written."""
    try:
        whole = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ValueError("not a progress file of this format")
    records = whole.get("exercises")
    if not isinstance(records, dict):
        raise ValueError("no exercises")
    for kept in records.values():
        if not isinstance(kept, dict):
            raise ValueError("an exercise is not an object")
        for key in ("points", "max_points", "attempts", "hints"):
            number = kept.get(key, 0)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError(f"{key} is not a number")
            if not 0 <= number < math.inf:
                raise ValueError(f"{key} is out of range")
    return records


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
