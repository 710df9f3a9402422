"""A toy course in the released notebooks' form, for tests that need an older and a newer edition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def marks(grade_id: str, *, answer: bool = False, check: bool = False) -> dict[str, Any]:
    about = {"grade": check, "grade_id": grade_id, "locked": not answer, "schema_version": 3}
    about |= {"solution": answer, "task": False}
    return {"nbgrader": about | ({"points": 2} if check else {})}


def stub(name: str, doc: str = "Do it.") -> str:
    return f'def {name}(x):\n    """{doc}"""\n    # YOUR CODE HERE\n    raise NotImplementedError()'


def solved(name: str, work: str = "return x") -> str:
    return f"def {name}(x):\n    {work}"


def code(source: str, cell_id: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    cell = {"cell_type": "code", "id": cell_id, "metadata": metadata or {}, "source": source}
    return cell | {"outputs": [], "execution_count": None}


def prose(source: str, cell_id: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": cell_id, "metadata": {}, "source": source}


def exercise(name: str, doc: str = "Do it.") -> list[dict[str, Any]]:
    return [
        prose(f"Why {name} matters.", f"why-{name}"),
        code(stub(name, doc), name, marks(name, answer=True)),
        code(f"check({name})", f"check_{name}", marks(f"check_{name}", check=True)),
    ]


def notebook(*cells: dict[str, Any], edition: str = "1", name: str = "00-first") -> dict[str, Any]:
    about = {"transformer_circuits": {"edition": edition, "notebook": name}}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {**about, "kernelspec": kernel}
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def first(edition: str = "1", doc: str = "Do it.") -> dict[str, Any]:
    """A notebook with a setup cell, two exercises and an end."""
    return notebook(
        prose(f"# First, edition {edition}", "title"),
        code("import torch", "setup"),
        *exercise("alpha", doc),
        *exercise("beta", doc),
        prose("The end.", "end"),
        edition=edition,
    )


def publish(course: Path, *notebooks: dict[str, Any]) -> None:
    for made in notebooks:
        name = made["metadata"]["transformer_circuits"]["notebook"]
        (course / name).mkdir(parents=True, exist_ok=True)
        (course / name / f"{name}.ipynb").write_text(json.dumps(made), encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """A notebook file, with each cell's text in one piece."""
    made: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for cell in made["cells"]:
        cell["source"] = "".join(cell["source"])
    return made


def source_of(made: dict[str, Any], grade_id: str) -> str:
    [cell] = [
        cell
        for cell in made["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id
    ]
    return str(cell["source"])


def question(name: str, text: str = "YOUR ANSWER HERE") -> list[dict[str, Any]]:
    """A question that a person marks: what is asked, and the learner's cell."""
    about = marks(name, answer=True, check=True)
    return [
        prose(f"What does {name} mean?", f"ask-{name}"),
        prose(text, name) | {"metadata": about},
    ]
