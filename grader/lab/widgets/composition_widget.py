"""Composition map: heads as nodes, Q-, K- and V-composition as edges, and a pair's spectrum.

``composition_map(model)`` in a notebook. Reads any model with at least two layers.
"""

from __future__ import annotations

import ipywidgets as w
import torch
from matplotlib.figure import Figure

from grader.circuits.composition import KINDS
from grader.lab.widgets.composition_drawing import map_picture, map_svg
from grader.lab.widgets.composition_edges import (
    Edge,
    Head,
    PairSpectrum,
    chance,
    edges,
    pair_spectrum,
)
from grader.lab.widgets.widget_base import Explorer, in_words, transformer
from grader.lab.widgets.widget_html import html_table
from grader.lab.widgets.widget_svg import chart, plane, side_by_side
from grader.transformer import Transformer

_ROWS = 12
_CIRCUITS = {"Q": "QK, via Q", "K": "QK, via K", "V": "OV"}


@in_words("Composition map")
def composition_map(model: Transformer, *, threshold: float | None = None) -> CompositionMap:
    """Every head that reads an earlier one, above chance; pick a pair for its circuit's spectrum.

    threshold: the least score above the baseline 1/sqrt(d_model) that is drawn; a quarter of the
    highest if not given. Paper: "Analyzing a Two-Layer Model", "Virtual Attention Heads".
    """
    return CompositionMap(transformer(model, least=2), threshold)


