"""Every notebook with its answers, opened and run in a real JupyterLab. Screenshots stay in pytest's folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsing import Notebook, chromium, course

from grader import exercises, resources

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from served import Lab

pytestmark = [pytest.mark.long, pytest.mark.needs_browser]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def lab(home: Path) -> Iterator[tuple[Lab, Browser]]:
    with course(home / "course", home) as opened, chromium() as browser:
        yield opened, browser


@pytest.mark.parametrize("name", exercises.NOTEBOOKS)
def test_it_runs_and_every_answer_passes(name: str, lab: tuple[Lab, Browser], home: Path) -> None:
    server, browser = lab
    shutil.copy(resources.solved(name), home / "course" / name / "solved.ipynb")
    notebook = Notebook(browser, server, f"/tree/{name}/solved.ipynb")
    notebook.run_all()
    notebook.wait_until_idle()
    assert notebook.errors() == []
    for exercise in exercises.of_notebook(name):
        assert notebook.result(f"check_{exercise.name}") == f"{float(exercise.points)}"
    notebook.pictures(home / name)
    assert notebook.problems == []
    notebook.end()
