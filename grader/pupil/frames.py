"""A learner's exception as the learner should see it: their own lines, none of the machinery's."""

from __future__ import annotations

import dis
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType

_HERE = str(Path(__file__).resolve().parents[1])
_LIBRARIES = tuple(
    {
        os.path.join(os.path.realpath(folder), "")
        for folder in (_HERE, *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")))
    }
)
LONGEST_LINE = 500


def one_line(error: BaseException) -> str:
    """``"TypeError: …"``, without line breaks, cut to a readable length."""
    try:
        words = " ".join((str(error.msg) if isinstance(error, SyntaxError) else str(error)).split())
    except Exception:  # an exception class of the learner's whose __str__ is broken
        words = "(its message could not be read)"
    line = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def learners_traceback(error: BaseException) -> str:
    """The frames in the learner's own code, outermost first, each with its line of source."""
    lines: list[str] = []
    for frame in _own_frames(error):
        where = f"{_place(frame.filename)}, line {frame.lineno}, in {frame.name}"
        lines.append(f"{where}\n    {frame.line}" if frame.line else where)
    lines = _without_repeats(lines)
    if isinstance(error, SyntaxError) and error.filename and not _is_library(error.filename):
        lines.append(
            f"{_place(error.filename)}, line {error.lineno}\n    {(error.text or '').strip()}"
        )
    return "\n".join([*lines, one_line(error)]) if lines else ""


def raised_by_stub(error: NotImplementedError) -> str:
    """The name of the learner's function whose own ``raise`` this is, "" if a library raised it.

    torch raises NotImplementedError too, for an operation that a dtype doesn't have; a learner who
    met that did attempt the exercise.
    """
    last = _last(error.__traceback__)
    if last is None or _is_library(last.tb_frame.f_code.co_filename):
        return ""
    code = last.tb_frame.f_code
    if code.co_code[last.tb_lasti] != dis.opmap["RAISE_VARARGS"]:
        return ""
    return code.co_name


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not _is_library(frame.filename)]


def _is_library(filename: str) -> bool:
    if filename.startswith("<"):
        return filename.startswith(("<frozen", "<__array_function__", "<eval_with_key"))
    return os.path.realpath(filename).startswith(_LIBRARIES)


def _place(filename: str) -> str:
    """``Cell In[5]`` for a notebook's cell, else the file's name without its folders."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    named = shell.compile.format_code_name(filename) if shell is not None else None
    return " ".join(named) if named else os.path.basename(filename)


def _without_repeats(lines: list[str], most: int = 12) -> list[str]:
    """A recursion a thousand deep says nothing after its first and last calls."""
    if len(lines) <= most:
        return lines
    half = most // 2
    return [*lines[:half], f"… {len(lines) - most} more calls …", *lines[-half:]]


def _last(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace
