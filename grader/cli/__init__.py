"""The command ``grader``: its arguments. What it does is in the rooms.

Everything but click is imported inside the command that needs it, so that ``grader --help`` is quick.
"""

from __future__ import annotations

import contextlib
import os
import sys

import click

import grader
from grader.cli import author, classes, exports, grading, learner
from grader.cli.saying import say


def main() -> None:
    """Run the command; whatever goes wrong is one sentence on stderr and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # a stand-in without an encoding
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        cli(prog_name="grader")
    except Exception as error:
        if os.environ.get("GRADER_DEBUG"):
            raise
        say(
            f"Error: the grader itself failed ({type(error).__name__}: {error}). "
            "With GRADER_DEBUG=1 in the environment it shows where.",
            err=True,
        )
        sys.exit(2)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(grader.__version__, prog_name="grader")
def cli() -> None:
    """The transformer circuits course: open it, see how far you are, check your notebooks.

    Start with `grader start`.
    """


for command in (
    learner.start, learner.reset, learner.status, learner.check, learner.doctor, grading.grade,
    classes.class_, exports.export, author.build, author.validate, author.train,
):  # fmt: skip
    cli.add_command(command)
