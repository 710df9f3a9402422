"""How long a widget takes to redraw when a control moves: from the new value to the new HTML.

At the size of the shipped models, with a screenful of text. Each control in turn goes on to a value of
its own, several times; what is measured is what the kernel does, not the browser.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets as w

from grader import lab, models
from tests.bench.rows import Row, seconds

MOST = 150.0  # ms, in the median
ROUNDS = 4
TEXTS = (
    "for name in sorted(self.names):\n    print(name, self.names[name], self.read(name))",
    "Mr Zorblatt met Mrs Quelch. She said to Mr Zorblatt that Mrs Quelch had read the file.",
)
DESTINATIONS = (".", "=", ":", "(")


def rows() -> Iterator[Row]:
    two, one = models.load("two-layer-curriculum"), models.load("one-layer")
    widgets: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
        "attention_viewer": (lambda: lab.attention_viewer(two, TEXTS[1]), TEXTS),
        "skip_trigrams": (lambda: lab.skip_trigrams(one, "("), DESTINATIONS),
        "path_explorer": (lambda: lab.path_explorer(two, TEXTS[1]), TEXTS),
        "composition_map": (lambda: lab.composition_map(two), ()),
        "eigenvalue_plane": (lambda: lab.eigenvalue_plane(two), ()),
        "phase_change": (lab.phase_change, TEXTS),
        "induction_workshop": (lambda: lab.induction_workshop(two), TEXTS),
    }
    for name, (make, texts) in widgets.items():
        widget = make()
        times = redraws(widget, texts)
        widget.close()
        yield Row(f"redraw of {name}", times, "ms", at_most=MOST)


def redraws(widget: Any, texts: tuple[str, ...], rounds: int = ROUNDS) -> tuple[float, ...]:
    """Milliseconds of every move that showed. Raises AssertionError where one fails or most show nothing."""
    controls = [one for one in walk(widget) if isinstance(one, MOVED) and not one.disabled]
    typed = itertools.cycle(texts)
    times = []
    for _, control in itertools.product(range(rounds), controls):
        before = html_of(widget)
        took = seconds(lambda: move(control, typed)) * 1e3  # noqa: B023
        assert "role='alert'" not in html_of(widget), widget.message
        if html_of(widget) != before:
            times.append(took)
    moves = rounds * len(controls)
    assert 2 * len(times) >= moves, f"{moves} moves, and only {len(times)} changed what is shown"
    return tuple(times)


def move(control: w.Widget, typed: Iterator[str]) -> None:
    """Give a control its next value: the next choice, the other side, a further step, another text."""
    match control:
        case w.Button():
            control.click()
        case w.Checkbox():
            control.value = not control.value
        case w.Text():
            control.value = next(typed)
        case w.FloatSlider() | w.BoundedIntText():
            further = control.value + 7 * control.step
            control.value = further if further <= control.max else control.min
        case _ if control.options:
            control.index = ((control.index or 0) + 1) % len(control.options)


MOVED = (
    w.Button, w.Checkbox, w.Text, w.FloatSlider, w.BoundedIntText,
    w.Dropdown, w.ToggleButtons, w.SelectionSlider,
)  # fmt: skip


def walk(widget: w.Widget) -> Iterator[w.Widget]:
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def html_of(widget: w.Widget) -> str:
    return "\n".join(str(one.value) for one in walk(widget) if isinstance(one, w.HTML))
