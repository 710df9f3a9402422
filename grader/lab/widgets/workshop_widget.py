"""The workshop: an induction circuit whose knobs you turn until it fails, and see why.

::

    from grader.lab import induction_workshop
    induction_workshop()             # the circuit written by hand
    induction_workshop(model)        # the one found in a trained model
"""

from __future__ import annotations

import ipywidgets as w
import numpy as np
from matplotlib.figure import Figure
from torch import Tensor

from grader.lab.widgets import workshop
from grader.lab.widgets.widget_base import CannotShow, Explorer, in_words, plainly, transformer
from grader.lab.widgets.widget_html import heat_table
from grader.lab.widgets.widget_svg import side_by_side
from grader.lab.widgets.widget_text import Text, read_text, token_labels
from grader.lab.widgets.workshop import Circuit, Outcome
from grader.lab.widgets.workshop_picture import workshop_picture
from grader.lab.widgets.workshop_table import predictions_table
from grader.lab.widgets.workshop_words import told
from grader.transformer import Transformer

_TITLE = "Induction workshop"
_HEATS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)
_WIDE = w.Layout(width="340px")
_NAMED = {"description_width": "88px"}


class InductionWorkshop(Explorer):
    """Controls: strength, temperature, offset, the text; ``circuit`` None is the one by hand."""

    def __init__(self, circuit: Circuit | None) -> None:
        self._found = circuit
        self._seed = 0
        self.strength = w.FloatSlider(
            1.0, min=-1.0, max=2.0, step=0.1, description="strength", layout=_WIDE, style=_NAMED
        )
        self.temperature = w.SelectionSlider(
            options=_HEATS, value=1.0, description="temperature", layout=_WIDE, style=_NAMED
        )
        self.offset = w.ToggleButtons(
            options=workshop.OFFSETS, value=1, description="looks back", disabled=bool(circuit),
            tooltips=[f"the first head looks {k} back" for k in workshop.OFFSETS],
            style={"button_width": "36px"},
        )  # fmt: skip
        self.text = w.Text(
            description="text", placeholder="empty: random tokens that repeat", layout=_WIDE,
            continuous_update=False, style=_NAMED,
        )  # fmt: skip
        self.another = w.Button(description="other random tokens", layout=w.Layout(width="170px"))
        self.reset = w.Button(description="as it was built")
        self.predictions, self.patterns = w.HTML(), w.HTML()
        super().__init__(
            _TITLE,
            controls=[
                self.strength,
                self.temperature,
                self.offset,
                self.text,
                self.another,
                self.reset,
            ],
            body=[self.predictions, self.patterns],
            about=_about(circuit),
        )
        self.watch(self.redraw, self.strength, self.temperature, self.offset, self.text)
        self.another.on_click(lambda _: self._draw_text())
        self.reset.on_click(lambda _: self._reset())
        self.try_to(self.redraw)

    @property
    def circuit(self) -> Circuit:
        """The circuit before strength and temperature are edited."""
        return self._found or workshop.by_hand(self.offset.value)

    def outcome(self) -> Outcome:
        """What the edited circuit does on the text. Raises CannotShow where that can't be shown."""
        with plainly():
            return workshop.run(
                self.circuit, self._read().tokens, self.strength.value, self.temperature.value
            )

    def redraw(self) -> None:
        outcome = self.outcome()
        labels = self._labels(outcome.tokens)
        guesses = self._labels(outcome.guess)
        self.predictions.value = predictions_table(outcome, labels, guesses)
        patterns = (outcome.looked_back, outcome.looked)
        self.patterns.value = side_by_side(
            *(
                _pattern(pattern, labels, name)
                for pattern, name in zip(patterns, self._names(), strict=True)
            )
        )
        self.say(f"{self._told(outcome)} {self._read().note}".strip())

    def picture(self) -> Figure:
        try:
            outcome = self.outcome()
        except CannotShow:
            return super().picture()
        return workshop_picture(outcome, self._labels(outcome.tokens), self._names())

    def _told(self, outcome: Outcome) -> str:
        return told(outcome, self.strength.value, self.temperature.value, self.offset.value)

    def _read(self) -> Text:
        model, typed = self.circuit.model, self.text.value
        if not typed.strip():
            return read_text(model, workshop.random_text(model.d_vocab, model.n_ctx, self._seed))
        return read_text(model, typed if self._found else workshop.letters(typed))

    def _labels(self, tokens: Tensor) -> list[str]:
        if self._found:
            return token_labels(self._found.model, tokens)
        return [workshop.LETTERS[token] for token in tokens.tolist()]

    def _names(self) -> tuple[str, str]:
        circuit, back = self.circuit, self.offset.value
        where = "" if self._found else f": looks {back} back"
        first, second = (f"{layer}.{head}" for layer, head in (circuit.previous, circuit.induction))
        return f"head {first}{where}", f"head {second}: looks for what {first} left"

    def _draw_text(self) -> None:
        self._seed += 1
        with self.quiet():
            self.text.value = ""
        self.try_to(self.redraw)

    def _reset(self) -> None:
        with self.quiet():
            self.strength.value, self.temperature.value, self.offset.value = 1.0, 1.0, 1
        self.try_to(self.redraw)


def _pattern(pattern: Tensor, labels: list[str], name: str) -> str:
    future = np.triu(np.ones(pattern.shape, dtype=bool), 1)

    def say(dst: int, src: int, weight: float) -> str:
        return (
            f"{labels[dst]} (position {dst}) looks at {labels[src]} (position {src}): {weight:.3f}"
        )

    return heat_table(pattern.numpy(), labels, labels, caption=name, hidden=future, say=say)


def _about(circuit: Circuit | None) -> str:
    whose = "A circuit written by hand over the letters a to z."
    if circuit:
        first, second = (f"{layer}.{head}" for layer, head in (circuit.previous, circuit.induction))
        whose = (
            f"Head {second} and head {first}, which its keys read most; it looks back as trained."
        )
    return (
        f"{whose} Strength: what the later head writes, times this. Temperature: the scores of both "
        "heads over this."
    )


@in_words(_TITLE)
def induction_workshop(model: Transformer | None = None) -> InductionWorkshop:
    """Edit an induction circuit and see it succeed and fail on text that repeats.

    model: its induction head is edited, with the head that its keys read most. Without one it is the
    circuit written by hand, whose first head can also look elsewhere than one back.
    """
    if model is None:
        return InductionWorkshop(None)
    model = transformer(model, least=2)
    with plainly():
        return InductionWorkshop(workshop.found_in(model))
