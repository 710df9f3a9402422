"""Putting something into the cell's output, so that what is scored is what was judged.

nbgrader reads the cell's result (its ``text/plain``) and gives full marks to a cell without one. A
trailing semicolon, an assignment or ``%precision`` would hide or change the result, so ``check``
publishes it itself, as the cell's result, and the returned points then stay silent in that cell.
"""

from __future__ import annotations

import sys
from typing import Any


def shell() -> Any:
    """The IPython shell this runs in, or None in plain Python."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def in_notebook() -> bool:
    """Is there a frontend that shows HTML? A terminal's IPython shows text only."""
    here = shell()
    return here is not None and here.__class__.__name__ == "ZMQInteractiveShell"


class Points(float):
    """The points of a check: a float in every way, with the verdict as its HTML form."""

    html: str
    _shown_in: int | None

    def __new__(cls, points: float, html: str = "") -> Points:
        made = super().__new__(cls, points)
        made.html, made._shown_in = html, None
        return made

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        # Formatters of single types, which %precision changes, are not asked where a bundle is.
        bundle = {"text/plain": float.__repr__(self)}
        return {**bundle, "text/html": self.html} if self.html else bundle

    def _ipython_display_(self) -> None:
        here = shell()
        if here is None or self._shown_in != here.execution_count:
            raise NotImplementedError  # not yet shown in this cell: go on to the bundle


def publish(points: Points, text: str) -> Points:
    """Show a verdict as the cell's result (HTML in a notebook, ``text`` elsewhere); returns points."""
    if not in_notebook():
        print(text)
        return points
    here = shell()
    hook = here.displayhook
    hook.start_displayhook()
    hook.write_output_prompt()
    hook.write_format_data(points._repr_mimebundle_(), {})
    hook.finish_displayhook()
    points._shown_in = here.execution_count
    return points


def display_markdown(text: str) -> None:
    """Show prose with formulas in it."""
    if not in_notebook():
        print(text)
        return
    from IPython.display import display as show

    show({"text/markdown": text, "text/plain": text}, raw=True)


def display(html: str, text: str) -> None:
    """Show something that isn't a result: a hint, the progress map."""
    if not in_notebook():
        print(text)
        return
    from IPython.display import display as show

    show({"text/html": html, "text/plain": text}, raw=True)
