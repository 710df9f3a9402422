"""Answers that are more alike than chance: a place to look, and nothing more.

Short answers are alike because there is one way to write them, and so are answers that follow a hint.
So each answer is compared without its names, comments and layout; what is short, or close to the
course's own solution, or to what many in the class wrote, is left out. A teacher reads both notebooks,
and talks with both learners, before thinking anything.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rapidfuzz import fuzz, process

from grader import answers, exercises
from grader.classroom import submission
from grader.classroom.grading.store import Store

ALIKE = 92.0  # per cent of equal characters, of answers without names
SHORTEST = 160  # characters without names; below that there is often one way to write it
COMMON = 3  # so many others with the same idea make it a common one


@dataclass(frozen=True)
class Alike:
    """Two learners, and the exercises in which their answers are alike, with per cent."""

    one: str
    other: str
    exercises: dict[str, float]


def find(grades: Path, assignment: str) -> list[Alike]:
    """Pairs of learners of an assignment, those with most exercises first.

    Raises StoreError.
    """
    pairs: dict[tuple[str, str], dict[str, float]] = {}
    written = _answers(grades, assignment)
    for exercise in exercises.of_notebook(assignment):
        texts = {who: text[exercise.name] for who, text in written.items() if exercise.name in text}
        for pair, alike in _pairs(texts, _own(exercise.name)).items():
            pairs.setdefault(pair, {})[exercise.name] = alike
    found = [Alike(*pair, shared) for pair, shared in pairs.items()]
    return sorted(found, key=lambda p: (-len(p.exercises), -sum(p.exercises.values()), p.one))


def as_text(found: list[Alike]) -> str:
    """The report, which says what it is first."""
    if not found:
        return "No two answers are more alike than chance would have it."
    lines = [
        "Answers that are alike. This is a place to look and no finding: there are honest reasons for it "
        "(working together where that is allowed, the same hint, the same example). Read both first."
    ]
    for pair in found:
        shared = ", ".join(f"{name} {share:.0f} %" for name, share in pair.exercises.items())
        lines.append(f"  {pair.one} and {pair.other}: {shared}")
    return "\n".join(lines)


def _pairs(texts: Mapping[str, str], solution: str) -> dict[tuple[str, str], float]:
    who = [
        name
        for name, text in sorted(texts.items())
        if len(text) >= SHORTEST and fuzz.ratio(text, solution) < ALIKE
    ]
    if len(who) < 2:
        return {}
    shares = process.cdist(
        [texts[name] for name in who], [texts[name] for name in who], score_cutoff=ALIKE
    )
    common = {name for name, row in zip(who, shares, strict=True) if (row > 0).sum() > COMMON}
    return {
        (one, other): float(shares[i, j])
        for i, one in enumerate(who)
        for j, other in enumerate(who)
        if i < j and shares[i, j] > 0 and not {one, other} & common
    }


def _answers(grades: Path, assignment: str) -> dict[str, dict[str, str]]:
    """learner → exercise → the answer without its names."""
    found: dict[str, dict[str, str]] = {}
    with Store(grades) as store:
        rows = [row.handed_in for row in store.rows() if row.handed_in.assignment == assignment]
        for one in rows:
            if not one.notebook:
                continue
            read = submission.parse(store.load(one.notebook), Path(one.where), wanted=assignment)
            sources = dict(read.cells)
            found[one.learner] = {
                exercise.name: nameless(sources[numbers[-1]])
                for exercise in exercises.of_notebook(assignment)
                if (numbers := [n for n in read.definitions.get(exercise.name, ()) if n in sources])
            }
    return found


def _own(exercise: str) -> str:
    try:
        return nameless(answers.solution_source(exercise))
    except (answers.AnswerNotFound, OSError, ValueError):
        return ""


def nameless(source: str) -> str:
    """Code without comments, docstrings, layout and the names that its author chose; "" if it is none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    _Names().visit(tree)
    return ast.unparse(tree)


class _Names(ast.NodeTransformer):
    """Variables by the order in which they come; what is called or looked up keeps its name."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def _name(self, name: str) -> str:
        return self._known.setdefault(name, f"v{len(self._known)}")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self._name(node.arg), None
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Store) or node.id in self._known:
            node.id = self._name(node.id)
        return node
