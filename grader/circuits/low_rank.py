"""Products kept as their factors: everything asked of ``A @ B``, never the big matrix.

A circuit of one head over the whole vocabulary is a (d_vocab, d_vocab) matrix of rank d_head: 10 GB
at 50,257 tokens, and 13 MB a side as ``A`` (d_vocab, d_head) and ``B`` (d_head, d_vocab). Two facts
carry the module.

*Cyclic products share their non-zero eigenvalues.* If ``A B v = λ v`` with λ ≠ 0, then ``B v`` is
not zero and ``(B A)(B v) = λ (B v)``. So the eigenvalues of ``A @ B`` are those of the small
``B @ A``, and zeros. The trace, their sum, is shared for the same reason.

*Norms are not cyclic.* ``‖A B‖`` and ``‖B A‖`` differ. What may be dropped from a norm is a factor
with orthonormal columns on the left (``‖Q X‖ = ‖X‖``) or rows on the right, so with ``A = Q R``,
``‖A B‖_F = ‖R B‖_F``. The authors' own library used the cyclic rule for a norm, and the composition
figure of the paper had to be corrected for it.

Paper: appendix "Working with Low-Rank Matrices", and the erratum in its comments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class LowRank:
    """The matrix ``A @ B`` as A (..., n, k) and B (..., k, m); ``...`` are batch axes, say heads.

    The factors are held as given, shared and never changed. k need not be small nor the true rank;
    k small is what makes it worth while. Raises ValueError where the factors do not fit.
    """

    A: Tensor
    B: Tensor

    def __post_init__(self) -> None:
        if self.A.ndim < 2 or self.B.ndim < 2 or self.A.shape[-1] != self.B.shape[-2]:
            raise ValueError(
                "LowRank: A (..., n, k) and B (..., k, m) must share k; "
                f"{tuple(self.A.shape)} and {tuple(self.B.shape)} came."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., n, m), the shape of the product."""
        batch = np.broadcast_shapes(self.A.shape[:-2], self.B.shape[:-2])
        return (*batch, self.A.shape[-2], self.B.shape[-1])

    @property
    def k(self) -> int:
        """The inner size, an upper bound of the rank."""
        return self.A.shape[-1]

    @property
    def mT(self) -> LowRank:
        """The transpose, (A B)ᵀ = Bᵀ Aᵀ."""
        return LowRank(self.B.mT, self.A.mT)

    def dense(self) -> Tensor:
        """The product itself, (..., n, m): for small sizes and for tests."""
        return self.A @ self.B

    def __matmul__(self, other: Tensor | LowRank) -> LowRank:
        """``(A B) @ other``, still in factors; of two inner sizes the smaller one stays."""
        if isinstance(other, Tensor):
            return LowRank(self.A, self.B @ other)
        middle = self.B @ other.A
        if self.k <= other.k:
            return LowRank(self.A, middle @ other.B)
        return LowRank(self.A @ middle, other.B)

    def __rmatmul__(self, other: Tensor) -> LowRank:
        """``other @ (A B)``, still in factors."""
        return LowRank(other @ self.A, self.B)

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> LowRank:
        """Index into the batch axes: ``per_head[3]`` is the product of head 3."""
        batch = self.shape[:-2]
        A = self.A.expand(*batch, *self.A.shape[-2:])
        B = self.B.expand(*batch, *self.B.shape[-2:])
        if not batch or (isinstance(index, tuple) and len(index) > len(batch)):
            raise IndexError(f"LowRank has {len(batch)} batch axes to index; use rows() for rows.")
        return LowRank(A[index], B[index])

    def rows(self, index: Tensor | slice | int | list[int]) -> Tensor:
        """The chosen rows of the product, dense: rows [i, j] of (n, m) cost two rows, not n."""
        if isinstance(index, int):
            return (self.A[..., index, None, :] @ self.B).squeeze(-2)
        return self.A[..., index, :] @ self.B

    def row_chunks(self, max_bytes: int = 64 * 2**20) -> Iterator[tuple[slice, Tensor]]:
        """The whole product, dense, a few rows at a time: (slice of rows, (..., rows, m)).

        A chunk takes at most ``max_bytes``, but always holds one row.
        """
        *batch, n, m = self.shape
        row = max(1, m * self.A.element_size() * torch.Size(batch).numel())
        step = max(1, max_bytes // row)
        for start in range(0, n, step):
            chunk = slice(start, min(start + step, n))
            yield chunk, self.rows(chunk)

    def largest(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The ``count`` largest entries, best first: values, rows and columns, each (..., count).

        They stand in the ``count`` rows whose own largest entries are largest: each of those rows
        holds an entry that no other row surpasses. So one walk over the product, 16 MiB at a time,
        keeps one number a row; then ``count`` rows, dense, are all that has to be searched.
        Which of equal entries come, and in which order, is left open.
        Raises ValueError unless 1 ≤ count ≤ n · m.
        """
        *batch, n, m = self.shape
        if not 1 <= count <= n * m:
            raise ValueError(f"LowRank: largest needs a count in 1 … {n * m}; {count} came.")
        maxima = [rows.amax(dim=-1) for _, rows in self.row_chunks(16 * 2**20)]
        chosen = torch.cat(maxima, dim=-1).topk(min(count, n)).indices
        A = self.A.expand(*batch, n, self.k).take_along_dim(chosen.unsqueeze(-1), dim=-2)
        values, place = (A @ self.B).flatten(-2).topk(count)
        return values, chosen.gather(-1, place // m), place % m

    def diagonal(self) -> Tensor:
        """The diagonal (..., min(n, m)): entry i is row i of A times column i of B."""
        size = min(self.A.shape[-2], self.B.shape[-1])
        return (self.A[..., :size, :] * self.B.mT[..., :size, :]).sum(dim=-1)

    def trace(self) -> Tensor:
        """Σ_i (A B)_ii, (...): n·k multiplications."""
        self._square("trace")
        return self.diagonal().sum(dim=-1)

    def eigenvalues(self) -> Tensor:
        """The min(n, k) eigenvalues that can differ from zero, complex (..., min(n, k)), any order.

        The others are zero. Computed in double precision: the eigenvalues of a matrix far from
        symmetric move much more than its entries.
        """
        self._square("eigenvalues")
        small = self.B @ self.A if self.k <= self.A.shape[-2] else self.A @ self.B
        values: Tensor = torch.linalg.eigvals(small.double())
        return values.to(_complex(small.dtype))

    def svd(self) -> tuple[Tensor, Tensor, Tensor]:
        """U (..., n, r), S (..., r) descending, Vh (..., r, m), with r = min(n, k, m).

        ``A = Q_a R_a`` and ``Bᵀ = Q_b R_b`` give ``A B = Q_a (R_a R_bᵀ) Q_bᵀ``: the SVD of the
        small middle, with orthonormal columns put on both sides, is the SVD of the product.
        """
        Q_a, R_a = torch.linalg.qr(self.A)
        Q_b, R_b = torch.linalg.qr(self.B.mT)
        U, S, Vh = torch.linalg.svd(R_a @ R_b.mT, full_matrices=False)
        return Q_a @ U, S, Vh @ Q_b.mT

    def singular_values(self) -> Tensor:
        """(..., min(n, k, m)), descending."""
        values: Tensor = torch.linalg.svdvals(triangle(self.A) @ triangle(self.B.mT).mT)
        return values

    def frobenius_norm(self) -> Tensor:
        """‖A B‖_F, not squared, (...); triangles keep the digits that a Gram matrix would lose."""
        norm: Tensor = torch.linalg.matrix_norm(triangle(self.A) @ triangle(self.B.mT).mT)
        return norm

    def _square(self, what: str) -> None:
        if self.A.shape[-2] != self.B.shape[-1]:
            raise ValueError(f"LowRank: {what} needs a square product; its shape is {self.shape}.")


def triangle(X: Tensor) -> Tensor:
    """R (..., min(n, k), k) of ``X = Q R``: all that a norm of ``X @ Y`` sees of X (..., n, k)."""
    needs_q = X.requires_grad and torch.is_grad_enabled()  # the gradient of R goes through Q
    R: Tensor = torch.linalg.qr(X, mode="reduced" if needs_q else "r").R
    return R


def real_over_absolute(eigenvalues: Tensor) -> Tensor:
    """Re Σλ / Σ|λ| over the last axis: 1 all positive, −1 all negative, near 0 without order.

    Zero eigenvalues add nothing to either sum, so the non-zero ones of a product are enough.
    All zero gives 0. Paper: "Summarizing OV/QK Matrices".
    """
    total = eigenvalues.abs().sum(dim=-1)
    signed = eigenvalues.real.sum(dim=-1)
    return torch.where(total > 0, signed / torch.where(total > 0, total, 1.0), signed)


def _complex(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64
