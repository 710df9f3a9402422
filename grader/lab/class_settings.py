"""What a teacher has set for a class: a small file that lies beside the notebook in an assignment.

It keeps honest people honest. The solutions are part of the installed course, and whoever looks for
them there finds them; an exam needs other means.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "class-settings.json"
_FORMAT = 1


class SettingsDamaged(ValueError):
    """The settings can't be read; the message says what a learner does about it."""


@dataclass(frozen=True)
class ClassSettings:
    """course: its nbgrader name, "" outside a class; hints, solutions: whether they open

    own_models: folders where each learner's mystery models are looked for, none where everybody
        draws their own
    """

    course: str = ""
    hints: bool = True
    solutions: bool = True
    own_models: tuple[str, ...] = ()


def here() -> ClassSettings:
    """The settings beside the notebook that runs here. Raises SettingsDamaged."""
    return read(Path.cwd() / FILE)


def read(path: Path) -> ClassSettings:
    """The settings in a file, those of nobody's class where there is none. Raises SettingsDamaged."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told.pop("format") != _FORMAT:
            raise ValueError("another format")
        settings = ClassSettings(**{**told, "own_models": tuple(told["own_models"])})
        if not all(isinstance(where, str) for where in (settings.course, *settings.own_models)):
            raise TypeError("names must be text")
        if type(settings.hints) is not bool or type(settings.solutions) is not bool:
            raise TypeError("a switch is true or false")
    except FileNotFoundError:
        return ClassSettings()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise SettingsDamaged(
            f"{FILE} beside this notebook can't be read. Fetch the assignment again."
        ) from None
    return settings


def written(settings: ClassSettings) -> str:
    """The file's text."""
    return json.dumps({"format": _FORMAT, **asdict(settings)}, indent=1) + "\n"
