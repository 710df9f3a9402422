"""The ``grader`` that a notebook finds where it is graded: everything it may import, nothing that judges.

``check`` only notes which function it was given; hints, solutions, pictures and widgets do nothing;
``grader.transformer`` and ``grader.models`` are the real ones. The judge and its references are
somewhere else, and importing them says so.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = ("circuits", "judge", "exercises", "classroom")
# Pictures; and recipes, which train and measure with code that is an answer to some exercises.
INERT = ("lab", "models.recipes", "models.report")


class Noted(dict[str, Callable[..., Any]]):
    """The functions that the notebook gave to ``check``, by name; the last of a name counts."""

    def check(self, function: Any = None, *args: Any, **kwargs: Any) -> float:
        """Note the function. The points are given later, and elsewhere."""
        name = getattr(function, "__name__", None)
        if callable(function) and isinstance(name, str):
            self[name] = function
        return 0.0


class Inert:
    """Does nothing, whatever is done with it, so that a cell with a picture in it runs through."""

    def __call__(self, *args: Any, **kwargs: Any) -> Inert:
        return self

    def __getattr__(self, name: str) -> Inert:
        if name.startswith("_"):  # IPython asks for _repr_html_ and the like
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> Inert:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Inert:
        return self

    def __exit__(self, *failure: object) -> None:
        return None

    def __repr__(self) -> str:
        return "(not shown while a notebook is graded)"


class _InertModule(ModuleType):
    def __getattr__(self, name: str) -> Inert:
        if name.startswith("_"):
            raise AttributeError(name)
        return Inert()


class _Finder(MetaPathFinder, Loader):
    """Serves what must do nothing as inert modules, all below it too, and refuses what judges."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, rest = name.partition(".")
        if root != "grader" or not rest:
            return None
        room = rest.partition(".")[0]
        if room in ABSENT:
            raise ImportError(
                f"grader.{room} isn't there where notebooks are graded. What your answer needs, "
                "write in a cell of the notebook.",
                name=name,
            )
        inert = any(f"{rest}.".startswith(f"{module}.") for module in INERT)
        return ModuleSpec(name, self, is_package=True) if inert else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _InertModule(spec.name)  # a package, so that what lies below can be imported too

    def exec_module(self, module: ModuleType) -> None:
        return None


def install() -> Noted:
    """Put the stand-in into this process, for good → the functions that ``check`` will note.

    For a process that runs a notebook and nothing else.
    """
    noted = Noted()
    package = importlib.import_module("grader")
    for name in [
        n for n in sys.modules if n.startswith(tuple(f"grader.{r}" for r in (*ABSENT, *INERT)))
    ]:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        vars(sys.modules.get(parent, package)).pop(child, None)
    sys.meta_path.insert(0, _Finder())
    vars(package).update(check=noted.check, hint=Inert(), solution=Inert(), progress=Inert())
    return noted
