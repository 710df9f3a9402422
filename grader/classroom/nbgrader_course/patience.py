"""Waiting for a gradebook that another process holds.

nbgrader gives up after five seconds and then speaks of a database to be upgraded. Formgrader beside a
batch, or SQLite's locks on a network disk, take longer than that.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

_seconds: dict[str, float] = {}


def wait_for_gradebook(gradebook: Path, seconds: float) -> None:
    """From now on, connections of this process to that gradebook (an SQLite file) wait so long.

    Those to other databases stay as they are: other courses in the same process are not touched.
    """
    if not _seconds:
        event.listen(Engine, "connect", _be_patient)
    _seconds[os.path.realpath(gradebook)] = seconds


def _be_patient(connection: Any, record: object) -> None:
    if not type(connection).__module__.startswith("sqlite3"):
        return
    cursor = connection.cursor()
    for _, name, file in cursor.execute("PRAGMA database_list").fetchall():
        seconds = _seconds.get(os.path.realpath(file)) if name == "main" and file else None
        if seconds is not None:
            cursor.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")
    cursor.close()
