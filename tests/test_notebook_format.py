"""nbformat comes without the grammar that takes seconds, and whoever wants that grammar still gets it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "first",
    [
        "from grader.notebook_format import nbformat; nbformat.validate(nbformat.v4.new_notebook())",
        "import grader.classroom.grading.batch",
        "import grader.lab.starting",
    ],
)
def test_the_grammar_is_neither_imported_nor_kept_out(first: str) -> None:
    code = (
        f"import sys; {first}\n"
        "assert 'nbformat' in sys.modules\n"
        "assert 'rfc3987_syntax' not in sys.modules, sys.modules['rfc3987_syntax']"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
