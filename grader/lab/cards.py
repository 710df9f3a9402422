"""A verdict, a hint, a solution as a card: HTML that reads well on light and dark, and as text.

Colors are only a second signal beside words; text takes the theme's own color. What learners wrote
is escaped.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from grader.judge.spec import Exercise
from grader.judge.verdict import Status, Verdict

if TYPE_CHECKING:
    from jinja2 import Template

HEADINGS = {
    Status.PASS: ("✔ PASS", "#2a9d6f"),
    Status.PARTIAL: ("◐ PARTIAL", "#c98a00"),
    Status.WRONG: ("✘ WRONG", "#d1495b"),
    Status.NOT_ATTEMPTED: ("○ NOT ATTEMPTED", "#7a869a"),
    Status.CRASHED: ("✘ CRASHED", "#d1495b"),
    Status.TIMEOUT: ("✘ TIMEOUT", "#d1495b"),
    Status.OUT_OF_MEMORY: ("✘ OUT OF MEMORY", "#d1495b"),
    Status.RECEIVED: ("✉ RECEIVED", "#4477aa"),
    Status.GRADER_ERROR: ("⚠ GRADER ERROR", "#8e5bb5"),
}

_CARD = """\
<div style="border-left: 4px solid {{ color }}; padding: 0.4em 0.9em; margin: 0.3em 0; max-width: 46em; line-height: 1.45">
<div><b style="color: {{ color }}">{{ heading }}</b>{% if title %} · <code>{{ title }}</code>{% endif %}{% if score %} · {{ score }}{% endif %}</div>
{% for paragraph in paragraphs %}<div style="margin-top: 0.35em">{{ paragraph | code }}</div>
{% endfor %}{% if where %}<div style="margin-top: 0.35em; opacity: 0.8">Seen {{ where }}</div>
{% endif %}{% if traceback %}<pre style="margin: 0.5em 0 0; overflow-x: auto; background: transparent; color: inherit">{{ traceback }}</pre>
{% endif %}{% if printed %}<details style="margin-top: 0.35em"><summary>It printed</summary><pre style="background: transparent; color: inherit">{{ printed }}</pre></details>
{% endif %}{% for note in notes %}<div style="margin-top: 0.35em; opacity: 0.8">{{ note | code }}</div>
{% endfor %}</div>"""


@functools.cache
def _template() -> Template:
    import jinja2
    from markupsafe import Markup, escape

    def code(text: str) -> Markup:
        """`name` becomes <code>name</code>, after everything has been escaped."""
        return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))

    environment = jinja2.Environment(autoescape=True)
    environment.filters["code"] = code
    return environment.from_string(_CARD)


def _html(heading: str, color: str, **fields: Any) -> str:
    return _template().render(heading=heading, color=color, **fields)


def _text(heading: str, title: str, score: str, *paragraphs: str) -> str:
    first = " · ".join(part for part in (heading, title, score) if part)
    return "\n".join([first, *(f"  {line}" for p in paragraphs if p for line in p.splitlines())])


def verdict_card(verdict: Verdict, notes: tuple[str, ...]) -> tuple[str, str]:
    """→ (HTML, text) of one verdict."""
    heading, color = HEADINGS[verdict.status]
    score = f"{verdict.points:g} of {verdict.max_points:g} points"
    if verdict.status in (Status.NOT_ATTEMPTED, Status.GRADER_ERROR):
        score = f"worth {verdict.max_points:g} points"
    html = _html(
        heading, color, title=verdict.exercise, score=score,
        paragraphs=verdict.message.splitlines(), where=_seen(verdict.where),
        traceback=verdict.traceback, printed=verdict.printed, notes=notes,
    )  # fmt: skip
    seen = f"Seen {_seen(verdict.where)}" if verdict.where else ""
    printed = f"It printed:\n{verdict.printed}" if verdict.printed else ""
    text = _text(
        heading, verdict.exercise, score, verdict.message, seen, verdict.traceback, printed, *notes
    )
    return html, text


def _seen(where: str) -> str:
    """ "with one head — pos 5" reads on from "Seen"; bare sizes want an "at"."""
    return where if not where or "—" in where or not re.match(r"\w+ \d", where) else f"at {where}"


def notice(heading: str, message: str, *notes: str) -> tuple[str, str]:
    """→ (HTML, text) of a message that is no verdict: an unknown name, a hint that isn't there."""
    html = _html(heading, "#7a869a", paragraphs=message.splitlines(), notes=notes)
    return html, _text(heading, "", "", message, *notes)


def hint_card(exercise: Exercise, number: int) -> tuple[str, str]:
    """→ (HTML, text) of the hints 1 … number: the newest last, the earlier ones still there."""
    heading = f"Hint {number} of {len(exercise.hints)}"
    shown = exercise.hints[:number]
    more = (
        "" if number == len(exercise.hints) else f"`hint({exercise.name})` again for the next one."
    )
    notes = (more,) if more else (f"`solution({exercise.name})` opens once your answer is right.",)
    html = _html(heading, "#4477aa", title=exercise.name, paragraphs=shown, notes=notes)
    return html, _text(heading, exercise.name, "", *shown, *notes)


def solution_card(name: str, source: str) -> tuple[str, str]:
    """→ (HTML, text) of a solution's code."""
    heading = "One way to do it"
    return _html(heading, "#4477aa", title=name, traceback=source), _text(heading, name, "", source)
