"""The widgets in a real JupyterLab: their controls moved at the keyboard, their numbers read off the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from browsing import Notebook, chromium, course
from nbformat.v4 import new_code_cell, new_notebook

from grader import models
from grader.circuits.induction_heads import matching_score
from grader.circuits.one_layer import copying_score
from grader.lab.widgets import moments, workshop

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = [pytest.mark.long, pytest.mark.needs_browser]

CELLS = {
    "imports": "from grader import models, progress\n"
    "from grader.lab import eigenvalue_plane, induction_workshop, phase_change\n"
    "model = models.load('two-layer-curriculum')",
    "plane": "eigenvalue_plane(model, 1, 0)",
    "phase": "phase_change()",
    "workshop": "induction_workshop()",
    "map": "progress()",
    "trouble": "eigenvalue_plane(models.load('zero-layer'))",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Notebook, Path]]:
    home = tmp_path_factory.mktemp("reader")
    with course(home / "course", home) as lab, chromium() as browser:
        cells = [new_code_cell(source, id=name) for name, source in CELLS.items()]
        notebook = new_notebook(cells=cells)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        nbformat.write(notebook, home / "course/00-residual-stream/widgets.ipynb")
        page = Notebook(browser, lab, "/tree/00-residual-stream/widgets.ipynb")
        page.run_all()
        page.wait_until_idle()
        assert page.errors() == []
        yield page, home
        assert page.problems == []
        page.end()


def shown(opened: tuple[Notebook, Path], cell: str) -> Locator:
    return opened[0].show(cell)


def numbers(element: Any, table: int = 0) -> list[list[str]]:
    """The cells of a table on the page, row by row."""
    rows: list[list[str]] = (
        element.locator("table.lab-table")
        .nth(table)
        .locator("tbody tr")
        .evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.innerText))")
    )
    return rows


def message(element: Any) -> str:
    return str(element.locator(".lab-message").inner_text())


def changed(element: Any, before: str) -> str:
    """The widget's sentence once it is another than before."""
    element.page.wait_for_function(
        "([element, before]) => element.querySelector('.lab-message').innerText !== before",
        arg=[element.element_handle(), before],
    )
    return message(element)


def press(element: Any, control: str, key: str, nth: int = 0) -> None:
    element.locator(control).nth(nth).focus()
    element.page.keyboard.press(key)


def both_looks(opened: tuple[Notebook, Path], cell: str) -> None:
    """Screenshots in both themes and widths."""
    notebook, home = opened
    for theme in ("Dark", "Light"):
        notebook.theme(theme)
        for size in ("narrow", "wide"):
            notebook.picture(home / f"{cell}-{theme}-{size}.png", size)


def test_the_eigenvalue_plane_shows_the_reference_scores(opened: tuple[Notebook, Path]) -> None:
    model = models.load("two-layer-curriculum")

    def scores(layer: int, head: int, reads: tuple[int, int]) -> list[str]:
        at = layer, head
        ov = copying_score(model.W_E, model.W_V[at], model.W_O[at], model.W_U)
        W_OV = model.W_V[reads] @ model.W_O[reads]
        qk = matching_score(model.W_E, model.W_Q[at], model.W_K[at], W_OV)
        return [f"{float(ov):.3f}", f"{float(qk):.3f}"]

    element = shown(opened, "plane")
    assert [row[1] for row in numbers(element)] == scores(1, 0, (0, 1))
    assert element.locator("svg circle title").count() > 0
    before = message(element)
    press(element, ".widget-toggle-button:has-text('1.1')", "Enter")
    assert "Head 1.1." in changed(element, before)
    assert [row[1] for row in numbers(element)] == scores(1, 1, (0, 1))
    element.locator("select").select_option("nothing")
    assert "looks away from" in changed(element, message(element))
    both_looks(opened, "plane")


def test_the_phase_change_follows_the_arrow_keys(opened: tuple[Notebook, Path]) -> None:
    run = moments.Run(models.checkpoints())
    element = shown(opened, "phase")
    before = message(element)
    press(element, ".noUi-handle", "ArrowLeft")
    after = changed(element, before)
    assert after.startswith("Step 450")
    losses = run.losses(moments.RANDOM)[-2]
    [[step, loss, score, _]] = numbers(element)
    assert [step, loss, score] == ["450", f"{losses.copied:.3f}", f"{losses.in_context:z.3f}"]
    assert element.locator("svg[role=img]").count() == 3
    both_looks(opened, "phase")


def test_the_workshop_fails_and_says_why(opened: tuple[Notebook, Path]) -> None:
    element = shown(opened, "workshop")
    text = workshop.random_text(26, workshop.N_CTX, 0)
    outcome = workshop.run(workshop.by_hand(1), text, 1.0, 1.0)
    chances = [f"{100 * chance:.0f}" for chance in outcome.probability.tolist()]
    assert numbers(element)[3][1:] == chances
    before = message(element)
    press(element, ".widget-toggle-button:has-text('2')", "Enter")
    assert "the token 2 steps on" in (before := changed(element, before))
    box = element.locator("input[type=text]").last
    box.fill("ab1ab1")
    box.press("Enter")
    assert "knows the letters" in changed(element, before)
    assert element.locator("[role=alert]").count() == 1
    both_looks(opened, "workshop")


def test_what_cannot_be_shown_is_said_where_the_widget_would_be(
    opened: tuple[Notebook, Path],
) -> None:
    element = shown(opened, "trouble")
    assert "at least 1 layer; this one has 0" in message(element)


def test_the_map_leads_to_an_exercise(opened: tuple[Notebook, Path]) -> None:
    element = shown(opened, "map")
    squares = element.locator("ol a[href*='cell-id=']")
    assert squares.count() == 76
    assert "next" in (element.locator("[aria-current=step]").get_attribute("title") or "")
    assert re.search(r"0 of \d+ points, 0 of 76 exercises passed", element.inner_text())
    both_looks(opened, "map")
    squares.first.focus()
    element.page.keyboard.press("Enter")
    element.page.wait_for_function(
        "window.jupyterapp.shell.currentWidget.context?.path.endsWith('00-residual-stream.ipynb')"
    )
