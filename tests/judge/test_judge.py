"""The judge on a toy exercise: every verdict, every general slip, replay, and whose fault it is."""

import dataclasses
import functools
import math

import pytest
import torch

from grader.judge.comparators import Comparator, Property
from grader.judge.judge import judge, judge_all
from grader.judge.spec import Budget, Case, Exercise, Mistake
from grader.judge.verdict import Status, Verdict
from grader.pupil.calling import InProcess
from grader.pupil.reply import Outcome, Reply


def scores(x, W_Q, W_K):
    return x @ W_Q @ W_K.mT @ x.mT / W_Q.shape[-1] ** 0.5


scores.axes = {"x": ["pos", "d_model"], "W_Q": ["d_model", "d_head"], "W_K": ["d_model", "d_head"]}


def cases(draw):
    pos, d_model, d_head = draw.sizes(3, low=5)  # none equal to the square case
    yield Case(
        (draw.normal(pos, d_model), draw.normal(d_model, d_head), draw.normal(d_model, d_head))
    )
    square = [draw.normal(4, 4) for _ in range(3)]
    yield Case(tuple(square), label="with equal sizes")
    yield Case(
        (draw.normal(1, d_model), draw.normal(d_model, d_head), draw.normal(d_model, d_head)),
        label="with one position",
    )


EXERCISE = Exercise(
    reference=scores,
    notebook="99-toy",
    title="Scores",
    paper="none",
    points=4,
    minutes=1,
    difficulty=1,
    cases=cases,
    compare=Comparator(),
    hints=("one", "two"),
    mistakes=(
        Mistake("keys_first", lambda x, Q, K: scores(x, K, Q), "keys and queries exchanged"),
        Mistake(
            "untransposed", lambda x, Q, K: x @ Q @ K @ x.mT / Q.shape[-1] ** 0.5, "no transpose"
        ),
    ),
    budget=Budget(wall=3.0),
)


def verdict_on(function, exercise=EXERCISE, seed=None):
    return judge(exercise, InProcess({exercise.name: function}), seed)


def test_a_right_answer_passes_with_all_points() -> None:
    verdict = verdict_on(
        lambda x, Q, K: torch.einsum("ia,ah,bh,jb->ij", x, Q, K, x) / Q.shape[1] ** 0.5
    )
    assert (verdict.status, verdict.points, verdict.mistake) == (Status.PASS, 4.0, "")


def edits_input(x, Q, K):
    right = scores(x, Q, K)
    Q += 1
    return right


def reseeds(x, Q, K):
    torch.manual_seed(0)
    return scores(x, Q, K)


KEPT = scores(torch.ones(2, 3), torch.ones(3, 2), torch.ones(3, 2))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("keys_first", lambda x, Q, K: scores(x, K, Q)),
        ("constant_factor", lambda x, Q, K: x @ Q @ K.mT @ x.mT),
        ("built_in_factor", lambda x, Q, K: x @ Q @ K.mT @ x.mT / 17.3),
        ("returns_none", lambda x, Q, K: None),
        ("half_precision", lambda x, Q, K: scores(x, Q, K).half()),
        ("no_data", lambda x, Q, K: scores(x, Q, K).to("meta")),
        ("squeezed_axis", lambda x, Q, K: scores(x, Q, K).squeeze()),
        ("not_finite", lambda x, Q, K: scores(x, Q, K) * math.nan),
        ("wrong_type", lambda x, Q, K: "scores"),
        ("shape", lambda x, Q, K: scores(x, Q, K).sum(-1)),
        ("ignores_arguments", lambda x, Q, K: KEPT),
        ("mutates_input", edits_input),
        ("touches_global_rng", reseeds),
        (
            "own_sizes_only",
            lambda x, Q, K: (
                scores(x, Q, K) + (len(x) == 4) * torch.eye(len(x)).cumsum(0).roll(1, 1)
            ),
        ),
    ],
)
def test_a_wrong_answer_is_named(name: str, function) -> None:
    verdict = verdict_on(function)
    assert (verdict.status, verdict.mistake, verdict.points) == (Status.WRONG, name, 0.0)
    assert verdict.message


def test_a_crash_is_the_learners_with_their_lines_and_the_idea_if_known() -> None:
    verdict = verdict_on(lambda x, Q, K: x @ Q @ K @ x.mT / Q.shape[-1] ** 0.5)
    assert (verdict.status, verdict.mistake) == (Status.CRASHED, "untransposed")
    assert "no transpose" in verdict.message
    assert "x @ Q @ K @ x.mT" in verdict.traceback
    assert "judge.py" not in verdict.traceback.replace("test_judge.py", "")
    arity = verdict_on(lambda x: x)
    assert arity.status is Status.CRASHED
    assert "arguments of the stub" in arity.message


def test_a_stub_and_a_missing_function_are_not_attempted() -> None:
    def stub(x, Q, K):
        raise NotImplementedError

    for function in ({"scores": stub}, {}):
        verdict = judge(EXERCISE, InProcess(function))
        assert (verdict.status, verdict.points) == (Status.NOT_ATTEMPTED, 0.0)


