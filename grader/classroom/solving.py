"""The functions of a notebook's source, run without its notebook: solutions, or stubs as released.

What an answer needs, a notebook gives in a cell: imports, small helpers, constants. Only these are
run from the cells around the answers, so nothing is trained or drawn.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from typing import Any

from grader.classroom.sources import Cell, Source

# An answer runs where these are absent or inert.
_NOT_FOR_ANSWERS = ("grader", "matplotlib", "ipywidgets", "IPython")


def solutions(source: Source) -> dict[str, Callable[..., Any]]:
    """The functions of a source's answer cells, by name.

    Raises whatever an answer cell raises when it is run.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    for cell in source.cells:
        if cell.kind == "answer":
            _run(cell.source, f"<{source.notebook}, cell {cell.number}>", scope)
        elif cell.kind in ("code", "demo"):
            _prepare(cell, scope)
    names = {f.name for cell in source.of_kind("answer") for f in cell.functions}
    return {name: scope[name] for name in names}


def stub(source: Source, name: str, text: str) -> Callable[..., Any]:
    """The function ``name`` that the released cell ``text`` defines, beside the source's imports.

    Raises whatever the cell raises, KeyError if it defines no such function.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    for cell in source.of_kind("code"):
        _prepare(cell, scope)
    _run(text, f"<{source.notebook}, {name}>", scope)
    function: Callable[..., Any] = scope[name]
    return function


def _run(text: str, filename: str, scope: dict[str, Any]) -> None:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    # compile() hands on this module's lazy annotations: a stub may name types it doesn't import.
    exec(compile(text, filename, "exec"), scope)


def _prepare(cell: Cell, scope: dict[str, Any]) -> None:
    """Run what a cell gives to the answers; what fails here shows as a missing name there."""
    lines = [line for line in cell.source.split("\n") if not line.lstrip().startswith(("%", "!"))]
    try:
        body = ast.parse("\n".join(lines)).body
    except SyntaxError:
        return
    for node in _gifts(body):
        try:
            exec(compile(ast.Module([node], []), "<given>", "exec"), scope)
        except Exception:
            continue


def _gifts(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = (
                [a.name for a in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
            )
            if all(
                m == "grader.transformer" or m.split(".")[0] not in _NOT_FOR_ANSWERS
                for m in modules
            ):
                yield node
        elif isinstance(node, ast.Assign):
            try:
                ast.literal_eval(node.value)
            except ValueError:
                continue
            yield node
