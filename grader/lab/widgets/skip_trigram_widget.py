"""Skip-trigram explorer: pick a destination, see its sources, what each raises, and the bugs forced.

``skip_trigrams(model, destination="(", head=(0, 3))`` in a notebook. Heads of any layer can be read,
as they read the embedding.
"""

from __future__ import annotations

from html import escape

import ipywidgets as w
import torch
from matplotlib.figure import Figure
from torch import Tensor

from grader.lab.widgets.skip_trigram_picture import skip_trigram_picture
from grader.lab.widgets.skip_trigram_rows import (
    RIGHT,
    WINDOW,
    Grid,
    HeadCircuits,
    Source,
    corpus_for,
    grid,
    head_circuits,
    sources,
)
from grader.lab.widgets.widget_base import (
    CannotShow,
    Explorer,
    head_picker,
    in_words,
    plainly,
    transformer,
)
from grader.lab.widgets.widget_html import Markup, heat_table, html_table, label
from grader.lab.widgets.widget_text import one_token, token_labels
from grader.transformer import Transformer

_SOURCES, _OUTPUTS = 8, 5
_ROWS, _COLUMNS = 6, 8
_MOST_NAMES = 5000  # tokens that are offered while typing
_LEAST = 10  # places a source has to be seen at, unless the reader says otherwise


@in_words("Skip-trigrams")
def skip_trigrams(
    model: Transformer,
    destination: str | int | None = None,
    *,
    head: tuple[int, int] = (0, 0),
    corpus: Tensor | None = None,
) -> SkipTrigrams:
    """A destination's sources by QK, what each raises by OV, the count in a text, and the bugs.

    destination: a token as text or id, "(" or id 0 if not given; head: (layer, head)
    corpus: ids (pos,) in which skip-trigrams are counted; the course's held-out sample where the
    model reads with the course's tokenizer, none otherwise
    Paper: "Interpretation as Skip-Trigrams", "Skip-Trigram Bugs".
    """
    return SkipTrigrams(transformer(model, least=1), destination, head, corpus)


