"""Mystery models to take apart: a learner's own, and practice models that come with the truth.

::

    mine = mystery.mine()                # three models, always the same ones for this learner
    practice = mystery.practice(7, 2)    # number 7 of two layers: practice.model, practice.truth

The own models are those that ``check(name_circuits)`` asks about first. In a class they come from the
teacher, as files of weights, and only the teacher has the truth about them.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from pathlib import Path

from grader.circuits.mystery import LEVELS, Mystery, draw_mystery
from grader.exercises.mystery_models import own
from grader.lab import class_settings
from grader.lab.class_settings import ClassSettings
from grader.lab.files import write_whole
from grader.transformer import Transformer

_PRACTICE = 2**40
"""Beyond every seed from which own and fresh models are drawn: no practice model is ever judged."""


def mine(learner: str = "") -> list[Transformer]:
    """Your three mystery models, of one, two and three layers, and always the same ones.

    learner: in a class, your name there, if it isn't the one you work under on this machine

    In a class they are the files that the teacher made for you; else they are drawn once, and the seed
    is kept in your data folder (``$GRADER_DATA``, if set). Raises OSError, saying which folder, where
    it can't be kept (the models would be others next time) or where the teacher's files are missing.
    """
    settings = class_settings.here()
    if settings.own_models:
        return _from_class(settings, learner)
    seed = own.own_seed()
    if seed is None:
        seed = secrets.randbelow(own.SEEDS)
        _keep(seed)
    return [mystery.model.clone() for mystery in own.own_models(seed)]


def class_folder(course: str, learner: str) -> str:
    """The name of the folder with a learner's models: it shows nobody who is in the class."""
    return hashlib.sha256(f"{course}\n{learner}".encode()).hexdigest()[:16]


def class_file(level: int) -> str:
    """The name of one of a learner's three files."""
    return f"mystery-{level}.safetensors"


def _from_class(settings: ClassSettings, learner: str) -> list[Transformer]:
    """The files beside the notebook, if the teacher handed them out by hand, or where they are kept."""
    learner = learner or _name_in_class()
    places = [Path(place, class_folder(settings.course, learner)) for place in settings.own_models]
    for folder in (Path(), *places):
        files = [folder / class_file(level) for level in LEVELS]
        if all(file.is_file() for file in files):
            return [Transformer.load(file) for file in files]
    raise FileNotFoundError(
        f"There are no models for {learner or 'you'} in the class {settings.course}. Looked for "
        f"{class_file(1)} beside this notebook and in {', '.join(settings.own_models)}. Ask your "
        'teacher for your files, or call mystery.mine("your name in the class").'
    )


def _name_in_class() -> str:
    """As nbgrader names whoever hands in: the system's user, or the hub's where all are "jovyan"."""
    from nbgrader.utils import get_username

    try:
        return str(get_username())
    except (OSError, KeyError):  # Windows, or a user without a name
        return ""


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
