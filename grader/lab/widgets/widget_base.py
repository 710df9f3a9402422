"""The frame that all widgets of the lab share: title, controls, what they show, and one line of words.

::

    class Counter(Explorer):
        def __init__(self, model):
            self.layer = w.BoundedIntText(description="layer", max=model.n_layers - 1)
            self.shown = w.HTML()
            super().__init__("Counter", controls=[self.layer], body=[self.shown])
            self.watch(self.redraw, self.layer)

        def redraw(self):            # what can't be shown: raise CannotShow("a sentence")
            self.shown.value = html_table(...)

        def picture(self):           # the same as a matplotlib Figure, where no kernel runs
            return pictures.matrix(...)

    @in_words("Counter")
    def counter(model):              # the one line of the notebook
        return Counter(transformer(model))

What a widget shows live is HTML (`widget_html`): numbers in the page, an explanation on hover, both of
JupyterLab's themes. What it leaves in the notebook's file is a PNG, which GitHub, a rendered site and
a PDF show. Nothing enters pyplot, so that redrawing keeps no figure in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from html import escape
from typing import Any, ParamSpec

import ipywidgets as w
from matplotlib.figure import Figure

from grader.lab.picture_style import Picture, picture
from grader.lab.widgets.widget_html import STYLE_SHEET
from grader.transformer import Transformer

P = ParamSpec("P")
_FEW_HEADS = 16  # as many buttons still fit beside each other


class CannotShow(ValueError):
    """What was asked for can't be shown; the text says why and what to do, for a learner to read."""


@contextmanager
def plainly() -> Iterator[None]:
    """A ValueError of the reference mathematics, whose text is for readers, becomes a CannotShow."""
    try:
        yield
    except CannotShow:
        raise
    except ValueError as trouble:
        raise CannotShow(str(trouble)) from None


class Explorer(w.VBox):  # type: ignore[misc]  # ipywidgets comes without types
    """A widget with a title, a row of controls, a body, and a line for messages.

    about: one sentence below the title, what is seen and how to read it
    """

    def __init__(
        self,
        title: str,
        *,
        controls: Sequence[w.Widget] = (),
        body: Sequence[w.Widget] = (),
        about: str = "",
    ) -> None:
        self.heading = title
        self._quiet = False
        words = f"<p class='lab-about'>{escape(about)}</p>" if about else ""
        head = w.HTML(
            f"{STYLE_SHEET}<div class='lab-title' role='heading' aria-level='4'>"
            f"{escape(title)}</div>{words}"
        )
        row = w.Box(
            list(controls),
            layout=w.Layout(flex_flow="row wrap", align_items="center", grid_gap="4px 14px"),
        )
        self._line = w.HTML()
        self.message = ""
        self.say("")
        parts = [head, *([row] if controls else []), self._line, *body]
        super().__init__(parts, layout=w.Layout(max_width="100%", overflow="hidden"))
        self.add_class("lab-explorer")

    def picture(self) -> Figure:
        """What is shown now as a figure, for readers without a kernel; subclasses draw it."""
        return words_picture(self.heading, self.message)

    def summary(self) -> str:
        """What is shown now in words, for readers who see neither widget nor picture."""
        return self.message

    def say(self, message: str, *, trouble: bool = False) -> None:
        """Put a sentence into the line for messages; trouble: a screen reader says it at once."""
        self.message = message
        role, mark = ("alert", "⚠ ") if trouble else ("status", "")
        text = f"{mark}{escape(message)}" if message else ""
        kind = "lab-message lab-trouble" if trouble else "lab-message"
        self._line.value = f"<div class='{kind}' role='{role}'>{text}</div>"

    def watch(self, redraw: Callable[[], None], *controls: w.Widget) -> None:
        """Call ``redraw`` when one of the controls changes; its CannotShow becomes the message."""

        def changed(_: Any) -> None:
            if not self._quiet:
                self.try_to(redraw)

        for control in controls:
            control.observe(changed, names="value")

    def try_to(self, redraw: Callable[[], None]) -> None:
        """Clear the message and redraw; what can't be shown leaves the body as it was, and says so."""
        with (
            self._line.hold_sync()
        ):  # sent once: an empty line between two would make the page jump
            self.say("")
            try:
                redraw()
            except CannotShow as trouble:
                self.say(str(trouble), trouble=True)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Change controls inside, from code, without a redraw for each."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def __repr__(self) -> str:
        words = self.summary()
        return f"{self.heading}: {words}" if words else self.heading

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The live widget, and beside it a PNG and words for whoever can't run it.

        No text/html: readers without a kernel would prefer it to the picture.
        """
        figure = self.picture()
        assert isinstance(figure, Picture)
        data, metadata = figure._repr_mimebundle_()
        metadata["image/png"] |= {"alt": repr(self)}  # type: ignore[dict-item]
        live = {
            "version_major": 2, "version_minor": 0, "model_id": self.model_id
        }  # fmt: skip
        return {
            "text/plain": repr(self),
            **data,
            "application/vnd.jupyter.widget-view+json": live,
        }, metadata


class Notice(Explorer):
    """Only a title and a sentence: what takes the place of a widget that can't be made."""

    def __init__(self, title: str, message: str) -> None:
        super().__init__(title)
        self.say(message, trouble=True)