class SkipTrigrams(Explorer):
    """The widget; `found` and `table` hold what is shown."""

    def __init__(
        self,
        model: Transformer,
        destination: str | int | None,
        head: tuple[int, int],
        corpus: Tensor | None,
    ) -> None:
        self.model = model
        with plainly():
            self.corpus = corpus_for(model, corpus)
        every = range(model.d_vocab)
        self.names = token_labels(model, every)
        self._ids = {name: i for i, name in reversed(list(enumerate(self.names)))}
        self.token = 0
        self.destination = w.Combobox(
            description="destination", continuous_update=False, ensure_option=False,
            options=self.names if model.d_vocab <= _MOST_NAMES else [],
            layout=w.Layout(width="230px"),
        )  # fmt: skip
        self.head = head_picker(model, chosen=head)
        self.source = w.Dropdown(description="source", layout=w.Layout(width="230px"))
        self.least = w.BoundedIntText(
            value=0, min=0, max=10**6, description="seen at least",
            disabled=self.corpus is None, layout=w.Layout(width="190px"),
            style={"description_width": "95px"},
        )  # fmt: skip
        self._sources, self._grid = w.HTML(), w.HTML()
        super().__init__(
            "Skip-trigrams: source … destination → output",
            about=(
                "Type or pick a destination. QK says which sources it looks at, OV what each source "
                "raises; × counts how often a text has all three, the source at most "
                f"{WINDOW} tokens before. Position is left out."
            ),
            controls=[self.destination, self.head, self.least],
            body=[self._sources, self.source, self._grid],
        )
        self.found: list[Source]
        self.table: Grid
        self._circuits: dict[tuple[int, int], HeadCircuits] = {}
        self.destination.value = self._first(destination)
        if (
            self.corpus
            and int(self.corpus.sources_of(self._id(self.destination.value)).max()) >= _LEAST
        ):
            self.least.value = _LEAST
        self._redraw()
        self.watch(self._redraw, self.destination, self.head, self.least)
        self.watch(self._redraw_grid, self.source)

    def picture(self) -> Figure:
        """The sources with their outputs, and the chosen source's grid."""
        layer, head = self.head.value
        return skip_trigram_picture(
            self.found, self.table, self.names,
            title=f"head {layer}.{head}, destination {self.names[self.token]}",
        )  # fmt: skip

    def summary(self) -> str:
        """The best sources and the bugs of the chosen one, in words."""
        layer, head = self.head.value
        best = ", ".join(
            f"“{self.names[s.token]}” (score {s.score:.2f}, raises “{self.names[s.outputs[0]]}” "
            f"{s.raised[0]:+.2f})"
            for s in self.found[:3]
        )
        words = f"head {layer}.{head}: “{self.names[self.token]}” looks at {best}"
        forced = self._bug_words()
        return f"{words}. Bugs: {', '.join(forced)}" if forced else words

    def _first(self, destination: str | int | None) -> str:
        if isinstance(destination, int):
            if not 0 <= destination < self.model.d_vocab:
                raise CannotShow(
                    f"The model knows the tokens 0 … {self.model.d_vocab - 1}; {destination} came."
                )
            return self.names[destination]
        if destination is None:
            return "(" if "(" in self._ids else self.names[0]
        return self.names[self._id(destination)]

    def _id(self, typed: str) -> int:
        # A token inside a word, such as "self" without its space, may not come back from encoding.
        known = self._ids.get(typed, self._ids.get(typed.replace(" ", "·").replace("\n", "⏎")))
        return one_token(self.model, typed) if known is None else known

    def circuits(self) -> HeadCircuits:
        """The chosen head's circuits; made once a head."""
        chosen = self.head.value
        if chosen not in self._circuits:
            self._circuits[chosen] = head_circuits(self.model, *chosen)
        return self._circuits[chosen]

    @torch.no_grad()
    def _redraw(self) -> None:
        token = self._id(self.destination.value)
        found = sources(
            self.circuits(), token, self.corpus, n=_SOURCES, outputs=_OUTPUTS,
            least=int(self.least.value),
        )  # fmt: skip
        if not found:
            raise CannotShow(
                f"No token stands at {self.least.value} or more places before "
                f"“{self.names[token]}” in the text: lower “seen at least”."
            )
        self.token, self.found = token, found
        self._sources.value = self._source_table()
        with self.quiet():
            self.source.options = [(self.names[s.token], s.token) for s in found]
            self.source.value = max(found, key=lambda s: max(s.counts)).token  # the most used
        self._redraw_grid()

    @torch.no_grad()
    def _redraw_grid(self) -> None:
        self.table = grid(
            self.circuits(), int(self.source.value), self.token, self.corpus,
            rows=_ROWS, columns=_COLUMNS,
        )  # fmt: skip
        self._grid.value = self._grid_table()

    def _source_table(self) -> str:
        layer, head = self.head.value
        name = self.names[self.token]
        rows, titles = [], []
        for s in self.found:
            pairs = zip(s.outputs, s.raised, s.counts, strict=True)
            outputs = " ".join(
                f"<span class='lab-together'>{label(self.names[o])} {raised:+.2f}{_times(count)}</span>"
                for o, raised, count in pairs
            )
            seen = "–" if s.seen < 0 else s.seen
            rows.append(
                [Markup(label(self.names[s.token])), s.score, s.attention, seen, Markup(outputs)]
            )
            titles.append(
                f"“{name}” scores “{self.names[s.token]}” {s.score:.2f}: against a rival of score 0 "
                f"that is {s.attention:.2f} of its attention"
            )
        return html_table(
            ["source", "QK / √d_head", "attention", "places", "OV raises (logits, × in the text)"],
            rows, titles=titles,
            caption=f"head {layer}.{head}: what “{name}” looks at, and what each source raises",
        )  # fmt: skip

    def _grid_table(self) -> str:
        table = self.table
        source = self.names[table.source]
        if not table.outputs:
            return (
                f"<div class='lab-message'>In the text nothing that “{label(source)}” raises "
                "comes after these destinations: no pair is right, so none is forced.</div>"
            )

        def words(i: int, j: int, effect: float) -> str:
            count = int(table.counts[i, j])
            d, o = self.names[table.destinations[i]], self.names[table.outputs[j]]
            seen = "" if count < 0 else f", {count} times in the text"
            forced = ": a bug, forced by the right pairs in its row and column"
            bug = forced if table.bug[i, j] else ""
            return f"{source} … {d} → {o}: {effect:+.2f} logits{seen}{bug}"

        def text(i: int, j: int, effect: float) -> str:
            count = int(table.counts[i, j])
            mark = " ✗ bug" if table.bug[i, j] else (f" {count}×" if count > 0 else "")
            return f"{effect:.1f}{mark}"

        forced = self._bug_words()
        says = f"Forced and never in the text: {'; '.join(forced)}." if forced else ""
        top = float(table.effect.max())
        return heat_table(
            table.effect, [self.names[d] for d in table.destinations],
            [self.names[o] for o in table.outputs], limits=(0.0, 1.6 * top), say=words, write=text,
            caption=(
                f"what “{source}” adds to the logits: destinations down, outputs across, × uses in "
                f"the text (a pair is right from {RIGHT}× on)"
            ),
        ) + f"<div class='lab-message'>{escape(says)}</div>"  # fmt: skip

    def _bug_words(self) -> list[str]:
        found = self.table.bug.nonzero().tolist()
        found.sort(key=lambda cell: -float(self.table.effect[cell[0], cell[1]]))
        source = self.names[self.table.source]
        return [
            f"{source} … {self.names[self.table.destinations[i]]} → {self.names[self.table.outputs[j]]}"
            for i, j in found[:4]
        ]


def _times(count: int) -> str:
    return f" <small>{count}×</small>" if count > 0 else ""
