"""Proof that this installation works: a right and a missing answer, judged by the real judge.

Run as ``python -m grader.lab.proof`` in a process of its own, so that a library that ends the process
(built for another processor, say) is a sentence and not the end of ``grader start``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import grader


@dataclass(frozen=True)
class Proof:
    """ok: whether answers are judged here. message: what was done, or what went wrong, in a sentence."""

    ok: bool
    message: str


def prove(timeout: float = 120.0) -> Proof:
    """Judge the sample answers in a new process; never raises, whatever happens to that process."""
    # -P: a random.py in the folder where the learner stands is none of Python's modules
    command = [sys.executable, "-P", "-m", "grader.lab.proof"]
    here = str(Path(grader.__file__).resolve().parent.parent)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])),
        "OMP_NUM_THREADS": "1",  # for one small answer more threads only cost time
    }
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Proof(False, f"A sample answer could not be judged: {error}.")
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        return Proof(bool(told["ok"]) and done.returncode == 0, str(told["message"]))
    except (IndexError, ValueError, KeyError, TypeError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Proof(
            False,
            "A sample answer could not be judged: the Python process ended with status "
            f"{done.returncode} ({last}).",
        )


def judge_samples() -> Proof:
    """The course's first exercise, answered by its reference and then not at all."""
    from grader.exercises import registry
    from grader.judge.judge import judge_here
    from grader.judge.verdict import Status

    exercise = next(iter(registry().values()))
    right = judge_here(exercise, exercise.reference)
    wrong = judge_here(exercise, lambda *arguments: None)
    if right.status is not Status.PASS:
        return Proof(False, f"A right answer was judged {right.status.value}: {right.message}")
    if wrong.status is not Status.WRONG:
        return Proof(False, f"A wrong answer was judged {wrong.status.value}: {wrong.message}")
    return Proof(True, f"A right and a wrong answer to {exercise.name} were told apart.")


if __name__ == "__main__":
    try:
        proof = judge_samples()
    except Exception as error:
        proof = Proof(
            False, f"A sample answer could not be judged: {type(error).__name__}: {error}"
        )
    print(json.dumps(vars(proof)))
    sys.exit(0 if proof.ok else 1)
