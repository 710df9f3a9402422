"""What holds for every test: one thread a process, and never the files of who runs them."""

from __future__ import annotations

import functools
import importlib.util
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


# A test with one of these marks needs what a system may lack. It is skipped there with the reason, but
# where GRADER_TESTS_REQUIRE names the thing (comma-separated), a lack of it fails.
REQUIRED = frozenset(filter(None, os.environ.get("GRADER_TESTS_REQUIRE", "").split(",")))


@functools.cache
def lacking_for_sandbox() -> str:
    """Why strangers' notebooks can't be locked in here, "" where they can."""
    from grader.judge.sandbox import Isolation, trial

    return trial(Isolation.FULL)


@functools.cache
def lacking_for_browser() -> str:
    """Why no browser can be driven here, "" where one can."""
    import browsing

    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed (pip install playwright)."
    return "" if browsing.found() else "No Chromium or Chrome is on the PATH."


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs = {"sandbox": lacking_for_sandbox, "browser": lacking_for_browser}
    for thing, lacking in needs.items():
        if item.get_closest_marker(f"needs_{thing}") and (why := lacking()):
            if thing in REQUIRED:
                pytest.fail(f"GRADER_TESTS_REQUIRE names the {thing}. {why}", pytrace=False)
            pytest.skip(why)
