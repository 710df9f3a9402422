"""The phase change, step by step: drag through a run's snapshots and watch induction appear.

::

    from grader.lab import phase_change
    phase_change()                        # the shipped run
    phase_change("two-layer")             # the other one
    phase_change(watch.snapshots)         # your own, kept by `live.phase()` while it trained
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import ipywidgets as w
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from grader import models
from grader.circuits.induction_heads import repeated_tokens
from grader.lab.widgets.moments import CODE, RANDOM, Run
from grader.lab.widgets.phase_picture import phase_picture
from grader.lab.widgets.widget_base import CannotShow, Explorer, head_picker, in_words, plainly
from grader.lab.widgets.widget_html import heat_table, html_table
from grader.lab.widgets.widget_svg import chart, side_by_side
from grader.lab.widgets.widget_text import Text, read_text
from grader.transformer import Transformer

_TITLE = "Phase change"
_WIDE = w.Layout(width="420px")
_PERIOD = 10  # of the text whose pattern is shown: three copies still fit a page


class PhaseChange(Explorer):
    """Controls: the step, the text that the losses are on, the head, and the text that it reads."""

    def __init__(self, run: Run, on: str) -> None:
        self.run = run
        steps = [(f"{step:,}", i) for i, step in enumerate(run.steps)]
        self.step = w.SelectionSlider(
            options=steps, value=len(steps) - 1, description="step", layout=_WIDE
        )
        self.on = w.ToggleButtons(
            options=list(run.texts), value=on, description="losses on",
            style={"button_width": "200px"},
        )  # fmt: skip
        self.head = head_picker(run.last)
        self.head.value = divmod(int(run.matching[-1].argmax()), run.last.n_heads)
        self.text = w.Text(
            description="head reads", placeholder="empty: random tokens, three times",
            continuous_update=False, layout=_WIDE,
        )  # fmt: skip
        self.figures, self.curves, self.pattern = w.HTML(), w.HTML(), w.HTML()
        super().__init__(
            _TITLE,
            controls=[self.step, self.on, self.head, self.text],
            body=[self.figures, self.curves, self.pattern],
            about="Drag through the training. Loss: on tokens that looking back can predict. In-context "
            "score: the loss late in the text less the loss near its beginning, which nobody can predict "
            "where tokens are random.",
        )
        self.watch(self.redraw, self.step, self.on, self.head, self.text)
        self.try_to(self.redraw)

    def now(self) -> tuple[float, float, float]:
        """Loss and in-context score on the chosen text, prefix matching of the chosen head."""
        losses = self.run.losses(self.on.value)[self.step.value]
        return losses.copied, losses.in_context, self._matching()[self.step.value]

    def _matching(self) -> list[float]:
        """The chosen head's prefix matching at every snapshot."""
        return list(self.run.matching[:, *self.head.value].tolist())

    def attention(self) -> tuple[Text, Tensor]:
        """The text, and the chosen head's pattern (dst, src) on it at this step."""
        model = self.run.snapshots[self.step.value][1]
        typed = self.text.value.strip()
        text = read_text(model, typed or _repeating(model.d_vocab, model.n_ctx))
        layer, head = self.head.value
        with torch.no_grad():
            return text, model.run_with_cache(text.tokens)[1].pattern[layer, head]

    def redraw(self) -> None:
        text, pattern = self.attention()
        step, head = self._step(), self._head()
        self.figures.value = html_table(
            ["step", "loss, nats", "in-context score", f"prefix matching of {head}"],
            [[step, *self.now()]],
        )
        self.curves.value = side_by_side(*self._charts())
        self.pattern.value = heat_table(
            pattern.numpy(), text.labels, text.labels, caption=f"Head {head} at step {step}",
            hidden=np.triu(np.ones(pattern.shape, dtype=bool), 1),
        )  # fmt: skip
        self.say(f"{self.summary()} {text.note}".strip())

    def picture(self) -> Figure:
        try:
            text, pattern = self.attention()
        except CannotShow:
            return super().picture()
        return phase_picture(
            self._lines(), self._others(), self.run.steps, self.step.value, pattern, text.labels,
            f"Head {self._head()} at step {self._step()}",
        )  # fmt: skip

    def summary(self) -> str:
        loss, score, matching = self.now()
        return (
            f"Step {self._step()}, {self.on.value}: loss {loss:.2f}, in-context score {score:z.2f}; "
            f"prefix matching of head {self._head()} {matching:.2f}."
        )

    def _step(self) -> str:
        return f"{self.run.steps[self.step.value]:,}"

    def _head(self) -> str:
        layer, head = self.head.value
        return f"{layer}.{head}"

    def _lines(self) -> dict[str, list[float]]:
        losses = self.run.losses(self.on.value)
        return {
            "loss after the first copy (nats)": [snapshot.copied for snapshot in losses],
            "in-context score (nats)": [snapshot.in_context for snapshot in losses],
            f"prefix matching of {self._head()} (others grey)": self._matching(),
        }

    def _others(self) -> list[list[float]]:
        """Prefix matching of all heads: a line each."""
        return list(self.run.matching.flatten(1).T.tolist())

    def _charts(self) -> list[str]:
        steps = [f"{step:,}" for step in self.run.steps]
        *losses, (heads, matching) = self._lines().items()
        drawn = [
            chart(heights, steps, title=title, at=self.step.value, words=_read_out(title, heights))
            for title, heights in losses
        ]
        return [
            *drawn,
            chart(
                matching, steps, title=heads, at=self.step.value, words=_read_out(heads, matching),
                others=self._others(), floor=0.0, ceiling=1.0,
            ),
        ]  # fmt: skip


def _read_out(title: str, heights: Sequence[float]) -> str:
    return f"{title} at each snapshot: {', '.join(f'{height:.2f}' for height in heights)}"


def _repeating(d_vocab: int, n_ctx: int) -> Tensor:
    period = min(_PERIOD, d_vocab, n_ctx // 2)
    return repeated_tokens(d_vocab, period, min(3, n_ctx // period), seed=1)


@cache
def _shipped(of: str) -> Run:
    return Run(models.checkpoints(of))


@in_words(_TITLE)
def phase_change(
    of: str | Iterable[tuple[int, Transformer]] = "two-layer-curriculum",
) -> PhaseChange:
    """Drag through a training run: loss, in-context score, prefix matching, a head's pattern.

    of: the name of a shipped run, or (step, model) pairs of your own. Opening it measures every
    snapshot once, which takes a second or two.
    """
    with plainly():
        run = _shipped(of) if isinstance(of, str) else Run(of)
        # The curriculum's first steps were on random tokens only; the other run never saw any.
        return PhaseChange(run, CODE if of == "two-layer" else RANDOM)