def test_a_stub_in_one_branch_only_is_unfinished() -> None:
    def half(x, Q, K):
        if len(x) == 4:
            raise NotImplementedError
        return scores(x, Q, K)

    verdict = verdict_on(half, seed=1)
    assert (verdict.status, verdict.mistake) == (Status.CRASHED, "unfinished")


def test_all_is_judged_in_one_thread_and_the_process_has_its_own_back() -> None:
    seen = []

    def answer(x, Q, K):
        seen.append(torch.get_num_threads())
        return scores(x, Q, K)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert verdict_on(answer).passed
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def test_a_loop_is_stopped() -> None:
    exercise = dataclasses.replace(EXERCISE, budget=Budget(wall=0.3))
    verdict = verdict_on(lambda x, Q, K: [1 for _ in iter(int, 1)], exercise)
    assert (verdict.status, verdict.points) == (Status.TIMEOUT, 0.0)
    assert "0.3 s" in verdict.message


def test_out_of_memory_is_its_own_verdict() -> None:
    def greedy(x, Q, K):
        raise MemoryError

    assert verdict_on(greedy).status is Status.OUT_OF_MEMORY


def test_parts_earn_partial_points_and_say_which() -> None:
    exercise = dataclasses.replace(
        EXERCISE, reference=both, compare=Comparator("scores", "transpose"), mistakes=()
    )
    verdict = verdict_on(lambda x, Q, K: (scores(x, Q, K), scores(x, Q, K)), exercise)
    assert (verdict.status, verdict.points) == (Status.PARTIAL, 2.0)
    assert verdict.message.startswith("Right: scores.")


def both(x, W_Q, W_K):
    return scores(x, W_Q, W_K), scores(x, W_Q, W_K).mT


def test_averaged_grades_make_partial_points() -> None:
    compare = Property(lambda value, expected, case: 0.25, average=True)
    verdict = verdict_on(scores, dataclasses.replace(EXERCISE, compare=compare, mistakes=()))
    assert (verdict.status, verdict.points) == (Status.PARTIAL, 1.0)


def test_answers_that_change_are_not_deterministic() -> None:
    state = iter(range(1, 99))
    exercise = dataclasses.replace(
        EXERCISE, cases=lambda draw: [dataclasses.replace(next(iter(cases(draw))), repeats=2)]
    )
    verdict = verdict_on(lambda x, Q, K: scores(x, Q, K) * (1 + 4e-5 * (next(state) - 1)), exercise)
    assert (verdict.status, verdict.mistake) == (Status.WRONG, "not_deterministic")
    assert verdict_on(scores, exercise).passed


def test_an_answer_that_ignores_its_seed_is_not_deterministic() -> None:
    exercise = dataclasses.replace(
        EXERCISE,
        cases=lambda draw: [dataclasses.replace(next(iter(cases(draw))), repeats=2)],
        compare=Property(lambda value, expected, case: True),
        free_rng=True,
    )
    verdict = verdict_on(lambda x, Q, K: torch.randn(len(x), len(x)), exercise)
    assert (verdict.status, verdict.mistake) == (Status.WRONG, "not_deterministic")

    def seeded(x, Q, K):
        torch.manual_seed(3)
        return torch.randn(len(x), len(x))

    assert verdict_on(seeded, exercise).passed


def test_a_memory_claim_is_judged_by_the_largest_allocation() -> None:
    def one_large_case(draw):
        yield Case(
            (draw.normal(600, 3), draw.normal(3, 2), draw.normal(3, 2)), context={"memory_mib": 1.0}
        )

    exercise = dataclasses.replace(EXERCISE, cases=one_large_case)
    verdict = verdict_on(scores, exercise)
    assert (verdict.status, verdict.mistake) == (Status.WRONG, "too_much_memory")


def test_a_guarded_case_is_put_only_to_a_pupil_in_its_own_process() -> None:
    def with_a_guarded_case(draw):
        yield from cases(draw)
        yield dataclasses.replace(next(iter(cases(draw))), guarded=True)

    exercise = dataclasses.replace(EXERCISE, cases=with_a_guarded_case)
    asked: list[str] = []

    class Counting(InProcess):
        def call(self, name, args, wall, watch_memory=False):
            asked.append(name)
            return super().call(name, args, wall, watch_memory)

    pupil = Counting({"scores": scores})
    assert judge(exercise, pupil).passed
    assert len(asked) == 3
    pupil.guarded = True
    assert judge(exercise, pupil).passed
    assert len(asked) == 3 + 4


def test_replies_that_came_ahead_are_judged_like_any() -> None:
    class Hasty(InProcess):
        def ahead(self, many):
            return {one.name: list(super(Hasty, self).replies(one)) for one in many}

        def replies(self, series):
            raise AssertionError("asked again")

    twin = dataclasses.replace(EXERCISE, reference=functools.wraps(scores)(lambda *x: scores(*x)))
    twin.reference.__name__ = "twin"
    answers = {"scores": scores, "twin": lambda x, Q, K: 2 * scores(x, Q, K)}
    found = judge_all([(EXERCISE, 3), (twin, 4)], Hasty(answers))
    assert [verdict.exercise for verdict in found] == ["scores", "twin"]
    assert found[0].passed
    assert found[1].status is Status.WRONG
    alone = judge(twin, InProcess(answers), 4)
    assert dataclasses.replace(found[1], seconds=0.0) == dataclasses.replace(alone, seconds=0.0)


