"""The course's pictures, one line each; every function returns a matplotlib Figure.

::

    pictures.matrix(W_QK, rows=words, columns=words, axes=("destination", "source"))
    pictures.pattern(A, tokens)

Arrays may be torch, numpy or nested lists. A wrong shape raises ValueError that says what the
picture draws and what came. Tokens become labels that show their spaces (``legible``).
"""

from __future__ import annotations

from grader.lab.chart_pictures import bars, eigenvalues, lines, points
from grader.lab.composition_pictures import composition_diagram, compositions, histogram
from grader.lab.head_pictures import attention_flow, head_diagram, matrices
from grader.lab.heat_pictures import matrix, pattern, patterns
from grader.lab.picture_style import legible, token_labels
from grader.lab.stream_picture import stream_diagram

__all__ = [
    "attention_flow",
    "bars",
    "composition_diagram",
    "compositions",
    "eigenvalues",
    "head_diagram",
    "histogram",
    "legible",
    "lines",
    "matrices",
    "matrix",
    "pattern",
    "patterns",
    "points",
    "stream_diagram",
    "token_labels",
]
