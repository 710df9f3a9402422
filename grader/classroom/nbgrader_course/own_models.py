"""Each learner's own mystery models, as files of weights that go out with the assignment.

They are drawn from the class's secret, the learner's name and the edition, so an answer that is passed
round is worth nothing, and the teacher draws any learner's set again, the truth with it. A file holds
weights and nothing else. Its folder's name is a hash, so the files can lie where all learners read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grader.circuits.mystery import Mystery
from grader.classroom.grading.seeds import class_secret
from grader.classroom.nbgrader_course import autograding
from grader.classroom.nbgrader_course.folder import ClassFolder, FolderUnusable, change_settings
from grader.exercises.mystery_models import NOTEBOOK, own
from grader.lab import class_settings
from grader.lab.mystery import class_file, class_folder


def drawn(folder: ClassFolder, learner: str) -> tuple[Mystery, ...]:
    """A learner's three models, simplest first, each with its truth. Raises SecretUnusable."""
    return own.own_models(class_secret(folder.secret, make=False).own_models(learner))


def hand_out(folder: ClassFolder, learners: Iterable[str], place: Path | None = None) -> list[Path]:
    """Write the models of these learners → a folder each; what is there already is written again.

    place: where learners read (None: in the class's exchange if nbgrader_config.py names one, else in
    the class's folder, to be handed out by hand). The assignments that are generated from now on
    look there.

    Raises FolderUnusable, CannotAutograde, SecretUnusable, SettingsDamaged, OSError.
    """
    course = _course(folder)
    place = (place or _usual_place(folder, course)).expanduser().resolve()
    made = []
    for learner in learners:
        target = place / class_folder(course, learner)
        target.mkdir(parents=True, exist_ok=True)
        for path in (place, target):  # whatever the umask: learners read here
            os.chmod(path, 0o755)
        for mystery in drawn(folder, learner):
            mystery.model.save(target / class_file(mystery.level))
            os.chmod(target / class_file(mystery.level), 0o644)
        made.append(target)
    change_settings(folder, {"own_models": (str(place),)})
    return made


def enrolled(folder: ClassFolder) -> list[str]:
    """The learners in the class's gradebook. Raises CannotAutograde."""
    return autograding.learners(folder)


def truth(folder: ClassFolder, learner: str) -> list[dict[str, Any]]:
    """The truth about a learner's models in a form for JSON, the simplest first."""
    return [
        {
            "layers": mystery.level,
            "heads": {
                f"{layer}.{head}": job for (layer, head), job in mystery.truth["heads"].items()
            },
            "skip_trigrams": [list(triple) for triple in mystery.truth["skip_trigrams"]],
            "compositions": [
                [kind, list(writes), list(reads)]
                for kind, writes, reads in mystery.truth["compositions"]
            ],
        }
        for mystery in drawn(folder, learner)
    ]


def _course(folder: ClassFolder) -> str:
    path = folder.root / "source" / NOTEBOOK / class_settings.FILE
    if not path.is_file():
        raise FolderUnusable(f"{path} is missing: this class has no assignment {NOTEBOOK}.")
    return class_settings.read(path).course


def _usual_place(folder: ClassFolder, course: str) -> Path:
    exchange = autograding.configuration(folder).Exchange.get("root")
    return Path(exchange, course, "own-models") if isinstance(exchange, str) else folder.own_models
