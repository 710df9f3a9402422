"""Leave the learner's process as it was: random generators, torch's settings, open figures."""

from __future__ import annotations

import contextlib
import ctypes
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from grader.pupil.copies import same


class Generators:
    """The state of the three global random generators; ``restore`` says which were used since.

    Meanwhile torch's stands somewhere else at every call: were it where it stood last time, an answer
    that ignores its seed would draw the same numbers twice and seem to follow it. So ``stir``
    comes before each.
    """

    def __init__(self) -> None:
        self._numpy = np.random.get_state(legacy=False)
        self._numpy_memory = _numpy_memory()
        self._random = random.getstate()

    def stir(self) -> None:
        self._torch = torch.get_rng_state()
        torch.default_generator.manual_seed(time.perf_counter_ns())
        self._stirred = torch.get_rng_state()

    def restore(self) -> tuple[str, ...]:
        touched = []
        if not torch.equal(self._stirred, torch.get_rng_state()):
            touched.append("torch")
        torch.set_rng_state(self._torch)
        if self._numpy_was_used():
            touched.append("numpy")
            np.random.set_state(self._numpy)
        if self._random != random.getstate():
            touched.append("random")
            random.setstate(self._random)
        return tuple(touched)

    def _numpy_was_used(self) -> bool:
        """Without ``get_state`` where that can be told from the memory alone: it takes 0.1 ms."""
        before, spare_normal = (
            self._numpy_memory,
            self._numpy["has_gauss"],
        )  # which is kept elsewhere
        if before and not spare_normal and before == _numpy_memory():
            return False
        return not same(self._numpy, np.random.get_state(legacy=False))


_TWISTER = 2_500  # bytes: 624 words and a position


def _numpy_memory() -> bytes:
    """What numpy's global generator has in memory; b"" for another kind than the usual one."""
    bits = np.random.get_bit_generator()  # type: ignore[attr-defined]
    usual = type(bits) is np.random.MT19937
    return ctypes.string_at(bits.ctypes.state_address, _TWISTER) if usual else b""


@contextlib.contextmanager
def torch_settings() -> Iterator[None]:
    """Autograd on, as in a fresh cell; default dtype and autograd as before afterwards."""
    dtype, recording = torch.get_default_dtype(), torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    try:
        yield
    finally:
        torch.set_grad_enabled(recording)
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """What is asked here is small: threads have little to share, and on a busy machine they wait for each
    other, so long that a right answer which trains would run out of time.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def no_new_figures() -> Iterator[None]:
    """Close the matplotlib figures that were opened inside."""
    before = set(_figures())
    try:
        yield
    finally:
        for number in set(_figures()) - before:
            _pyplot().close(number)


def _figures() -> list[int]:
    pyplot = _pyplot()
    return list(pyplot.get_fignums()) if pyplot is not None else []


def _pyplot() -> Any:
    return sys.modules.get("matplotlib.pyplot")
