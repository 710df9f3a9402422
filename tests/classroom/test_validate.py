"""The validator: silent on good content, and every rule can be broken and is then named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from toy_course import HEAD_SUM, SCALED_SCORES, ToyCourse, score_cases

from grader import exercises, resources
from grader.classroom import build, solving, sources
from grader.classroom.validate import Problem, each, validate
from grader.exercises.__main__ import by_notebook, count
from grader.exercises.__main__ import main as print_counts
from grader.judge.draw import Draw
from grader.judge.slips import SLIPS, slips_of
from grader.judge.spec import Case, Exercise, Mistake, Variant


@pytest.fixture
def built(toy: ToyCourse) -> ToyCourse:
    build.build(toy.root)
    return toy


def changed(**fields: Any) -> Exercise:
    return dataclasses.replace(SCALED_SCORES, **fields)


def said(problems: list[Problem]) -> str:
    return "\n".join(map(str, problems))


def test_good_content_has_no_problems(built: ToyCourse) -> None:
    assert validate() == []
    assert [name for name, _ in each()] == ["00-toy", "scaled_scores", "head_sum"]
    assert [name for name, _ in each(["head_sum"])] == ["00-toy", "head_sum"]


def test_what_trains_is_judged_once_and_may_use_the_global_generator(built: ToyCourse) -> None:
    asked = []

    def counting(q: Any, k: Any) -> Any:
        asked.append(q)
        return SCALED_SCORES.reference(q, k)

    for free_rng, rounds in ((False, 2), (True, 1)):
        asked.clear()
        variant = Variant("counting", counting)
        built.declare(changed(variants=(variant,), free_rng=free_rng), HEAD_SUM)
        assert validate(["scaled_scores"], seeds=[5, 6]) == []
        assert len(asked) == rounds * len(list(score_cases(Draw(5))))


def test_an_unknown_name_is_refused(built: ToyCourse) -> None:
    with pytest.raises(ValueError, match=r"No exercise or notebook is called nothing"):
        validate(["nothing"])


def with_plain_scale(q: Any, k: Any) -> Any:
    return q @ k.mT


BROKEN: dict[str, tuple[Callable[[], Exercise], str]] = {
    "reference": (
        lambda: changed(cases=lambda draw: iter([Case((draw.normal(2, 3),))])),
        "the reference must pass and is GRADER_ERROR",
    ),
    "variant": (
        lambda: changed(variants=(Variant("plain", with_plain_scale),)),
        "variant plain must pass and is WRONG [no_scale]",
    ),
    "right mistake": (
        lambda: changed(mistakes=(Mistake("none", SCALED_SCORES.reference, "Look."),)),
        "mistake none must be rejected and is PASS",
    ),
    "twins": (
        lambda: changed(
            mistakes=(
                Mistake("first", with_plain_scale, "One."),
                Mistake("second", with_plain_scale, "Two."),
            )
        ),
        "mistake second must be named second and is WRONG [first]",
    ),
    "one hint": (lambda: changed(hints=("Only one.", " ")), "fewer than two hints"),
    "points": (lambda: changed(points=0), "whole number of at least 1, not 0"),
    "title": (lambda: changed(title=""), "no title"),
    "minutes": (lambda: changed(minutes=0), "minutes must be at least 1"),
    "difficulty": (lambda: changed(difficulty=4), "difficulty must be 1, 2 or 3"),
    "same name": (
        lambda: changed(mistakes=SCALED_SCORES.mistakes[:1] * 2),
        "two mistakes are called no_scale",
    ),
    "same message": (
        lambda: changed(
            mistakes=tuple(
                dataclasses.replace(m, message="Look.") for m in SCALED_SCORES.mistakes
            )
        ),
        "mistakes no_scale and d_model_scale say the same",
    ),
    "empty message": (
        lambda: changed(mistakes=(Mistake("quiet", with_plain_scale, " "),)),
        "mistake quiet has no message",
    ),
    "unknown twin": (
        lambda: changed(mistakes=(Mistake("a", with_plain_scale, "A.", same_as=("b",)),)),
        "mistake a is the same as b, which there isn't",
    ),
    "telling hint": (
        lambda: changed(hints=("Try scores / q.shape[-1]**0.5 here.", "Two.")),
        "hint 1 prints a line of the solution",
    ),
    "telling message": (
        lambda: changed(mistakes=(Mistake("no_scale", with_plain_scale, "scores = q @ k.T is it"),)),
        "the message of no_scale prints a line of the solution",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_declaration_is_named(built: ToyCourse, rule: str) -> None:
    make, words = BROKEN[rule]
    built.declare(make(), HEAD_SUM)
    assert words in said(validate(["scaled_scores"], seeds=[5]))


def test_twins_may_be_declared_the_same(built: ToyCourse) -> None:
    twins = (
        Mistake("first", with_plain_scale, "One."),
        Mistake("second", with_plain_scale, "Two.", same_as=("first",)),
    )
    built.declare(changed(mistakes=twins), HEAD_SUM)
    assert validate(["scaled_scores"], seeds=[5]) == []


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("outputs.sum(dim=0)", "outputs.mean(dim=0)", "solution must pass and is WRONG [mean]"),
        ("outputs.sum(dim=0)", "outputs.sum(dim=0) + missing", "solution must pass and is CRASHED"),
        ("(head, pos, d_model) → (pos, d_model)", "(head, pos, d_model)", "what comes out"),
        ("outputs (head, pos, d_model)", "the outputs of the heads", "the shape of outputs"),
        ('"""outputs (head', '"""the heads (head', "doesn't mention outputs"),
        ("def head_sum(outputs)", "def head_sum(heads)", "its stub takes ('heads',)"),
        ("# Two heads add. The order does not matter.", "# Two heads add.", "at least two sentences"),
        ("# Two heads add.", "# # Heads. Add.\n# Take `a. b.`, then $c. d.$ now:", "at least two sentences"),
        ("framework/index.html)", "framework/index.html", "a link is not closed"),
        ("https://transformer", "http://transformer", "is not a whole https address"),
        ("https://transformer-circuits.pub/2021", "../01-next", "leads to no file of the course"),
        ("framework/index.html)", "framework /index.html)", "a blank in it"),
        ("check(head_sum)", "check(head_sum);", "must be the bare call"),
        ('print("a demonstration")', "total = 1\n\n# %%\ntotal", "uses total, which only a demo cell makes"),
    ],
)  # fmt: skip
def test_a_flaw_in_the_source_is_named(built: ToyCourse, old: str, new: str, words: str) -> None:
    built.edit(old, new)
    assert words in said(validate(seeds=[5]))


def test_order_and_unreadable_sources_are_named(built: ToyCourse) -> None:
    built.declare(HEAD_SUM, SCALED_SCORES)
    assert "the registry has ['head_sum', 'scaled_scores']" in said(validate(seeds=[5]))
    built.edit("# %% demo", "# %% picture")
    assert "its source can't be read" in said(validate(seeds=[5]))
    built.source.unlink()
    assert "its source can't be read" in said(validate(seeds=[5]))


def test_a_stub_that_answers_or_was_not_built_is_named(toy: ToyCourse) -> None:
    (toy.root / "course").mkdir()
    assert "its released stub can't be run" in said(validate(["head_sum"], seeds=[5]))
    build.build(toy.root)
    path = resources.released("00-toy")
    text = path.read_text(encoding="utf-8").replace("raise NotImplementedError()", "return None")
    path.write_text(text, encoding="utf-8")
    assert "the stub is WRONG" in said(validate(["head_sum"], seeds=[5]))


def test_solutions_run_on_what_the_notebook_gives_and_nothing_else(toy: ToyCourse) -> None:
    toy.edit("import torch\n", "import torch\nHEADS = 0\nimport matplotlib\nraise SystemExit\n")
    toy.edit("outputs.sum(dim=0)", "outputs.sum(dim=HEADS)")
    functions = solving.solutions(sources.read(toy.source))
    assert torch.equal(functions["head_sum"](torch.ones(2, 3)), torch.full((3,), 2.0))
    assert "matplotlib" not in functions["head_sum"].__globals__


def test_each_slip_is_tried_where_it_can_occur(built: ToyCourse) -> None:
    tried = {slip.name for slip, _ in slips_of(HEAD_SUM, list(HEAD_SUM.cases(Draw(1))))}
    assert {slip.name for slip in SLIPS} - tried == {
        "Python numbers",  # the result is no single number
        "lists for tuples",
        "axes of size 1 squeezed away",  # no case has a result with such an axis
    }


def test_a_slip_that_the_judge_calls_otherwise_is_a_problem(built: ToyCourse) -> None:
    squeezed = Mistake("drops_axis", lambda q, k: SCALED_SCORES.reference(q, k).squeeze(), "Which?")
    built.declare(changed(mistakes=(squeezed,)), HEAD_SUM)
    problems = said(validate(["scaled_scores"], seeds=[5]))
    assert "must be named squeezed_axis and is WRONG [drops_axis]" in problems


def test_the_counts_add_up(built: ToyCourse) -> None:
    counts = by_notebook()["00-toy"]
    assert (counts.exercises, counts.points, counts.mistakes, counts.variants) == (2, 3, 3, 1)
    general = {fact for slip in SLIPS for fact in slip.facts}
    assert counts.facts == {17, 18, 19, 41} | general
    assert count([]).facts == frozenset()


def test_the_counts_are_printed(built: ToyCourse, capsys: pytest.CaptureFixture[str]) -> None:
    print_counts()
    printed = capsys.readouterr().out
    assert "00-toy" in printed
    assert "entries covered: 17–19, 41, 110, 112–113" in printed


@pytest.mark.parametrize("notebook", exercises.NOTEBOOKS)
def test_the_courses_content_keeps_every_rule(notebook: str) -> None:
    asked = [exercise for exercise in exercises.of_notebook(notebook) if not exercise.free_rng]
    assert said(validate([exercise.name for exercise in asked], seeds=[1])) == ""


# The two exercises that train are among these only: all that can go wrong in them takes two minutes.
@pytest.mark.long
@pytest.mark.parametrize("notebook", exercises.NOTEBOOKS)
def test_the_courses_content_keeps_every_rule_whatever_is_drawn(notebook: str) -> None:
    assert said(validate([notebook], seeds=range(100, 103))) == ""
