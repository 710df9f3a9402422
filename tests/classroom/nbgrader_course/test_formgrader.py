"""A teacher's week in Formgrader and a learner's Validate, in a real browser, by clicks alone.

The system has one user here, so the learner's name is that user's.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browsing import ENOUGH, chromium
from nbgrader.utils import get_username

import grader
from grader import exercises, resources
from grader.classroom.nbgrader_course import folder as folders

pytestmark = [pytest.mark.long, pytest.mark.needs_browser, pytest.mark.needs_sandbox]

ASSIGNMENT = "07-beyond"
QUESTION = "a_claim_on_a_larger_model"
TOKEN = "a-teachers-token"
WAIT = ENOUGH * 1000
ANSWER = "I would ask whether the claim was tested on text that the model has not seen."
COMMENT = "Good. What about the heads that the test leaves out?"


@dataclass
class Class:
    """A class's folder in which JupyterLab runs, and a learner's home beside it."""

    root: Path
    port: int
    environment: dict[str, str]
    problems: list[str] = field(default_factory=list)

    @property
    def course(self) -> Path:
        return self.root / "course"

    @property
    def home(self) -> Path:
        return self.course / "learner"  # below what JupyterLab shows, for Validate

    def nbgrader(self, *command: str, where: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "nbgrader", *command],
            cwd=where, env=self.environment, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def open(self, browser: Any, path: str) -> Any:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", self._asked)
        page.goto(f"http://127.0.0.1:{self.port}/{path}?token={TOKEN}", timeout=WAIT)
        return page

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.problems.append(f"console: {message.text[:300]} ({where})")

    def _asked(self, request: Any) -> None:
        here = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        if not request.url.startswith(here):
            self.problems.append(f"request: {request.url[:300]}")


@pytest.fixture(scope="module")
def class_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    root = tmp_path_factory.mktemp("formgrader")
    exchange, settings = root / "exchange", root / "jupyter"
    for path in (exchange, settings):
        path.mkdir()
    exchange.chmod(0o777)
    made = folders.init(root / "course")
    config = made.root / folders.CONFIG
    with open(config, "a", encoding="utf-8") as file:
        file.write(f"\nc.Exchange.root = {str(exchange)!r}\n")
    for path in (made.root / "source").iterdir():  # one is enough to click through
        if path.name != ASSIGNMENT:
            for inside in path.iterdir():
                inside.unlink()
            path.rmdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(grader.__file__).resolve().parents[1]), "PYTHONWARNINGS": "ignore",
        "JUPYTER_CONFIG_DIR": str(settings), "JUPYTER_DATA_DIR": str(root / "share"),
        "IPYTHONDIR": str(root / "ipython"), "GRADER_DATA": str(root / "data"), "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }  # fmt: skip
    command = [
        "-m", "jupyterlab", "--no-browser", f"--ServerApp.port={port}", "--ServerApp.ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={made.root}", "--allow-root",
        "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=",
    ]  # fmt: skip
    (settings / "labconfig").mkdir()
    (settings / "labconfig/page_config.json").write_text(
        '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'
    )
    log = root / "jupyterlab.log"
    with open(log, "w", encoding="utf-8") as said:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=made.root, env=environment, stdout=said, stderr=said
        )
        try:
            _until_it_listens(port, process, log)
            yield Class(root, port, environment)
        finally:
            process.terminate()
            process.wait(60)


def _until_it_listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + ENOUGH
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.5)
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}")


def click(page: Any, row: str, column: str) -> str:
    """Press a button in a row of Formgrader's table → what it says when it is done."""
    page.locator("tr", has_text=row).locator(f"td.{column} a").first.click(timeout=WAIT)
    dialog = page.locator(".modal.in, .modal.show").last
    dialog.wait_for(timeout=WAIT)
    said = str(dialog.inner_text())
    dialog.locator(".modal-footer button").first.click()
    dialog.wait_for(state="detached", timeout=WAIT)
    return said


