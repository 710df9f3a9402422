"""Products kept as factors, each operation against the dense product."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference_cases import Draw, close, draws, few, same_multiset, sizes
from torch import Tensor

from grader.circuits.low_rank import LowRank, real_over_absolute, triangle
from grader.circuits.residual_stream import random_rotation

batches = st.lists(st.integers(1, 3), max_size=2)


@few
@given(draws, batches, sizes, sizes, sizes)
def test_products_transposes_and_entries_are_the_dense_ones(
    draw: Draw, batch: list[int], n: int, k: int, m: int
) -> None:
    A, B = draw.normal(*batch, n, k), draw.normal(*batch, k, m)
    product, dense = LowRank(A, B), A @ B
    assert product.shape == tuple(dense.shape)
    assert product.k == k
    close(product.dense(), dense)
    close(product.mT.dense(), dense.mT)
    right, left = draw.normal(m, 3), draw.normal(2, n)
    close((product @ right).dense(), dense @ right)
    close((left @ product).dense(), left @ dense)
    other = LowRank(draw.normal(*batch, m, 2), draw.normal(*batch, 2, n))
    assert (product @ other).k == min(k, 2)
    close((product @ other).dense(), dense @ other.dense())
    close(product.diagonal(), dense.diagonal(dim1=-2, dim2=-1))
    close(product.rows(n - 1), dense[..., n - 1, :])
    close(product.rows([n - 1, 0]), dense[..., [n - 1, 0], :])


@few
@given(draws, batches, sizes, sizes, sizes)
def test_norms_and_singular_values_are_the_dense_ones(
    draw: Draw, batch: list[int], n: int, k: int, m: int
) -> None:
    A, B = draw.normal(*batch, n, k), draw.normal(*batch, k, m)
    product, dense = LowRank(A, B), A @ B
    close(product.frobenius_norm(), torch.linalg.matrix_norm(dense))
    U, S, Vh = product.svd()
    r = min(n, k, m)
    assert S.shape == (*batch, r)
    close((U * S[..., None, :]) @ Vh, dense)
    identity = torch.eye(r, dtype=torch.float64).expand(*batch, r, r)
    close(U.mT @ U, identity)
    close(Vh @ Vh.mT, identity)
    close(S, product.singular_values())
    close(S, torch.linalg.svdvals(dense)[..., :r])


@few
@given(draws, batches, sizes, sizes)
def test_eigenvalues_and_trace_are_the_dense_ones(
    draw: Draw, batch: list[int], n: int, k: int
) -> None:
    A, B = draw.normal(*batch, n, k), draw.normal(*batch, k, n)
    product, dense = LowRank(A, B), A @ B
    close(product.trace(), dense.diagonal(dim1=-2, dim2=-1).sum(dim=-1))
    values = product.eigenvalues()
    assert values.shape == (*batch, min(n, k))
    padded = torch.cat([values, values.new_zeros(*batch, n - min(n, k))], dim=-1)
    # A matrix without symmetry moves its zero eigenvalues by about the root of the rounding error.
    same_multiset(padded, torch.linalg.eigvals(dense), within=1e-5)
    close(values.sum(dim=-1).real, product.trace())


@few
@given(draws, sizes, sizes)
def test_turning_a_product_round_keeps_trace_and_eigenvalues(draw: Draw, n: int, k: int) -> None:
    A, B = draw.normal(n, k), draw.normal(k, n)
    one, other = LowRank(A, B), LowRank(B, A)
    close(one.trace(), other.trace())
    same_multiset(one.eigenvalues(), other.eigenvalues(), within=1e-7)


@few
@given(draws, st.integers(2, 6), st.integers(2, 6))
def test_turning_a_product_round_does_not_keep_its_norm(draw: Draw, n: int, k: int) -> None:
    A, B = draw.normal(n, k), draw.normal(k, n)
    one, other = LowRank(A, B).frobenius_norm(), LowRank(B, A).frobenius_norm()
    assert (one - other).abs() > 1e-9 * one


def test_the_published_mistake_in_numbers() -> None:
    A = torch.tensor([[3.0], [4.0]])
    B = torch.tensor([[4.0, -3.0]])
    assert LowRank(A, B).frobenius_norm() == pytest.approx(25)
    assert LowRank(B, A).frobenius_norm() == pytest.approx(0)
    assert LowRank(A, B).trace() == pytest.approx(0)


@few
@given(draws, sizes, sizes, sizes)
def test_a_triangle_is_all_that_a_norm_sees(draw: Draw, n: int, k: int, m: int) -> None:
    X, Y = draw.normal(n, k), draw.normal(k, m)
    R = triangle(X)
    assert R.shape == (min(n, k), k)
    assert torch.equal(R, R.triu())
    close((R @ Y).norm(), (X @ Y).norm())


@few
@given(draws, st.integers(1, 20), sizes, st.integers(1, 400))
def test_chunks_of_rows_make_up_the_product_within_their_size(
    draw: Draw, n: int, m: int, max_bytes: int
) -> None:
    A, B = draw.normal(2, n, 3), draw.normal(2, 3, m)
    pieces = list(LowRank(A, B).row_chunks(max_bytes))
    close(torch.cat([rows for _, rows in pieces], dim=-2), A @ B)
    assert [i for part, _ in pieces for i in range(n)[part]] == list(range(n))
    for _, rows in pieces:
        assert rows.shape[-2] == 1 or rows.numel() * 8 <= max_bytes


@few
@given(draws, batches, sizes, sizes, sizes, st.data())
def test_the_largest_entries_are_those_of_the_dense_product(
    draw: Draw, batch: list[int], n: int, k: int, m: int, data: st.DataObject
) -> None:
    A, B = draw.normal(n, k), draw.normal(*batch, k, m)
    count = data.draw(st.integers(1, n * m))
    values, rows, columns = LowRank(A, B).largest(count)
    assert values.shape == rows.shape == columns.shape == (*batch, count)
    dense = (A @ B).flatten(-2)
    close(values, dense.topk(count).values)
    close(dense.gather(-1, rows * m + columns), values)


def test_the_largest_entries_are_found_across_chunks_and_several_in_a_row() -> None:
    A, B = torch.zeros(3000, 2), torch.zeros(2, 3000)  # three chunks
    A[[5, 2900], [0, 1]] = 1.0
    B[0, [7, 8]], B[1, 9] = torch.tensor([4.0, 3.0]), 2.0
    values, rows, columns = LowRank(A, B).largest(3)
    assert values.tolist() == [4, 3, 2]
    assert rows.tolist() == [5, 5, 2900]
    assert columns.tolist() == [7, 8, 9]


def test_a_count_of_largest_entries_that_there_are_not_is_refused() -> None:
    for count in (0, 7):
        with pytest.raises(ValueError, match=f"a count in 1 … 6; {count} came"):
            LowRank(torch.ones(2, 1), torch.ones(1, 3)).largest(count)


def test_batch_axes_are_indexed_also_where_a_factor_is_shared() -> None:
    draw = Draw(0)
    A, B = draw.normal(7, 2), draw.normal(3, 4, 2, 5)
    per_head = LowRank(A, B)
    assert per_head.shape == (3, 4, 7, 5)
    close(per_head[1, 2].dense(), A @ B[1, 2])
    close(per_head[2].dense(), A @ B[2])
    close(per_head[:, 1].dense(), A @ B[:, 1])
    for wrong in ((0, 0, 0), (0, 0, slice(2))):
        with pytest.raises(IndexError, match="2 batch axes"):
            per_head[wrong]
    with pytest.raises(IndexError, match="0 batch axes"):
        LowRank(A, B[0, 0])[0]


def test_precision_is_that_of_the_factors() -> None:
    draw = Draw(1)
    for dtype, complex_dtype in (
        (torch.float32, torch.complex64),
        (torch.float64, torch.complex128),
    ):
        product = LowRank(draw.normal(6, 2).to(dtype), draw.normal(2, 6).to(dtype))
        assert product.eigenvalues().dtype == complex_dtype
        for value in (*product.svd(), product.trace(), product.frobenius_norm(), product.dense()):
            assert value.dtype == dtype


def test_eigenvalues_far_from_symmetric_are_found_in_double_precision() -> None:
    # A turned Jordan block: an error of 1e-7 in an entry moves its eigenvalues by about 0.07.
    block = torch.eye(6, dtype=torch.float64) + torch.eye(6, dtype=torch.float64).roll(1, 1).triu()
    R = random_rotation(6, Draw(8).generator)
    single = (R @ block @ R.T).float()
    found = LowRank(torch.eye(6), single).eigenvalues()
    same_multiset(found, torch.linalg.eigvals(single.double()).cfloat(), within=1e-5)


def test_a_small_norm_of_large_factors_keeps_its_digits() -> None:
    # Gram matrices would square the factors: 1e16 next to 1, beyond double precision.
    A = torch.tensor([[1e8, 1.0], [0.0, 1e-8]], dtype=torch.float64)
    B = torch.tensor([[1.0], [-1e8]], dtype=torch.float64)
    assert LowRank(A, B).frobenius_norm().item() == pytest.approx(1.0, rel=1e-6)


def test_gradients_pass_through_the_factors() -> None:
    draw = Draw(2)
    A, B = draw.normal(5, 2).requires_grad_(), draw.normal(2, 5).requires_grad_()

    def numbers(A: Tensor, B: Tensor) -> tuple[Tensor, ...]:
        product = LowRank(A, B)
        score = real_over_absolute(product.eigenvalues())
        return product.frobenius_norm(), product.trace(), product.singular_values(), score

    assert torch.autograd.gradcheck(numbers, (A, B))


def test_factors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must share k; \(3, 2\) and \(3, 2\) came"):
        LowRank(torch.ones(3, 2), torch.ones(3, 2))
    with pytest.raises(ValueError, match="must share k"):
        LowRank(torch.ones(2), torch.ones(2, 3))
    rectangle = LowRank(torch.ones(3, 2), torch.ones(2, 4))
    for what in ("trace", "eigenvalues"):
        with pytest.raises(ValueError, match=rf"{what} needs a square product; .*\(3, 4\)"):
            getattr(rectangle, what)()


@pytest.mark.parametrize(
    ("eigenvalues", "score"),
    [
        ([1, 2, 3], 1),
        ([-1, -2], -1),
        ([1, -1], 0),
        ([3j, -3j], 0),
        ([3 + 4j, 3 - 4j], 0.6),
        ([0, 0], 0),
        ([], 0),
        ([2, 0, -1, 0], 1 / 3),
    ],
)
def test_the_eigenvalue_score(eigenvalues: list[complex], score: float) -> None:
    values = torch.tensor(eigenvalues, dtype=torch.complex128)
    assert real_over_absolute(values).item() == pytest.approx(score)
    assert real_over_absolute(-values).item() == pytest.approx(-score)


def test_the_eigenvalue_score_of_nan_is_nan() -> None:
    assert real_over_absolute(torch.tensor([torch.nan + 0j, 1])).isnan()
