"""One learner's feedback: a page that needs nothing but itself, and the same in plain text.

Everything that a learner wrote is escaped, and no script runs: the page says so to the browser, too.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from grader import exercises
from grader.classroom.grading.handed_in import HandedIn
from grader.classroom.grading.one import Outcome
from grader.judge.verdict import Status, Verdict
from grader.lab import cards
from grader.lab.terminal import plain

if TYPE_CHECKING:
    from jinja2 import Template

_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ assignment }} – {{ learner }}</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.4em; margin-bottom: 0.2em; }
pre { overflow-x: auto; }
details { margin: 0 0 1em 1em; max-width: 46em; }
.points { font-size: 1.2em; }
.small { opacity: 0.75; font-size: 0.85em; }
.notes { border-left: 4px solid #c98a00; padding: 0.3em 0.9em; margin: 1em 0; max-width: 46em; }
</style>
</head>
<body>
<h1>{{ assignment }}</h1>
<div>{{ learner }}</div>
<p class="points">{{ points }}</p>
{% if trouble %}<p>{{ trouble }}</p>
{% endif %}{% if notes %}<div class="notes">{% for note in notes %}<div>{{ note }}</div>
{% endfor %}</div>
{% endif %}{% for card, hints in verdicts %}{{ card }}
{% if hints %}<details><summary>Hints</summary><ol>{% for hint in hints %}<li>{{ hint }}</li>
{% endfor %}</ol></details>
{% endif %}{% endfor %}{% if cell_errors %}<h2>Cells that stopped with an error</h2>
{% for run in cell_errors %}<details><summary>Code cell {{ run.number }}: {{ run.error }}</summary>
<pre>{{ run.traceback }}</pre></details>
{% endfor %}{% endif %}<p class="small">Judged {{ graded_at }} from {{ file }}, with questions drawn for
this file{% if edition %}; notebook of edition {{ edition }}{% endif %}. The same file gets the same
verdict. If one seems wrong, show your teacher this page.</p>
</body>
</html>"""


def page(handed_in: HandedIn, outcome: Outcome, graded_at: str) -> str:
    """The feedback of one submission as HTML."""
    from markupsafe import Markup

    shown = [_plain(verdict) for verdict in outcome.verdicts] if not outcome.failed else []
    told: dict[str, Any] = {
        "assignment": plain(handed_in.assignment),
        "learner": plain(handed_in.learner),
        "points": _points(outcome),
        "trouble": plain(outcome.trouble),
        "notes": [plain(note) for note in (*handed_in.notes, *outcome.notes)],
        "verdicts": [
            (Markup(cards.verdict_card(verdict, verdict.notes)[0]), _hints(verdict))
            for verdict in shown
        ],
        "cell_errors": [
            {"number": r.number, "error": plain(r.error), "traceback": plain(r.traceback)}
            for r in outcome.cell_errors
        ],
        "graded_at": graded_at,
        "edition": plain(outcome.edition),
        "file": plain(handed_in.where.replace("\\", "/").rpartition("/")[2]),
    }
    return _template().render(**told) + "\n"


def as_text(verdict: Verdict) -> str:
    """One verdict in plain text, fit for XML and for a terminal."""
    shown = _plain(verdict)
    return cards.verdict_card(shown, shown.notes)[1]


def _plain(verdict: Verdict) -> Verdict:
    """Without a character that a browser, a terminal or XML would obey or refuse."""
    return dataclasses.replace(
        verdict,
        message=plain(verdict.message),
        traceback=plain(verdict.traceback),
        printed=plain(verdict.printed),
        where=plain(verdict.where),
        notes=tuple(map(plain, verdict.notes)),
    )


def _points(outcome: Outcome) -> str:
    if outcome.trouble and not outcome.failed:
        return "Not graded."
    if outcome.points is None:
        return "The points aren't known yet: the grader failed, which costs you nothing."
    return f"{outcome.points:g} of {outcome.max_points:g} points"


def _hints(verdict: Verdict) -> tuple[str, ...]:
    exercise = exercises.find(verdict.exercise)
    if exercise is None or verdict.status in (Status.PASS, Status.RECEIVED, Status.GRADER_ERROR):
        return ()
    return exercise.hints


@functools.cache
def _template() -> Template:
    import jinja2

    return jinja2.Environment(autoescape=True).from_string(_PAGE)
