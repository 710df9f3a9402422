"""The eigenvalue plane: does a head copy, and what does it look for?

::

    from grader.lab import eigenvalue_plane
    eigenvalue_plane(model)

An eigenvalue right of the vertical line is a mixture of tokens that the circuit maps to itself, with
the sign kept. All of them there: the OV circuit copies, or the QK circuit looks for equal tokens.
"""

from __future__ import annotations

import ipywidgets as w
from matplotlib.figure import Figure

from grader.circuits.induction_heads import find_induction_heads
from grader.lab.widgets.spectra import Address, Spectra, Spectrum
from grader.lab.widgets.spectrum_picture import (
    DECADES,
    RADII,
    circles,
    dots,
    spectrum_picture,
    titles,
)
from grader.lab.widgets.widget_base import (
    CannotShow,
    Explorer,
    head_picker,
    in_words,
    plainly,
    transformer,
)
from grader.lab.widgets.widget_html import html_table
from grader.lab.widgets.widget_svg import plane, side_by_side
from grader.transformer import Transformer

_TITLE = "Eigenvalue plane"
_ALONE = "nothing"  # the choice of a QK circuit that reads the embedding only


class EigenvaluePlane(Explorer):
    """Controls: the head, the earlier head its keys read, the scale of the radius."""

    def __init__(self, model: Transformer, layer: int, head: int) -> None:
        with plainly():
            self.spectra = Spectra(model)
        self.head = head_picker(model)
        self.reads = w.Dropdown(description="keys read", layout=w.Layout(width="170px"))
        self.radius = w.ToggleButtons(
            options=RADII, description="radius", style={"button_width": "104px"},
            tooltips=["|λ| as it is", f"{DECADES} powers of ten: parts the small ones"],
        )  # fmt: skip
        self.table, self.planes = w.HTML(), w.HTML()
        super().__init__(
            _TITLE,
            controls=[self.head, self.reads, self.radius],
            body=[self.table, self.planes],
            about="Dots on the right: maps to itself, sign kept. Hollow triangles on the left: sign "
            "turned. Beside each circuit, the same of a head that learned nothing, on the same scale.",
        )
        self.head.value = (layer, head)
        self._offer_reads()
        self.head.observe(lambda _: self._offer_reads(), names="value")
        self.watch(self.redraw, self.head, self.reads, self.radius)
        self.try_to(self.redraw)

    def shown(self) -> list[Spectrum]:
        """The two circuits on display, OV and QK."""
        layer, head = self.head.value
        return [self.spectra.ov(layer, head), self.spectra.qk(layer, head, self.reads.value)]

    def redraw(self) -> None:
        ov, qk = self.shown()
        rows = [_row(spectrum) for spectrum in (ov, qk)]
        self.table.value = html_table(
            ["circuit", "Σλ / Σ|λ|", "random heads, least", "largest", "largest |λ|"], rows
        )
        self.planes.value = side_by_side(*self._planes(ov), *self._planes(qk))
        self.say(self.summary())

    def _planes(self, spectrum: Spectrum) -> tuple[str, str]:
        """The head's plane and a random head's, on one scale."""
        head, random = (
            plane(
                spots, title=title, words=f"{title}; {len(spots)} eigenvalues",
                circles=circles(self.radius.value),
            )
            for title, spots in zip(
                titles(spectrum, _name(self.head.value)),
                dots(spectrum, self.radius.value),
                strict=True,
            )
        )  # fmt: skip
        return head, random

    def picture(self) -> Figure:
        return spectrum_picture(self.shown(), head=_name(self.head.value), radius=self.radius.value)

    def summary(self) -> str:
        ov, qk = self.shown()
        return f"Head {_name(self.head.value)}. {_said(ov, _COPIES)} {_said(qk, _LOOKS)}"

    def _offer_reads(self) -> None:
        """Earlier heads to read, the one that is read most first chosen."""
        layer, head = self.head.value
        choices: list[tuple[str, Address | None]] = [(_ALONE, None)]
        choices += [(_name(address), address) for address in self.spectra.earlier(layer)]
        with self.quiet():
            self.reads.options = choices
            self.reads.value = self.spectra.most_read(layer, head)
            self.reads.disabled = layer == 0


_COPIES = ("copies: what it reads, it raises", "anti-copies: what it reads, it lowers")
_LOOKS = ("looks for the present token", "looks away from the present token")


def _said(spectrum: Spectrum, words: tuple[str, str]) -> str:
    if not spectrum.stands_out:
        return f"{spectrum.name} {spectrum.score:+.2f}: no more order than a random head has."
    return f"{spectrum.name} {spectrum.score:+.2f}: it {words[spectrum.score < 0]}."


def _row(spectrum: Spectrum) -> list[str | float]:
    scores = spectrum.random_scores
    largest = float(spectrum.values.abs().max())
    return [spectrum.name, spectrum.score, float(scores.min()), float(scores.max()), largest]


def _name(address: Address) -> str:
    return f"{address[0]}.{address[1]}"


@in_words(_TITLE)
def eigenvalue_plane(
    model: Transformer, layer: int | None = None, head: int | None = None
) -> EigenvaluePlane:
    """The eigenvalues of a head's OV and QK circuits over the whole vocabulary, in the complex plane.

    layer, head: which to begin with; if not given, an induction head, else the last layer's first.
    """
    model = transformer(model, least=1)
    start = _start(model, layer, head)
    if start[0] not in range(model.n_layers) or start[1] not in range(model.n_heads):
        raise CannotShow(
            f"There is no head {start[0]}.{start[1]}: layers count 0 … {model.n_layers - 1} and "
            f"heads 0 … {model.n_heads - 1} in this model."
        )
    return EigenvaluePlane(model, *start)


def _start(model: Transformer, layer: int | None, head: int | None) -> Address:
    if layer is None and head is None and model.d_vocab >= 3 and model.n_ctx >= 6:
        found = find_induction_heads(model)
        if found:
            return found[0]
    return model.n_layers - 1 if layer is None else layer, 0 if head is None else head
