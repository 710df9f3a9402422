"""What holds for every test: one thread a process, and never the files of who runs them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before torch is imported: the suite runs in several processes, and more threads than cores cost time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True, scope="session")
def own_data_folder() -> Iterator[Path]:
    """A data folder for the session, so that no test reads or changes anybody's real progress."""
    before = os.environ.get("GRADER_DATA")
    with tempfile.TemporaryDirectory(prefix="grader-data-", ignore_cleanup_errors=True) as folder:
        os.environ["GRADER_DATA"] = folder
        yield Path(folder)
        if before is None:
            del os.environ["GRADER_DATA"]
        else:
            os.environ["GRADER_DATA"] = before
