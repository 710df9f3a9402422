"""A learner's first hour, in a real browser: start, read, a wrong answer, its diagnosis, a hint, the
right answer, progress. Screenshots stay in pytest's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Notebook, chromium, course

from grader import exercises

pytestmark = [pytest.mark.long, pytest.mark.needs_browser]

FIRST = exercises.registry()["residual_stream"]
WRONG = """\
def residual_stream(embedding, layer_outputs):
    # every output is added to the embedding alone
    return torch.cat([embedding[None], embedding + layer_outputs])
"""
RIGHT = """\
def residual_stream(embedding, layer_outputs):
    return torch.cat([embedding[None], layer_outputs]).cumsum(0)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("learner")


@pytest.fixture(scope="module")
def notebook(home: Path) -> Iterator[Notebook]:
    with course(home / "course", home) as lab, chromium() as browser:
        yield Notebook(browser, lab)


def test_the_first_hour(notebook: Notebook, home: Path) -> None:
    assert "The residual stream" in notebook.page.locator("h1").first.inner_text()
    notebook.run_all()
    notebook.wait_until_idle()
    untouched = notebook.show("check_residual_stream").inner_text()
    assert "NOT ATTEMPTED" in untouched

    notebook.type_into("residual_stream", WRONG)
    assert notebook.run("residual_stream").strip() == ""
    said = notebook.run("check_residual_stream")
    idea = next(m for m in FIRST.mistakes if m.name == "not_accumulated")
    assert "WRONG" in said
    assert idea.message in " ".join(said.split())
    notebook.picture(home / "wrong.png")

    assert FIRST.hints[0] in " ".join(
        notebook.add_below("check_residual_stream", "hint(residual_stream)").split()
    )
    notebook.type_into("residual_stream", RIGHT)
    notebook.run("residual_stream")
    assert "PASS" in notebook.run("check_residual_stream")
    assert f"{FIRST.points} of" in notebook.add_below("check_residual_stream", "progress()")
    for theme in ("Light", "Dark"):
        notebook.theme(theme)
        for size in ("wide", "narrow"):
            notebook.picture(home / f"progress-{theme.lower()}-{size}.png", size)

    status = subprocess.run(
        [sys.executable, "-m", "grader", "status", "--json"],
        capture_output=True, encoding="utf-8", check=True,
        env=os.environ | {"GRADER_DATA": str(home / "data")},
    )  # fmt: skip
    assert json.loads(status.stdout)["points"] == FIRST.points
    # Cells that call a stub raise NotImplementedError(), without words; nothing else may be in red.
    assert set(notebook.errors()) <= {""}
    assert notebook.problems == []
