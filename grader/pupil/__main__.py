"""``python -m grader.pupil``: a notebook in a process of its own, spoken to over stdin and stdout.

Before any of the learner's code runs, the two pipes move to other file descriptors, and 0, 1 and 2
point nowhere: what is printed can't get between the frames.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO


def _take_over(descriptor: int, mode: str) -> BinaryIO:
    moved = os.dup(descriptor)
    nowhere = os.open(os.devnull, os.O_RDONLY if mode == "rb" else os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    return open(moved, mode, buffering=0)  # type: ignore[return-value]


def main() -> None:
    questions, answers = _take_over(0, "rb"), _take_over(1, "wb")
    limit = sys.argv[1:2]

    from grader.pupil import limits, shell
    from grader.pupil.serving import serve

    notebook = shell.Notebook()
    _take_over(2, "wb")  # only now: until here, stderr tells the judge why a start failed
    if limit:
        limits.memory(int(limit[0]))
    shell.prefer_local_modules()
    serve(questions, answers, notebook)
    answers.close()
    os._exit(0)  # a learner's thread may still run, and must not keep the process


if __name__ == "__main__":
    main()
