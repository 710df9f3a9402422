"""The map of the course as a piece of HTML without scripts, for a notebook's cell.

A row a notebook, a square an exercise, each a link to where it stands. What a square says it says by
its sign and in words; colour comes on top. Styles stand in the elements: a notebook that is opened
again without running keeps those, and loses style sheets.
"""

from __future__ import annotations

from html import escape

from grader.lab.progress_map import Overview, Row, headline, kept_aside, next_step, points

MARK = "grader-progress"
"""The class of the whole map, by which others find it."""

_SIGNS = {"passed": "✔", "begun": "◐", "to do": "○"}
_SQUARE = (
    "display:inline-block;width:1.6em;line-height:1.6em;margin:1px 2px 1px 0;text-align:center;"
    "text-decoration:none;border:1px solid #7a828a;border-radius:3px;"
)
# Each with its own ground, so that both of JupyterLab's themes can read the sign.
_FILL = {
    "passed": "background:#0072b2;color:#ffffff;",
    "begun": "background:#ffe9a8;color:#24292f;",
    "to do": "background:#fcfcfa;color:#24292f;",
}
_NEXT = "outline:3px solid #d55e00;outline-offset:1px;"


def as_html(course: Overview) -> str:
    """The map, what comes next, and each notebook's exercises as a table to unfold."""
    step = course.next
    rows = "".join(_row(notebook, part, step) for notebook, part in course.notebooks())
    tables = "".join(_table(notebook, part, step) for notebook, part in course.notebooks())
    notes = "".join(f"<p>{escape(note)}</p>" for note in kept_aside())
    return (
        f"<div class='{MARK}' role='navigation' aria-label='the course and your progress' "
        "style='max-width:58em;line-height:1.5'>"
        f"<p><strong>{escape(headline(course))}</strong></p>"
        f"<ol style='list-style:none;margin:0;padding:0'>{rows}</ol>"
        f"<p>{_legend()}</p><p>{_next_link(course)}</p>{tables}{notes}</div>"
    )


def _row(notebook: str, part: Overview, step: Row | None) -> str:
    here = step is not None and step.notebook == notebook
    mark = "▶" if here else ""
    squares = "".join(_square(row, row is step) for row in part.rows)
    return (
        "<li style='display:flex;flex-wrap:wrap;align-items:center;gap:2px 8px;margin:3px 0'>"
        f"<span style='width:1em'>{mark}</span>"
        f"<a href='{_file(notebook)}' style='width:11em{';font-weight:bold' if here else ''}'>"
        f"{escape(notebook)}</a>"
        f"<span style='width:7.5em'>{points(part.points, part.max_points)} points</span>"
        f"<span style='flex:1;min-width:14em'>{squares}</span></li>"
    )


def _square(row: Row, is_next: bool) -> str:
    said = escape(_said(row) + ("; next" if is_next else ""), quote=True)
    current = " aria-current='step'" if is_next else ""
    style = _SQUARE + _FILL[row.state] + (_NEXT if is_next else "")
    return (
        f"<a href='{_place(row)}' title='{said}' aria-label='{said}'{current} style='{style}'>"
        f"{_SIGNS[row.state]}</a>"
    )


def _said(row: Row) -> str:
    return f"{row.title}: {row.state}, {points(row.points, row.max_points)} points"


def _legend() -> str:
    signs = [f"{sign} {state}" for state, sign in _SIGNS.items()]
    return escape(" \u2002 ".join([*signs, "▶ you are here"]))


def _next_link(course: Overview) -> str:
    sentence = escape(next_step(course))
    if course.next is None:
        return sentence
    return f"<a href='{_place(course.next)}'>{sentence}</a>"


def _table(notebook: str, part: Overview, step: Row | None) -> str:
    is_open = step is not None and step.notebook == notebook
    cell = "<td style='padding:.1em .7em .1em 0;text-align:left;background:none'>"
    rows = "".join(
        "<tr>" + "".join(f"{cell}{content}</td>" for content in _cells(row)) + "</tr>"
        for row in part.rows
    )
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(notebook)}: "
        f"{part.passed} of {len(part.rows)} passed</summary>"
        f"<table style='margin:.3em 0 .6em 1.2em;border-collapse:collapse'>{rows}</table></details>"
    )


def _cells(row: Row) -> tuple[str, ...]:
    hints = f"{row.hints} hint{'s' * (row.hints != 1)}" if row.hints else ""
    return (
        f"{_SIGNS[row.state]} {row.state}",
        f"<a href='{_place(row)}'>{escape(row.title)}</a>",
        f"<code>{escape(row.exercise)}</code>",
        points(row.points, row.max_points),
        hints,
    )


def _file(notebook: str) -> str:
    """Seen from another notebook of the course: each lies in a folder of its own name."""
    return escape(f"../{notebook}/{notebook}.ipynb", quote=True)


def _place(row: Row) -> str:
    return f"{_file(row.notebook)}#cell-id={escape(row.exercise, quote=True)}"