class CompositionMap(Explorer):
    """The widget; `edges` holds every score, `shown` those above the threshold, best first."""

    def __init__(self, model: Transformer, threshold: float | None) -> None:
        self.model = model
        self.edges: list[Edge] = edges(model)
        self.chance = chance(model)
        self._spectra: dict[Edge, PairSpectrum] = {}
        self._scores = {(e.kind, e.early, e.late): e for e in self.edges}
        best = max(self.edges[0].score, 0.01)
        self.kinds = {
            kind: w.Checkbox(
                value=True, description=f"{kind}-composition", indent=False,
                layout=w.Layout(width="auto"),
            )
            for kind in KINDS
        }  # fmt: skip
        self.threshold = w.FloatSlider(
            value=min(best, max(best / 4, 3 * self.chance)) if threshold is None else threshold, min=0.0, max=best, step=best / 200,
            description="threshold", readout_format=".3f", layout=w.Layout(width="340px"),
        )  # fmt: skip
        self.pair = w.Dropdown(description="pair", layout=w.Layout(width="260px"))
        self.circuit = w.ToggleButtons(
            options=[(name, kind) for kind, name in _CIRCUITS.items()], description="circuit",
            tooltips=[
                "W_E W_OV_1 W_QK_2 W_Eᵀ", "W_E W_QK_2 W_OV_1ᵀ W_Eᵀ",
                "W_E W_OV_1 W_OV_2 W_U, the virtual head's",
            ],
            style={"button_width": "90px", "description_width": "60px"},
            layout=w.Layout(width="max-content"),
        )  # fmt: skip
        self._map, self._table, self._spectrum = w.HTML(), w.HTML(), w.HTML()
        row = w.Layout(flex_flow="row wrap", align_items="flex-start", grid_gap="0 24px")
        pick = w.Box([self.pair, self.circuit], layout=w.Layout(flex_flow="row wrap"))
        super().__init__(
            "Composition map",
            about=(
                "A curve says that the upper head reads what the lower one writes: dashed through Q, "
                "solid through K, dotted through V. Thicker is stronger; scores are above chance."
            ),
            controls=[*self.kinds.values(), self.threshold],
            body=[w.Box([self._map, self._table], layout=row), pick, self._spectrum],
        )
        self.shown: list[Edge] = []
        self._redraw()
        self.watch(self._redraw, *self.kinds.values(), self.threshold)
        self.watch(self._take_pair, self.pair)
        self.watch(self._redraw_spectrum, self.circuit)

    def picture(self) -> Figure:
        """The map as it is, and the chosen pair's spectrum."""
        return map_picture(
            self.shown, self.model.n_layers, self.model.n_heads, chosen=self.chosen,
            spectrum=self.spectrum(), threshold=float(self.threshold.value),
        )  # fmt: skip

    def summary(self) -> str:
        """The strongest edges and the chosen circuit, in words."""
        best = ", ".join(f"{edge.name} {edge.score:+.3f}" for edge in self.shown[:4])
        return (
            f"{self._count()} {best or 'none'}. {self.chosen.name}: "
            f"Re Σλ / Σ|λ| {self.spectrum().score:+.2f}"
        )

    @property
    def chosen(self) -> Edge:
        """The picked pair, in the kind whose circuit is shown."""
        early, late = self.pair.value
        return self._scores[self.circuit.value, early, late]

    def spectrum(self) -> PairSpectrum:
        """The spectrum of the chosen pair's circuit; computed once."""
        if self.chosen not in self._spectra:
            self._spectra[self.chosen] = pair_spectrum(self.model, self.chosen)
        return self._spectra[self.chosen]

    def _redraw(self) -> None:
        on = {kind for kind, switch in self.kinds.items() if switch.value}
        least = float(self.threshold.value)
        # Of the slider's rounding, so that the strongest pair stays in sight at the far end.
        self.shown = [e for e in self.edges if e.kind in on and e.score >= least - 1e-9]
        self._offer_pairs()
        self._table.value = self._edge_table()
        self._take_pair()
        self.say(self._count())

    def _offer_pairs(self) -> None:
        """The pairs in sight, the strongest first; all of them where none is."""
        offered: dict[tuple[Head, Head], str] = {}
        for edge in self.shown or self.edges:
            name = f"{edge.early[0]}.{edge.early[1]} → {edge.late[0]}.{edge.late[1]}"
            offered.setdefault((edge.early, edge.late), f"{name}   {edge.kind} {edge.score:+.3f}")
        before = self.pair.value
        with self.quiet():
            self.pair.options = [(name, pair) for pair, name in offered.items()]
            self.pair.value = before if before in offered else next(iter(offered))

    def _take_pair(self) -> None:
        """Show the circuit of the kind in which the pair stands highest."""
        early, late = self.pair.value
        kinds = [e.kind for e in self.shown or self.edges if (e.early, e.late) == (early, late)]
        with self.quiet():
            self.circuit.value = kinds[0]
        self._redraw_spectrum()

    @torch.no_grad()
    def _redraw_spectrum(self) -> None:
        self._map.value = map_svg(
            self.shown, self.model.n_layers, self.model.n_heads, chosen=self.chosen,
            words=f"{self._count()} {', '.join(e.name for e in self.shown[:8])}",
        )  # fmt: skip
        self._spectrum.value = self._spectrum_html()

    def _count(self) -> str:
        return (
            f"{len(self.shown)} of {len(self.edges)} readings are {self.threshold.value:.3f} or more "
            f"above chance (untrained heads of this size scatter by ±{self.chance:.3f})."
        )

    def _edge_table(self) -> str:
        rows = [
            [e.kind, f"{e.early[0]}.{e.early[1]}", f"{e.late[0]}.{e.late[1]}", e.score]
            for e in self.shown[:_ROWS]
        ]
        more = len(self.shown) - len(rows)
        caption = "strongest readings" + (f" ({more} more)" if more > 0 else "")
        return html_table(
            ["through", "head read", "reading", "above chance"], rows, caption=caption
        )

    def _spectrum_html(self) -> str:
        edge, found = self.chosen, self.spectrum()
        name = f"{_CIRCUITS[edge.kind]}, of {edge.name[2:]}"
        singular, values = found.shares()
        largest, tallest = float(found.eigenvalues.abs().max()), float(found.singular.max())
        dots = [
            (z.real, z.imag, f"λ = {value:.3g}")
            for z, value in zip(values, found.eigenvalues.tolist(), strict=True)
        ]
        table = html_table(
            ["circuit", "Re Σλ / Σ|λ|", "largest |λ|", "largest σ", "score above chance"],
            [[name, found.score, largest, tallest, edge.score]],
        )  # fmt: skip
        drawings = side_by_side(
            chart(
                singular, [str(i + 1) for i in range(len(singular))], at=0,
                title="singular values, over the largest", floor=0.0, x_label="rank",
                words=f"singular values of {name}, the largest {tallest:.3f}",
            ),
            plane(
                dots, title="eigenvalues, over the largest", circles={"1": 1.0},
                words=f"{len(dots)} eigenvalues of {name}, score {found.score:+.2f}",
            ),
        )  # fmt: skip
        return table + drawings
