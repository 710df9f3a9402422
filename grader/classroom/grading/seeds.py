"""Seeds that a teacher can draw again and nobody else can guess.

HMAC-SHA256 of a class's secret. What the questions of an exercise are drawn from depends on the
learner, the exercise, the course's edition and the very bytes that were handed in: a traceback or a
seed in the feedback of one version tells nothing about the questions that the next will get. The
learner's own mystery models depend on the learner and the edition alone; they stay the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import grader
from grader.lab.files import write_whole

_BYTES = 32
_LEAST = 16  # characters of a secret that somebody made up


class SecretUnusable(ValueError):
    """The file with the class's secret can't be read or made; the message says why."""


@dataclass(frozen=True, repr=False)
class Seeds:
    """All seeds of a class. ``repr`` doesn't show the secret."""

    secret: bytes
    edition: str = grader.__version__

    def exercise(self, learner: str, exercise: str, handed_in: str) -> int:
        """What an exercise's cases are drawn from; ``handed_in`` is the submission's digest."""
        return self._number("exercise", learner, exercise, handed_in) >> 2

    def own_models(self, learner: str) -> int:
        """What the learner's own mystery models are drawn from."""
        from grader.exercises.mystery_models import own  # brings torch along

        return self._number("own models", learner) % own.SEEDS

    def _number(self, *what: str) -> int:
        """64 bits. The parts are told apart as JSON, so that no two lists of them look alike."""
        message = json.dumps([self.edition, *what]).encode("ascii")
        return int.from_bytes(hmac.digest(self.secret, message, hashlib.sha256)[:8], "big")


def class_secret(path: Path, *, make: bool = True) -> Seeds:
    """The seeds of the secret in ``path``, which only its owner may read; made if it isn't there.

    Raises SecretUnusable.
    """
    try:
        if make and not path.exists():
            write_whole(path, secrets.token_hex(_BYTES) + "\n", mode=0o600)
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it isn't text"
        raise SecretUnusable(f"The class's secret {path} can't be read or made: {why}.") from None
    if len(secret) < _LEAST:
        raise SecretUnusable(
            f"The class's secret in {path} is shorter than {_LEAST} characters. Take the file "
            "away, and a new one is made; seeds of earlier verdicts stay with those."
        )
    with contextlib.suppress(OSError):  # given by hand, perhaps readable by all
        if os.stat(path).st_uid == getattr(os, "getuid", lambda: -1)():
            os.chmod(path, 0o600)
    return Seeds(secret.encode("utf-8"))
