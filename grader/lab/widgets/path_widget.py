"""Path explorer: switch paths of a one- or two-layer model on and off, watch logits and loss move.

``path_explorer(model)`` in a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape

import ipywidgets as w
import torch
from matplotlib.figure import Figure
from torch import Tensor

from grader.circuits.paths import Path
from grader.lab.widgets.path_picture import path_picture
from grader.lab.widgets.path_sums import Paths, path_name, read_paths
from grader.lab.widgets.path_tables import (
    exactness,
    loss_table,
    next_table,
    share_table,
    token_losses,
)
from grader.lab.widgets.widget_base import CannotShow, Explorer, in_words, text_field, transformer
from grader.lab.widgets.widget_text import (
    Text,
    as_typed,
    given_or_default,
    read_text,
    token_labels,
    typed_text,
)
from grader.transformer import Transformer

_MOST_PATHS = 200  # switches that a page can hold
_GROUPS: dict[str, Callable[[Path], bool]] = {
    "all": lambda path: True,
    "none": lambda path: False,
    "direct only": lambda path: not path,
    "no virtual heads": lambda path: len(path) < 2,
}


@in_words("Path explorer")
def path_explorer(model: Transformer, text: str | Tensor | Sequence[int] = "") -> PathExplorer:
    """Each path of a model of one or two layers with a switch; logits and loss of what is on.

    text: what the model reads (a string, or ids (pos,)), a default if empty; patterns are those of
    the clean run, so the sum of all paths is the forward pass, and the widget says how exactly.
    Paper: "Path Expansion of Logits", "Term Importance Analysis".
    """
    return PathExplorer(transformer(model, least=1, most=2), text)


class PathExplorer(Explorer):
    """The widget; `paths` holds the terms, `switches` a checkbox for each."""

    def __init__(self, model: Transformer, text: str | Tensor | Sequence[int]) -> None:
        self.model = model
        self._check_size()
        self.text = text_field()
        self.token = w.Dropdown(
            description="after token", layout=w.Layout(width="230px"),
            style={"description_width": "80px"},
        )  # fmt: skip
        self._losses, self._sum = w.HTML(), w.HTML()
        self._tokens, self._next, self._shares = w.HTML(), w.HTML(), w.HTML()
        given = given_or_default(model, text)
        self.read: Text = read_text(model, given)
        self.paths: Paths = read_paths(model, self.read.tokens)
        self.switches = {
            path: w.Checkbox(
                value=True, description=path_name(path), indent=False,
                layout=w.Layout(width="auto", margin="0 10px 0 0"),
            )
            for path in self.paths.paths
        }  # fmt: skip
        row = w.Layout(flex_flow="row wrap", align_items="flex-start", grid_gap="0 28px")
        super().__init__(
            "Path explorer",
            about=(
                "Freeze the patterns, and the logits are a sum over paths. Switch paths on and off: "
                "the loss, the next token and each token's loss are those of the sum of what is on."
            ),
            controls=[self.text, self.token],
            body=[
                self._switchboard(), self._sum, self._tokens,
                w.Box([self._losses, self._next, self._shares], layout=row),
            ],
        )  # fmt: skip
        self.text.value = as_typed(model, given)
        self._show_text()
        self.watch(self._retake, self.text)
        self.watch(self._redraw, *self.switches.values())
        self.watch(self._redraw_token, self.token)

    def picture(self) -> Figure:
        """The losses as bars, and what each path adds to the next token."""
        position = int(self.token.value)
        return path_picture(
            {**self.paths.levels(), "the paths that are on": self.paths.loss(self.on)},
            [path_name(path) for path in self.paths.paths], self.paths.shares(position).tolist(),
            self.on.tolist(), after=self.read.labels[position], next_token=token_labels(self.model, [self.paths.target(position)])[0],
        )  # fmt: skip

    def summary(self) -> str:
        """Which part of the model is on, its loss and the model's, in words."""
        return (
            f"loss {self.paths.loss(self.on):.3f} nats, of the whole model "
            f"{float(self._all.mean()):.3f}. {exactness(self.paths, self.on)}"
        )

    @property
    def on(self) -> Tensor:
        """(path,) bool: which paths are switched on."""
        return torch.tensor([bool(self.switches[path].value) for path in self.paths.paths])

    def _check_size(self) -> None:
        heads = self.model.n_heads
        count = 1 + self.model.n_layers * heads + (heads**2 if self.model.n_layers == 2 else 0)
        if count > _MOST_PATHS:
            raise CannotShow(
                f"This model has {count} paths, and {_MOST_PATHS} switches are the most that can be "
                "used. Take term_importance or virtual_head_importance of notebook 06."
            )

    def _switchboard(self) -> w.Widget:
        """A line for the direct path, one for each layer, one for each head that ends a virtual head."""
        lines = [self._line("direct path", [()])]
        for layer in range(self.model.n_layers):
            singles = [path for path in self.switches if len(path) == 1 and path[0][0] == layer]
            lines.append(self._line(f"heads of layer {layer}", singles))
        for head in range(self.model.n_heads if self.model.n_layers == 2 else 0):
            through = [path for path in self.switches if len(path) == 2 and path[1][1] == head]
            lines.append(self._line(f"virtual heads into 1.{head}", through))
        buttons = []
        for name, which in _GROUPS.items():
            if self.model.n_layers == 2 or name != "no virtual heads":
                button = w.Button(description=name, layout=w.Layout(width="auto"))
                button.on_click(partial(self._switch, which))
                buttons.append(button)
        groups = w.Box(buttons, layout=w.Layout(flex_flow="row wrap", grid_gap="4px"))
        return w.VBox([groups, *lines])

    def _line(self, name: str, paths: Sequence[Path]) -> w.Widget:
        text = w.HTML(f"<span class='lab-name'>{name}</span>", layout=w.Layout(width="150px"))
        boxes = [self.switches[path] for path in paths]
        return w.Box([text, *boxes], layout=w.Layout(flex_flow="row wrap", align_items="center"))

    def _switch(self, which: Callable[[Path], bool], _: object) -> None:
        with self.quiet():
            for path, switch in self.switches.items():
                switch.value = which(path)
        self.try_to(self._redraw)

    def _retake(self) -> None:
        self.read = read_text(self.model, typed_text(self.text.value))
        self.paths = read_paths(self.model, self.read.tokens)
        self._show_text()

    def _show_text(self) -> None:
        with self.quiet():
            self.token.options = [(f"{i}: {name}", i) for i, name in enumerate(self.read.labels)]
            self.token.value = max(0, len(self.read.labels) - 2)
        if self.read.note:
            self.say(self.read.note)
        self._levels = self.paths.levels()
        self._all = self.paths.losses(torch.ones(len(self.paths.paths), dtype=torch.bool))
        self._redraw()

    @torch.no_grad()
    def _redraw(self) -> None:
        losses = self.paths.losses(self.on)
        self._losses.value = loss_table(self._levels, float(losses.mean()))
        exact = escape(exactness(self.paths, self.on))
        self._sum.value = f"<div class='lab-message' role='status'>{exact}</div>"
        uniform = next(iter(self._levels.values()))
        self._tokens.value = token_losses(self.read.labels, losses, self._all, uniform)
        self._redraw_token()

    def _redraw_token(self) -> None:
        position, names = int(self.token.value), partial(token_labels, self.model)
        logits = self.paths.sum(self.on)[position]
        self._next.value = next_table(
            self.paths, logits, position, names, self.read.labels[position]
        )
        self._shares.value = share_table(self.paths, self.on, position, names)
