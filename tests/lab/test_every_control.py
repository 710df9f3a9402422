"""Every control of every widget, moved in a real JupyterLab. The page must then say what the same widget
says here, where other tests hold it against the reference mathematics. Screenshots, in both themes and
two widths, stay in pytest's folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ipywidgets as w
import nbformat
import page
import pytest
from browsing import Notebook, chromium, course
from nbformat.v4 import new_code_cell, new_notebook

from grader import lab, models

pytestmark = [pytest.mark.long, pytest.mark.needs_browser]

TEXT = "def read(self):\n    return self.read"
OTHER = "for name in names: print(name)"
PATIENCE = 60.0  # seconds for one redraw on a busy machine; how long it takes is measured elsewhere


class Shown:
    """One widget as it stands in the page, and what a hand can do to it."""

    def __init__(self, notebook: Notebook, cell: str) -> None:
        self.place = notebook.show(cell).locator(".lab-explorer").first
        self.place.wait_for(timeout=PATIENCE * 1000)

    def press(self, name: str) -> None:
        self.place.get_by_role("button", name=name, exact=True).first.click()

    def tick(self, name: str) -> None:
        self.place.get_by_label(name, exact=True).first.click()

    def choose(self, label: str, index: int) -> None:
        self._beside(label).locator("select").select_option(index=index)

    def type(self, label: str, text: str) -> None:
        field = self._beside(label).locator("input")
        field.fill(text)
        field.press("Enter")

    def slide(self, label: str, key: str) -> None:
        handle = self._beside(label).locator(".noUi-handle").first
        handle.focus()
        handle.press(key)

    def _beside(self, label: str) -> Any:
        return self.place.locator(".widget-label", has_text=label).first.locator("xpath=..")

    def html(self) -> str:
        pieces = self.place.locator(".widget-html-content").evaluate_all(
            "nodes => nodes.map(node => node.innerHTML)"
        )
        return "\n".join(pieces)


Hand = Callable[[Shown], None]
Step = tuple[Hand, Callable[[Any], None]]
"""What is done at the page, and the same to the widget here."""


@dataclass(frozen=True)
class Tried:
    """A widget: the line that makes it, and what is done to it, step by step."""

    line: str
    steps: dict[str, Step]


def button(name: str, control: str, value: Any) -> Step:
    return lambda shown: shown.press(name), lambda twin: setattr(
        getattr(twin, control), "value", value
    )


def choice(label: str, control: str, index: int) -> Step:
    def here(twin: Any) -> None:
        chosen = getattr(twin, control)
        chosen.value = chosen.options[index][1]

    return lambda shown: shown.choose(label, index), here


def typed(label: str, control: str, text: str, value: Any = None) -> Step:
    meant = text if value is None else value
    return lambda shown: shown.type(label, text), lambda twin: setattr(
        getattr(twin, control), "value", meant
    )


def ticked(name: str, switch: Callable[[Any], w.Widget]) -> Step:
    def here(twin: Any) -> None:
        box = switch(twin)
        box.value = not box.value

    return lambda shown: shown.tick(name), here


def clicked(name: str) -> Step:
    def here(twin: Any) -> None:
        next(
            one for one in walk(twin) if isinstance(one, w.Button) and one.description == name
        ).click()

    return lambda shown: shown.press(name), here


def slid(label: str, key: str, control: str, value: Callable[[Any], Any]) -> Step:
    def here(twin: Any) -> None:
        slider = getattr(twin, control)
        slider.value = value(slider)

    return lambda shown: shown.slide(label, key), here


def walk(widget: w.Widget) -> Iterator[w.Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def html_of(widget: w.Widget) -> str:
    """All that a widget's HTML says, in the page's order."""
    return "\n".join(str(one.value) for one in walk(widget) if isinstance(one, w.HTML))


def said(html: str) -> tuple[list[list[str]], list[str]]:
    return page.rows(html), page.titles(html)


TRIED = {
    "attention": Tried(
        f"lab.attention_viewer(two, {TEXT!r})",
        {
            "head": button("1.1", "head", (1, 1)),
            "token": choice("token", "token", 3),
            "weigh": ticked("weigh by the size of what is moved", lambda t: t.weigh),
            "numbers": ticked("numbers", lambda t: t.numbers),
            "text": typed("text", "text", OTHER),
        },
    ),
    "skip_trigrams": Tried(
        "lab.skip_trigrams(models.load('one-layer'), '(')",
        {
            "head": button("0.3", "head", (0, 3)),
            "source": choice("source", "source", 1),
            "another source": choice("source", "source", 0),
            "destination": typed("destination", "destination", "."),
            "least": typed("seen at least", "least", "40", 40),
        },
    ),
    "paths": Tried(
        f"lab.path_explorer(two, {TEXT!r})",
        {
            "switch": ticked("0.1", lambda t: t.switches[((0, 1),)]),
            "virtual head": ticked("0.0→1.1", lambda t: t.switches[((0, 0), (1, 1))]),
            "after token": choice("after token", "token", 4),
            "direct only": clicked("direct only"),
            "text": typed("text", "text", OTHER),
        },
    ),
    "composition": Tried(
        "lab.composition_map(two)",
        {
            "circuit": button("OV", "circuit", "V"),
            "threshold": slid("threshold", "Home", "threshold", lambda slider: slider.min),
            "kind": ticked("Q-composition", lambda t: t.kinds["Q"]),
            "pair": choice("pair", "pair", 3),
        },
    ),
    "eigenvalues": Tried(
        "lab.eigenvalue_plane(two)",
        {
            "keys read": choice("keys read", "reads", 0),
            "head": button("1.2", "head", (1, 2)),
        },
    ),
    "phase": Tried(
        "lab.phase_change()",
        {
            "step": slid("step", "Home", "step", lambda slider: 0),
            "next step": slid("step", "ArrowRight", "step", lambda slider: 1),
            "head": button("0.1", "head", (0, 1)),
            "text": typed("head reads", "text", OTHER),
        },
    ),
    "workshop": Tried(
        "lab.induction_workshop()",
        {
            "strength": slid("strength", "Home", "strength", lambda slider: slider.min),
            "offset": button("2", "offset", 2),
            "as built": clicked("as it was built"),
            "temperature": slid("temperature", "End", "temperature", lambda slider: 8.0),
            "text": typed("text", "text", "abcabcabc"),
            "other tokens": clicked("other random tokens"),
        },
    ),
}
SETUP = "from grader import lab, models\ntwo = models.load('two-layer-curriculum')"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("player")


@pytest.fixture(scope="module")
def notebook(home: Path) -> Iterator[Notebook]:
    cells = [new_code_cell(SETUP, id="setup")]
    cells += [new_code_cell(tried.line, id=name) for name, tried in TRIED.items()]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    with course(home / "course", home) as served, chromium() as browser:
        nbformat.write(
            new_notebook(cells=cells, metadata=kernel), home / "course" / "widgets.ipynb"
        )
        opened = Notebook(browser, served, "/tree/widgets.ipynb")
        opened.run_all()
        opened.wait_until_idle()
        yield opened
        opened.end()


@pytest.mark.parametrize("name", TRIED)
def test_the_page_follows_every_control(name: str, notebook: Notebook, home: Path) -> None:
    tried = TRIED[name]
    known = {"lab": lab, "models": models, "two": models.load("two-layer-curriculum")}
    twin, shown = eval(tried.line, known), Shown(notebook, name)
    agree(shown, twin, "as it opens")
    for step, (at_the_page, here) in tried.steps.items():
        before = said(html_of(twin)), twin.message
        here(twin)
        assert (said(html_of(twin)), twin.message) != before, f"{step} changes nothing to be read"
        at_the_page(shown)
        agree(shown, twin, step)
    for theme in ("Dark", "Light"):
        notebook.theme(theme)
        for size in ("narrow", "wide"):
            notebook.picture(home / f"{name}-{theme.lower()}-{size}.png", size)
    assert notebook.errors() == []
    assert notebook.problems == []


@pytest.mark.parametrize("name", TRIED)
def test_axe_finds_nothing_serious(name: str, notebook: Notebook) -> None:
    from axe_playwright_python.sync_playwright import Axe

    Shown(notebook, name)
    here = [[".jp-Cell.jp-mod-active .lab-explorer"]]
    # ipywidgets gives a slider's handle no name and Python no way to; its description stands beside it.
    nameless = [[".noUi-handle"]]
    found = Axe().run(notebook.page, context={"include": here, "exclude": nameless})
    serious = [
        (one["id"], one["help"], one["nodes"][0]["html"][:200])
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def agree(shown: Shown, twin: Any, when: str) -> None:
    """Wait until the page says what the twin says."""
    wanted, deadline = said(html_of(twin)), time.monotonic() + PATIENCE
    while (found := said(shown.html())) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    assert found == wanted, when
