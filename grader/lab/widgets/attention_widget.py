"""Attention viewer: a text, its heads, and for every token where it looks and what it moves.

``attention_viewer(model)`` in a notebook. Reads any model with at least one layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import ipywidgets as w
import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from grader.lab.widgets.attention_picture import attention_overview
from grader.lab.widgets.attention_reading import Attention, habits, read_attention, strongest
from grader.lab.widgets.widget_base import Explorer, head_picker, in_words, text_field, transformer
from grader.lab.widgets.widget_html import (
    Markup,
    heat_table,
    html_table,
    label,
    shade,
    thumbnail,
    token_strip,
)
from grader.lab.widgets.widget_text import (
    Text,
    as_typed,
    given_or_default,
    read_text,
    token_labels,
    typed_text,
)
from grader.transformer import Transformer

_MOST_CELLS = 40  # tokens whose pattern still goes into the page cell by cell
_MOST_TITLES = 120  # tokens that each explain themselves on hovering
_TOP = 3
_LEAST = 0.005  # attention that is still worth a word


@in_words("Attention viewer")
def attention_viewer(
    model: Transformer, text: str | Tensor | Sequence[int] = "", *, head: tuple[int, int] = (0, 0)
) -> AttentionViewer:
    """A text's tokens, every head's pattern, and for each token where it looks and what it moves.

    text: what the model reads (a string, or ids (pos,)), a default if empty; it can be changed in
    the widget. head: the (layer, head) shown first.
    Paper: "Attention Heads as Information Movement".
    """
    return AttentionViewer(transformer(model, least=1), text, head)


class AttentionViewer(Explorer):
    """The widget; `attention` holds what is shown: pattern and weighted, (layer, head, dst, src)."""

    def __init__(
        self, model: Transformer, text: str | Tensor | Sequence[int], head: tuple[int, int]
    ) -> None:
        self.model = model
        self.text = text_field()
        self.head = head_picker(model, chosen=head)
        self.token = w.Dropdown(description="token", layout=w.Layout(width="210px"))
        self.weigh = w.Checkbox(
            description="weigh by the size of what is moved", indent=False,
            layout=w.Layout(width="auto"),
        )  # fmt: skip
        self.numbers = w.Checkbox(
            description="numbers", indent=False, layout=w.Layout(width="auto")
        )
        self._line_of_tokens, self._heads = w.HTML(), w.HTML()
        self._pattern, self._moves = w.HTML(), w.HTML()
        pair = w.Box(
            [self._pattern, self._moves],
            layout=w.Layout(flex_flow="row wrap", align_items="flex-start", grid_gap="0 28px"),
        )
        super().__init__(
            "Attention viewer",
            about=(
                "Choose a head and a token. The text is shaded by where the token looks; hover any "
                "token to read where it looks and what the head moves to it."
            ),
            controls=[self.text, self.head, self.token, self.weigh, self.numbers],
            body=[self._line_of_tokens, self._heads, pair],
        )
        self.read: Text
        self.attention: Attention
        given = given_or_default(model, text)
        self._take(read_text(model, given))
        self.text.value = as_typed(model, given)
        self.watch(self._retake, self.text)
        self.watch(self._redraw_head, self.head, self.weigh, self.numbers)
        self.watch(self._redraw_token, self.token)

    def picture(self) -> Figure:
        """The chosen head's pattern, and all heads in small."""
        return attention_overview(
            self.attention.pattern, self.read.labels, self.head.value,
            destination=int(self.token.value),
        )  # fmt: skip

    def summary(self) -> str:
        """Where the chosen token looks, in words."""
        layer, head = self.head.value
        return f"head {layer}.{head}, {self._looks(self._shown(), int(self.token.value))}"

    def _retake(self) -> None:
        self._take(read_text(self.model, typed_text(self.text.value)))

    def _take(self, read: Text) -> None:
        self.read = read
        self.attention = read_attention(self.model, read.tokens)
        self._small: dict[bool, list[list[str]]] = {}
        options = [(f"{i}: {name}", i) for i, name in enumerate(read.labels)]
        with self.quiet():
            self.token.options = options
            self.token.value = len(options) - 1
        if read.note:
            self.say(read.note)
        self._redraw_head()

    def _shown(self) -> Tensor:
        """What the switch chose, for the chosen head: (dst, src)."""
        chosen = self.attention.weighted if self.weigh.value else self.attention.pattern
        return chosen[self.head.value]

    @torch.no_grad()
    def _redraw_head(self) -> None:
        self._heads.value = self._head_grid()
        self._titles = self._explain()
        self._redraw_token()

    @torch.no_grad()
    def _redraw_token(self) -> None:
        self._line_of_tokens.value = self._shaded_text()
        self._pattern.value = self._raw_pattern()
        self._moves.value = self._what_moves()

    def _shaded_text(self) -> str:
        """The text, each token shaded by its weight in the chosen token's row."""
        shown, dst = self._shown(), int(self.token.value)
        most = float(shown[dst].max()) if self.weigh.value else 1.0
        seen = shown[dst, : dst + 1].tolist()
        ahead = len(self.read.labels) - len(seen)
        return token_strip(
            self.read.labels, [shade(weight / (most or 1.0)) for weight in seen] + [""] * ahead,
            [f"{weight:.2f}" if weight >= _LEAST else "" for weight in seen] + [""] * ahead,
            titles=self._titles, chosen=dst,
        )  # fmt: skip

    def _explain(self) -> list[str]:
        """For each token where it looks and what the head moves to it; nothing for a long text."""
        if len(self.read.labels) > _MOST_TITLES:
            return []
        shown = self._shown()
        layer, head = self.head.value
        written_there = self.attention.cache.head_out[layer, head] @ self.model.W_U
        raised = written_there - written_there.mean(dim=-1, keepdim=True)
        return [
            f"{self._looks(shown, dst)}. Raises {self._outputs(raised[dst])}."
            for dst in range(len(shown))
        ]

    def _looks(self, shown: Tensor, dst: int) -> str:
        names = self.read.labels
        seen = [
            f"“{names[j]}” at {j}: {weight:.2f}"
            for j, weight in strongest(shown[dst, : dst + 1], _TOP)
        ]
        return f"“{names[dst]}” at {dst} looks at {', '.join(seen)}"

    def _outputs(self, logits: Tensor) -> str:
        best = strongest(logits, _TOP)
        names = token_labels(self.model, [i for i, _ in best])
        return ", ".join(
            f"“{name}” {value:+.2f}" for name, (_, value) in zip(names, best, strict=True)
        )

    def _head_grid(self) -> str:
        chosen = self.attention.weighted if self.weigh.value else self.attention.pattern
        layers, heads = chosen.shape[:2]
        small = self._thumbnails()
        side = 84 if len(self.read.labels) <= 60 else 120
        figures = []
        for layer in range(layers):
            for head in range(heads):
                picked = (layer, head) == self.head.value
                habit = ", ".join(
                    f"{share:.2f} to {what}"
                    for what, share in habits(self.attention.pattern[layer, head]).items()
                )
                words = escape(f"head {layer}.{head} attends {habit}")
                figures.append(
                    f"<figure class='{'lab-chosen' if picked else ''}' title='{words}'>"
                    f"<img alt='{words}' width='{side}' height='{side}' src='{small[layer][head]}'>"
                    f"<figcaption>{'▸ ' if picked else ''}{layer}.{head}</figcaption></figure>"
                )
        columns = f"grid-template-columns:repeat({heads},max-content)"
        return f"<div class='lab-scroll'><div class='lab-heads' style='{columns}'>{''.join(figures)}</div></div>"

    def _thumbnails(self) -> list[list[str]]:
        """Of what the switch chose: (layer, head); drawn once a text."""
        weigh = bool(self.weigh.value)
        if weigh not in self._small:
            shown = self.attention.weighted if weigh else self.attention.pattern
            darkest = float(shown.max()) if weigh else 1.0
            self._small[weigh] = [[thumbnail(p, darkest) for p in layer] for layer in shown]
        return self._small[weigh]

    def _raw_pattern(self) -> str:
        layer, head = self.head.value
        weights = self.attention.pattern[layer, head]
        caption = f"head {layer}.{head}: attention, rows look at columns"
        if len(weights) > _MOST_CELLS:
            return (
                f"<figure class='lab-large'><figcaption>{caption}</figcaption><img width='420' "
                f"height='420' alt='{escape(caption)}' src='{thumbnail(weights)}'></figure>"
            )
        return heat_table(
            weights, self.read.labels, self.read.labels, caption=caption,
            hidden=np.triu(np.ones(weights.shape, bool), 1), chosen=int(self.token.value),
            digits=2 if self.numbers.value else None,
        )  # fmt: skip

    def _what_moves(self) -> str:
        """The sources of the chosen token, the largest first, and what each is moved for."""
        (layer, head), dst = self.head.value, int(self.token.value)
        attention = self.attention.pattern[layer, head, dst]
        weighted = self.attention.weighted[layer, head, dst]
        moved = self.attention.moved(layer, head, dst)
        rows = [
            [
                Markup(f"{j}: {label(self.read.labels[j])}"), float(attention[j]),
                float(weighted[j]),
                self._outputs(moved[j]) if attention[j] >= _LEAST else "–",
            ]
            for j, _ in strongest(self._shown()[dst, : dst + 1], 8)
        ]  # fmt: skip
        caption = f"what head {layer}.{head} moves to {dst}: {self.read.labels[dst]}"
        return html_table(
            ["source", "attention", "× size", "raises most (logits)"], rows, caption=caption
        )
