"""The warm server's memory in huge pages: the same numbers, and no complaint where there are none."""

from __future__ import annotations

import errno
import sys

import numpy as np
import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("only the sandbox's server does this, on Linux", allow_module_level=True)

from grader.pupil import huge_pages, kernel


def test_what_is_in_memory_stays_as_it_was() -> None:
    numbers = np.arange(2 * huge_pages.SIZE)  # 32 MiB
    huge_pages.collapse()
    assert np.array_equal(numbers, np.arange(len(numbers)))


def test_only_whole_pages_of_ones_own_memory_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(kernel, "collapse", lambda start, length: asked.append(start))
    numbers = np.arange(2 * huge_pages.SIZE)
    assert huge_pages.collapse() == len(asked)
    start, end = numbers.ctypes.data, numbers.ctypes.data + numbers.nbytes
    assert not any(one % huge_pages.SIZE for one in asked)
    assert len([one for one in asked if start < one < end]) in (15, 16)


def test_an_older_kernel_goes_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(start: int, length: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(kernel, "collapse", refuses)
    assert huge_pages.collapse() == 0
