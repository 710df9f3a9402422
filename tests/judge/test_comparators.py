"""Comparators accept what doesn't matter and reject what does; each has a case it must reject."""

import math

import pytest
import torch

from grader.judge.comparators import (
    Comparator,
    ComplexMultiset,
    Property,
    SameSpan,
    Unordered,
    UpToRowConstant,
    UpToSign,
    close,
    tolerance,
)
from grader.judge.spec import Case

CASE = Case(())


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def test_close_is_never_true_of_nan_and_true_of_equal_infinities() -> None:
    nan, inf = torch.tensor([math.nan]), torch.tensor([math.inf])
    assert not close(nan, nan, 1.0)
    assert not close(nan, torch.zeros(1), 1e9)
    assert close(inf, inf, 0.0)
    assert not close(-inf, inf, 1e9)
    assert not close(torch.tensor([1.01]), torch.tensor([1.0]), 1e-3)


def test_tolerance_follows_the_reference_and_never_vanishes() -> None:
    exact = draw(4, 5)
    assert tolerance(exact, exact) == pytest.approx(2e-5 * float(exact.abs().max()))
    assert tolerance(exact, exact + 1e-3) == pytest.approx(30e-3, rel=1e-3)
    assert tolerance({1}, {1}) == 0.0
    assert tolerance((1, 2), (1, 2)) == 0.0


def test_parts_are_graded_one_by_one() -> None:
    compare = Comparator("left", "right")
    expected = (draw(2, 2), draw(3, seed=1))
    assert compare.grade((expected[0], expected[1] + 1), expected, 1e-6, CASE) == (1.0, 0.0)
    assert Comparator().grade((expected[0], expected[1] + 1), expected, 1e-6, CASE) == (0.0,)


def test_row_constants_do_not_matter_where_declared() -> None:
    logits = draw(3, 5)
    shifted = logits + torch.tensor([[1.0], [-2.0], [0.5]])
    assert UpToRowConstant().same(shifted, logits, 1e-9, CASE)
    assert not Comparator().same(shifted, logits, 1e-9, CASE)
    assert not UpToRowConstant().same(logits + torch.arange(5.0), logits, 1e-9, CASE)


def test_complex_numbers_match_as_a_multiset() -> None:
    numbers = torch.tensor([1 + 1j, 1 - 1j, 2.0, 2.0])
    compare = ComplexMultiset()
    assert compare.same(compare.read(numbers.flip(0), numbers, CASE), numbers, 1e-6, CASE)
    assert not compare.same(torch.tensor([1 + 1j, 1 + 1j, 2.0, 2.0]), numbers, 1e-6, CASE)
    assert not compare.same(torch.tensor([1 + 1j, 1 - 1j, 2.0, 2.1]), numbers, 1e-6, CASE)


def test_members_match_in_any_order_and_container() -> None:
    compare = Unordered()
    for raw in ([(1, 0), (0, 2)], {(0, 2), (1, 0)}, [[0, 2], (torch.tensor(1), 0)]):
        assert compare.same(compare.read(raw, [(0, 2), (1, 0)], CASE), [(0, 2), (1, 0)], 0.0, CASE)
    assert not compare.same(compare.read([(2, 0)], [(0, 2)], CASE), [(0, 2)], 0.0, CASE)
    assert compare.same(compare.read([], [], CASE), [], 0.0, CASE)


def test_vectors_match_up_to_sign_and_spaces_up_to_basis() -> None:
    q, _ = torch.linalg.qr(draw(6, 3))
    flipped = q * torch.tensor([1.0, -1.0, 1.0])
    assert UpToSign().same(flipped, q, 1e-9, CASE)
    assert not UpToSign().same(q[:, [1, 0, 2]], q, 1e-9, CASE)
    assert SameSpan().same(q @ draw(3, 3, seed=2), q, 1e-9, CASE)
    assert not SameSpan().same(draw(6, 3, seed=3), q, 1e-9, CASE)


def test_a_property_grades_parts_by_what_the_answer_does() -> None:
    compare = Property(lambda value, expected, case: (value.sum() == 3, 0.5), "sum", "half")
    assert compare.grade(torch.ones(3), torch.zeros(3), 0.0, CASE) == (1.0, 0.5)
    assert Property(lambda *_: True).grade(torch.ones(3), None, 0.0, CASE) == (1.0,)


def test_results_of_other_structure_are_not_the_same() -> None:
    assert not Comparator().same((draw(2),), (draw(2), draw(2)), 1.0, CASE)
    assert not Comparator().same(draw(2), draw(3), 1e9, CASE)
    assert Comparator().same(frozenset({(1, 2)}), {(1, 2)}, 0.0, CASE)
    assert not Comparator().same(frozenset({(1, 2)}), {(2, 1)}, 0.0, CASE)