def in_words(title: str) -> Callable[[Callable[P, Explorer]], Callable[P, Explorer]]:
    """Decorates the function a notebook calls: CannotShow becomes a `Notice`, never a traceback."""

    def decorate(make: Callable[P, Explorer]) -> Callable[P, Explorer]:
        @wraps(make)
        def made(*args: P.args, **kwargs: P.kwargs) -> Explorer:
            try:
                return make(*args, **kwargs)
            except CannotShow as trouble:
                return Notice(title, str(trouble))

        return made

    return decorate


def transformer(model: Any, *, least: int = 0, most: int | None = None) -> Transformer:
    """The model, detached from any gradient, if it has ``least`` to ``most`` layers.

    Raises CannotShow in words otherwise, and for anything but a Transformer.
    """
    if not isinstance(model, Transformer):
        raise CannotShow(
            f"This draws a Transformer, such as models.load('two-layer'); a {type(model).__name__} came."
        )
    if model.n_layers < least or (most is not None and model.n_layers > most):
        wanted = f"at least {least}" if most is None else f"{least} to {most}"
        needs = wanted if least != most else str(least)
        raise CannotShow(
            f"This needs a model of {needs} layer{'s' if needs not in ('1', 'at least 1') else ''}; "
            f"this one has {model.n_layers}."
        )
    return model.with_weights(**{name: weight.detach() for name, weight in model.weights().items()})


def head_picker(
    model: Transformer,
    *,
    layers: Sequence[int] | None = None,
    chosen: tuple[int, int] | None = None,
) -> w.Widget:
    """Buttons, or for many heads a list, whose value is (layer, head).

    layers: those to choose from, all of them if not given; chosen: the head picked at first
    Raises CannotShow where there is no such head.
    """
    heads = [
        (layer, head)
        for layer in (range(model.n_layers) if layers is None else layers)
        for head in range(model.n_heads)
    ]
    if not heads or (chosen is not None and chosen not in heads):
        name = "head" if chosen is None else f"head {chosen[0]}.{chosen[1]}"
        there = f"0.0 … {heads[-1][0]}.{heads[-1][1]}" if heads else "none at all"
        raise CannotShow(f"This model has no {name} to choose; there are {there}.")
    options = [(f"{layer}.{head}", (layer, head)) for layer, head in heads]
    common = {"options": options, "value": chosen or heads[0], "description": "head"}
    if len(heads) > _FEW_HEADS:
        return w.Dropdown(**common, layout=w.Layout(width="170px"))
    return w.ToggleButtons(
        **common,
        tooltips=[f"layer {layer}, head {head}" for layer, head in heads],
        style={"button_width": "46px", "description_width": "40px"},
        layout=w.Layout(width="max-content", max_width="100%"),
    )


def text_field() -> w.Widget:
    """A line to type the model's text into; it counts when the reader leaves it or presses Enter."""
    return w.Text(
        description="text", continuous_update=False,
        layout=w.Layout(flex="1 1 420px", width="auto"), style={"description_width": "40px"},
    )  # fmt: skip


def words_picture(title: str, message: str) -> Figure:
    """A picture of a title and a sentence, for what has no picture of its own."""
    figure, grid = picture(7.0, 1.1)
    place = grid[0, 0]
    place.axis("off")
    place.text(0.0, 0.85, title, weight="bold", size=11, va="center")
    place.text(0.0, 0.3, message, size=9, va="center", wrap=True)
    return figure