def answered(path: Path) -> None:
    """Half of the work of a learner: every exercise solved, and words for the question."""
    solved = {cell.id: cell.source for cell in nbformat.read(resources.solved(ASSIGNMENT), 4).cells}
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        marks = cell.metadata.get("nbgrader", {})
        if marks.get("grade_id") == QUESTION:
            cell.source = ANSWER
        elif marks.get("solution"):
            cell.source = solved[cell.id]
    nbformat.write(notebook, path)


def test_a_week_by_clicks(class_: Class) -> None:
    learner, judged = get_username(), sum(e.points for e in exercises.of_notebook(ASSIGNMENT))
    with chromium() as browser:
        page = class_.open(browser, "formgrader")
        for step in ("assign", "release"):
            assert "Success" in click(page, ASSIGNMENT, step)
        class_.home.mkdir()
        (class_.home / "nbgrader_config.py").write_text(
            f"c = get_config()\nc.CourseDirectory.course_id = 'course'\n"
            f"c.Exchange.root = {str(class_.root / 'exchange')!r}\n",
            encoding="utf-8",
        )
        class_.nbgrader("fetch_assignment", ASSIGNMENT, where=class_.home)
        validates(class_, browser, f"learner/{ASSIGNMENT}/{ASSIGNMENT}.ipynb")
        answered(class_.home / ASSIGNMENT / f"{ASSIGNMENT}.ipynb")
        class_.nbgrader("submit", ASSIGNMENT, where=class_.home)
        assert "Success" in click(page, ASSIGNMENT, "collect")

        page.goto(f"http://127.0.0.1:{class_.port}/formgrader/manage_submissions/{ASSIGNMENT}")
        assert "Successfully autograded" in click(page, learner, "autograde")
        row = page.locator("tr", has_text=learner)
        assert re.search(rf"{judged} / {judged + 2}\b", row.inner_text()), row.inner_text()

        mark_the_question(class_, page)
        page.goto(f"http://127.0.0.1:{class_.port}/formgrader/manage_assignments")
        for step in ("generate-feedback", "release-feedback"):
            assert "Success" in click(page, ASSIGNMENT, step)
    class_.nbgrader("fetch_feedback", ASSIGNMENT, where=class_.home)
    [feedback] = (class_.home / ASSIGNMENT / "feedback").rglob("*.html")
    text = feedback.read_text(encoding="utf-8")
    assert COMMENT in text
    assert "PASS" in text
    assert "\n".join(class_.problems) == ""


def mark_the_question(class_: Class, page: Any) -> None:
    """Open the submission from the gradebook, comment on the question and give it two points."""
    address = f"http://127.0.0.1:{class_.port}/formgrader/gradebook/{ASSIGNMENT}/{ASSIGNMENT}"
    page.goto(address)
    page.locator("tbody tr td.name a").first.click(timeout=WAIT)
    comment = page.locator(f"#{QUESTION}-comment")
    comment.wait_for(timeout=WAIT)
    page.wait_for_load_state("networkidle", timeout=WAIT)
    assert ANSWER in page.content()
    with page.expect_response(lambda answer: "/comment/" in answer.url and answer.ok, timeout=WAIT):
        comment.fill(COMMENT)
        comment.press("Tab")
    score = page.locator(f"input#{QUESTION}")
    with page.expect_response(lambda answer: "/grade/" in answer.url and answer.ok, timeout=WAIT):
        score.fill("2")
        score.press("Tab")


def validates(class_: Class, browser: Any, notebook: str) -> None:
    """A learner opens the notebook as it was released and presses Validate, which says what is missing."""
    page = class_.open(browser, f"lab/tree/{notebook}")
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=WAIT)
    page.get_by_role("button", name="Validate").first.click(timeout=WAIT)
    dialog = page.locator(".jp-Dialog")
    dialog.wait_for(timeout=WAIT)
    dialog.get_by_text("failed", exact=False).first.wait_for(timeout=WAIT)
    page.close()
