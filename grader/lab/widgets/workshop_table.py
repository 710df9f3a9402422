"""The predictions of an edited induction circuit as a table in the page, a column each."""

from __future__ import annotations

from collections.abc import Sequence

from grader.lab.picture_style import INK, PAPER
from grader.lab.widgets.widget_html import label
from grader.lab.widgets.workshop import Outcome

_BAR = "#9fd0ee"


def predictions_table(outcome: Outcome, labels: Sequence[str], guesses: Sequence[str]) -> str:
    """Each prediction as a column: the token, what comes next, the guess, how sure, right or not.

    labels: one a position; guesses: one a prediction
    """
    count = len(outcome.guess)
    known, right = outcome.known.tolist(), outcome.right.tolist()
    chances = outcome.probability.tolist()
    rows: dict[str, list[str]] = {
        "token": [label(text) for text in labels[:count]],
        "comes next": [label(text) for text in labels[1:]],
        "guess": [label(text) for text in guesses],
        "% for it": [f"{100 * chance:.0f}" for chance in chances],
        "right?": [_mark(k, r) for k, r in zip(known, right, strict=True)],
    }
    styles = {"% for it": [_bar(chance) for chance in chances]}
    body = "".join(
        f"<tr><th scope='row'>{name}</th>{_cells(cells, styles.get(name, [''] * count))}</tr>"
        for name, cells in rows.items()
    )
    return (
        "<div class='lab-scroll' tabindex='0' role='region' aria-label='predictions'>"
        "<table class='lab-table lab-heat'><caption>Predictions; a dot where looking back can’t "
        f"tell</caption><tbody>{body}</tbody></table></div>"
    )


def _cells(cells: Sequence[str], styles: Sequence[str]) -> str:
    pairs = zip(cells, styles, strict=True)
    return "".join(f"<td style='border:none;{style}'>{cell}</td>" for cell, style in pairs)


def _bar(chance: float) -> str:
    """A cell filled from below, on a ground of its own so that both themes can read the number."""
    return (
        f"background:linear-gradient(to top,{_BAR} {chance:.0%},{PAPER} {chance:.0%});color:{INK}"
    )


def _mark(known: bool, right: bool) -> str:
    return ("✔" if right else "✘") if known else "·"
