"""A Sphinx extension: formulas as MathML, which browsers draw themselves, with no script to fetch.

docutils, which Sphinx stands on, translates LaTeX; a command that it doesn't know is a warning that
names the formula, and warnings fail the build.
"""

from __future__ import annotations

import re
from typing import Any

# Spelled so in the notebooks, known to docutils under the other name.
_SAME = {r"\\dots(?![a-zA-Z])": r"\\ldots", r"\\(big|Big)(?![a-zA-Z])": r"\\\1l"}


def mathml(formula: str, *, block: bool) -> str:
    """A LaTeX formula as a ``<math>`` element. Raises docutils' MathError on what it can't read."""
    from docutils.utils.math.latex2mathml import tex2mathml

    for pattern, replacement in _SAME.items():
        formula = re.sub(pattern, replacement, formula)
    return str(tex2mathml(formula, as_block=block))


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (_visit(block=False), None), (_visit(block=True), None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def _visit(*, block: bool) -> Any:
    def visit(translator: Any, node: Any) -> None:
        from docutils import nodes
        from docutils.utils.math import MathError
        from sphinx.util import logging

        formula = node.astext()
        try:
            shown = mathml(formula, block=block)
        except MathError as error:
            logging.getLogger(__name__).warning(
                "no MathML for %r: %s", formula, error, location=node
            )
            shown = ""
        tag = "div" if block else "span"
        translator.body.append(f'<{tag} class="math">{shown}</{tag}>')
        raise nodes.SkipNode

    return visit
