"""Mystery models to take apart: a learner's own, and practice models that come with the truth.

::

    mine = mystery.mine()                # three models, always the same ones for this learner
    practice = mystery.practice(7, 2)    # number 7 of two layers: practice.model, practice.truth

The own models are those that ``check(name_circuits)`` asks about first.
"""

from __future__ import annotations

import json
import secrets

from grader.circuits.mystery import Mystery, draw_mystery
from grader.exercises.mystery_models import own
from grader.lab.files import write_whole
from grader.transformer import Transformer

_PRACTICE = 2**40
"""Beyond every seed from which own and fresh models are drawn: no practice model is ever judged."""


def mine() -> list[Transformer]:
    """Your three mystery models, of one, two and three layers: drawn once, then yours for good.

    The seed is kept in your data folder (``$GRADER_DATA``, if set). Raises OSError, saying which
    folder, where it can't be kept: the models would be others next time.
    """
    seed = own.own_seed()
    if seed is None:
        seed = secrets.randbelow(own.SEEDS)
        _keep(seed)
    return [mystery.model.clone() for mystery in own.own_models(seed)]


def practice(number: int, level: int) -> Mystery:
    """A practice model: ``.model`` and ``.truth``, in the form that ``name_circuits`` answers.

    level: 1, 2 or 3, also the number of layers; number: any from 0, each another model. Raises
    ValueError for any other.
    """
    if number < 0:
        raise ValueError(f"practice: numbers start from 0; {number} came.")
    return draw_mystery(_PRACTICE + number, level)


def _keep(seed: int) -> None:
    file = own.seed_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps({"format": 1, "seed": seed}) + "\n")
    except OSError as error:
        raise OSError(
            f"Your models can't be kept: the folder {file.parent} is not writable "
            f"({error.strerror}). Set GRADER_DATA to a folder of yours and try again."
        ) from None