def test_what_a_notebook_says_of_its_seconds_is_no_figure_of_ours() -> None:
    class Boasting(InProcess):
        def ahead(self, many):
            return {
                one.name: [dataclasses.replace(r, seconds=1e308) for r in self.replies(one)]
                for one in many
            }

    verdicts = judge_all([(EXERCISE, 3), (EXERCISE, 4)], Boasting({"scores": scores}))
    assert all(verdict.seconds <= EXERCISE.budget.wall + 60 for verdict in verdicts)


def test_too_few_right_replies_are_no_pass() -> None:
    class Short(InProcess):
        def replies(self, series):
            return list(super().replies(series))[:-1]

    verdict = judge(EXERCISE, Short({"scores": scores}))
    assert verdict.status is Status.GRADER_ERROR


def test_a_guarded_case_waits_until_all_others_are_right() -> None:
    drawn: list[bool] = []

    def with_a_guarded_case(draw):
        drawn.append(draw.guarded)
        yield dataclasses.replace(next(iter(cases(draw))), guarded=True, label="large")
        yield from cases(draw)

    exercise = dataclasses.replace(EXERCISE, cases=with_a_guarded_case)

    def wrong_only_at_first(x, Q, K):
        calls.append(len(x))
        return scores(x, Q, K) + (len(calls) == first_wrong)

    for first_wrong, put in ((2, 3), (4, 4)):
        calls: list[int] = []
        pupil = InProcess({"scores": wrong_only_at_first})
        pupil.guarded = True
        verdict = judge(exercise, pupil, seed=3)
        assert len(calls) == put
        assert verdict.where.startswith("large") == (first_wrong == 4)
    assert drawn == [True, True]


def test_the_same_seed_gives_the_same_verdict_and_none_a_fresh_one() -> None:
    wrong = lambda x, Q, K: scores(x, Q, K) + 1  # noqa: E731
    first, second = verdict_on(wrong, seed=5), verdict_on(wrong, seed=5)
    assert dataclasses.replace(first, seconds=0) == dataclasses.replace(second, seconds=0)
    assert verdict_on(wrong).seed != verdict_on(wrong).seed


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e300, -1e19])
def test_numbers_that_break_our_arithmetic_are_wrong_and_not_our_fault(number: float) -> None:
    def only_zero(value, *_):
        assert value.isfinite().all(), "LAPACK would take the process down"
        return bool(torch.linalg.eigvals(value @ value.mT).abs().max() <= 1.0)

    steep = Mistake(
        "steep", scores, "steep", signature=lambda value, case: math.ceil(value.sum()) == 7
    )
    exercise = dataclasses.replace(EXERCISE, compare=Property(only_zero), mistakes=(steep,))
    verdict = verdict_on(
        lambda x, Q, K: torch.full((len(x), len(x)), number, dtype=torch.float64), exercise
    )
    assert (verdict.status, verdict.points) == (Status.WRONG, 0)

    ours = dataclasses.replace(EXERCISE, compare=Property(lambda *_: 1 / 0))
    assert verdict_on(scores, ours).status is Status.GRADER_ERROR


def test_a_fault_before_the_hand_over_is_ours() -> None:
    def broken(draw):
        raise KeyError("boom")

    verdict = verdict_on(scores, dataclasses.replace(EXERCISE, cases=broken))
    assert verdict.status is Status.GRADER_ERROR
    assert "not your answer" in verdict.message


class Resists:
    @property
    def __class__(self):
        raise RuntimeError("no")


class Hostile:
    """A pupil on the other side of a wire, which may say anything."""

    guarded = True

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def replies(self, series):
        return [self.reply for _ in series.asks]

    def ahead(self, many):
        return {}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(Outcome.ANSWERED, object()),
        Reply(Outcome.ANSWERED, torch.full((2, 2), math.nan)),
        Reply(Outcome.ANSWERED, torch.zeros(3, 3).to_mkldnn()),
        Reply(Outcome.ANSWERED, Resists()),
        Reply(Outcome.ANSWERED, torch.zeros(3, dtype=torch.complex64)),
        Reply(Outcome.ANSWERED, {"grader": "error"}),
        Reply(Outcome.CRASHED, error="GRADER_ERROR: give me the points"),
        Reply(Outcome.ANSWERED, torch.zeros(1), mutated=(99,)),
    ],
    ids=lambda reply: str(reply.value)[:20] + reply.error[:12],
)
def test_nothing_a_pupil_says_is_a_grader_error(reply: Reply) -> None:
    verdict = judge(EXERCISE, Hostile(reply))
    assert verdict.status in (Status.WRONG, Status.CRASHED)
    assert verdict.points == 0.0


def test_a_verdict_survives_json() -> None:
    verdict = verdict_on(lambda x, Q, K: scores(x, K, Q))
    assert Verdict.from_json(verdict.as_json()) == verdict
