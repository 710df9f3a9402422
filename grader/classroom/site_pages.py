"""What a reader sees of a notebook: the learners' cells, with the pictures of its demo cells.

A demo cell may use the functions that the learner writes, so what it shows comes from running the
instructor's notebook; of that run only the outputs of demo cells are taken, by the cell's id. No
solution is among them, as the demo cells of the two notebooks are the same.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError

from grader import resources
from grader.lab import progress_page

_SECONDS = 600  # for one cell; the longest trains, in about a minute
_LIVE_ONLY = (
    "application/vnd.jupyter.widget-view+json",
    "application/vnd.jupyter.widget-state+json",
)
_TO_NOTEBOOK = re.compile(r"\[(?P<words>[^\]]*)\]\(\.\./(?P<notebook>[\w-]+)/[\w-]+\.ipynb\)")
_HREF = re.compile(r"""href=(["'])\.\./(?P<notebook>[\w-]+)/[\w-]+\.ipynb(#[^"']*)?\1""")
_TITLES = re.compile(r"<Picture: (.*)>", re.DOTALL)


class NotRun(RuntimeError):
    """An instructor's notebook stopped with an error; the message says where."""


def page(name: str, among: Sequence[str]) -> str:
    """A notebook as text for the renderer: the released one, its demo cells with what they show.

    among: the notebooks that the site has; a link to another one becomes plain text
    Raises NotRun, resources.CourseNotFound.
    """
    released = nbformat.read(resources.released(name), as_version=4)
    shown = demo_outputs(name)
    for cell in released.cells:
        if cell.cell_type != "code":
            cell.source = _without_links_out(cell.source, among)
            continue
        cell.outputs = shown.get(cell.id, [])
        for output in cell.outputs:
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = _with_links_to_pages(output.data["text/html"], among)
        cell.execution_count = None
        cell.metadata = _image_options(cell.outputs)
    released.metadata.pop("widgets", None)
    return str(nbformat.writes(released))


def _without_links_out(text: str, among: Sequence[str]) -> str:
    def kept(link: re.Match[str]) -> str:
        return link[0] if link["notebook"] in among else link["words"]

    return _TO_NOTEBOOK.sub(kept, text)


def _with_links_to_pages(text: str, among: Sequence[str]) -> str:
    """The renderer turns links in prose into links to pages; in what a cell shows, this does."""

    def to_page(link: re.Match[str]) -> str:
        notebook = link["notebook"]
        return f'href="../{notebook}/{notebook}.html"' if notebook in among else ""

    return _HREF.sub(to_page, text)


def demo_outputs(name: str) -> dict[str, list[Any]]:
    """What each demo cell of the instructor's notebook shows when it is run, by the cell's id."""
    ran = _run(name)
    return {
        cell.id: list(_for_readers(cell.outputs))
        for cell in ran.cells
        if cell.cell_type == "code" and is_demo(cell)
    }


def is_demo(cell: Any) -> bool:
    """A locked cell that gives no points: ours, the same in both notebooks."""
    about = cell.metadata.get("nbgrader", {})
    return bool(about.get("locked")) and not about.get("grade")


def index(source: Path, names: Sequence[str]) -> str:
    """The front page in MyST Markdown: what this is, and the notebooks in order."""
    rows = "\n".join(f"| [{_title(source, name)}]({name}/{name}.ipynb) |" for name in names)
    pages = "\n".join(f"{name}/{name}" for name in names)
    return _INDEX.format(rows=rows, pages=pages)


def _title(source: Path, name: str) -> str:
    cells = nbformat.read(source / name / f"{name}.ipynb", as_version=4).cells
    lines = (line for cell in cells for line in cell.source.splitlines())
    return next((line[2:].strip() for line in lines if line.startswith("# ")), name)


_INDEX = """\
# Transformer circuits, built by hand

These pages are the course on *A Mathematical Framework for Transformer Circuits* (Elhage and others,
2021), to be read anywhere. You see the text, the pictures and the questions. To write the answers and
have them judged at once, install the course and run `grader start`.

| The notebooks, in order |
|---|
{rows}

```{{toctree}}
:hidden:

{pages}
```
"""


def _run(name: str) -> Any:
    notebook = nbformat.read(resources.solved(name), as_version=4)
    with tempfile.TemporaryDirectory(prefix="grader-site-") as folder:
        client = NotebookClient(
            notebook,
            timeout=_SECONDS,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        try:
            # The reader's own progress is neither shown nor changed.
            client.execute(env={**os.environ, "GRADER_DATA": folder, "PYTHONPATH": _importable()})
        except (CellExecutionError, CellTimeoutError) as error:
            raise NotRun(f"{name} can't be run: {error}") from None
    return notebook


def _importable() -> str:
    """Where the kernel finds this same package."""
    package = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))


def _for_readers(outputs: Sequence[Any]) -> Iterator[Any]:
    """Without what only a kernel brings to life, the map of a learner's progress, and stderr."""
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield output
            continue
        data = output.get("data", {})
        if progress_page.MARK in data.get("text/html", ""):
            continue  # a map of a learner's own course
        for live in _LIVE_ONLY:
            data.pop(live, None)
        if data:
            output.pop("execution_count", None)
            yield nbformat.v4.new_output(
                "display_data", data=data, metadata=output.get("metadata", {})
            )


def _image_options(outputs: Sequence[Any]) -> dict[str, Any]:
    """How wide a cell's pictures are shown, and the words that stand for them."""
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    if not pictures:
        return {}
    said = [str(picture.data.get("text/plain", "")) for picture in pictures]
    titles = [match[1] if (match := _TITLES.fullmatch(words)) else words for words in said]
    widths = [picture.metadata.get("image/png", {}).get("width") for picture in pictures]
    widest = max((width for width in widths if width), default=None)
    image = {"alt": "Picture: " + "; ".join(filter(None, titles))}
    if widest:
        image["width"] = f"{widest}px"
    return {"mystnb": {"image": image}}
