"""``from grader.notebook_format import nbformat``: the library, some seconds sooner.

nbformat imports jsonschema, and that an optional grammar for international addresses, whose import takes
three seconds of computing. No notebook's schema asks for such an address. jsonschema does without the
grammar where it isn't installed, so while jsonschema is imported it isn't. Beside nbgrader and jupytext,
which import nbformat themselves, the plain import does as well.
"""

from __future__ import annotations

import sys

_GRAMMAR = "rfc3987_syntax"

if _GRAMMAR not in sys.modules and "jsonschema" not in sys.modules:
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment]
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules[_GRAMMAR]

import nbformat  # noqa: E402

__all__ = ["nbformat"]
