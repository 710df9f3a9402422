"""The largest thing a learner's call allocated, for claims like "without the dense matrix"."""

from __future__ import annotations

import functools
import tracemalloc
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MIB = 2**20


class LargestAllocation(TorchDispatchMode):
    """``with LargestAllocation() as seen:`` then ``seen.mib``.

    torch: the largest storage that any operation made, intermediate results included; views of
    what existed before don't count. Python and numpy: the peak that tracemalloc saw, which bounds
    the largest single array from above.
    """

    def __init__(self) -> None:
        super().__init__()
        warm_up()
        self._torch = 0
        self._python = 0

    @property
    def mib(self) -> float:
        return max(self._torch, self._python) / MIB

    def __enter__(self) -> LargestAllocation:
        self._tracing = tracemalloc.is_tracing()
        if not self._tracing:
            tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._python = tracemalloc.get_traced_memory()[1] - self._before
        if not self._tracing:
            tracemalloc.stop()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs))}
        for tensor in _tensors(result):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                self._torch = max(self._torch, storage.nbytes())
        return result


@functools.cache
def warm_up() -> None:
    """The first dispatch mode of a process makes torch import much; that isn't the learner's."""
    with _Idle():
        torch.zeros(1)


class _Idle(TorchDispatchMode):
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor) and not leaf.is_sparse]
