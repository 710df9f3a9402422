"""The command that grades a batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from grader.cli.saying import exits, print_json, refuse, refusing, say


@click.command(epilog=exits("every submission is graded", "some need a look: it is said which"))
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--assignment",
    default="",
    metavar="NAME",
    help="Grade only this notebook of the course (01-zero-layer), or this folder of nbgrader's.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("grades"),
    show_default=True,
    help="The folder for the grades, all reports, and the store they are made from.",
)
@click.option("--jobs", type=click.IntRange(1), help="Notebooks at a time [default: processors].")
@click.option(
    "--scheduler",
    default="",
    metavar="ADDRESS",
    help="Grade on this dask cluster, tls://host:8786.",
)
@click.option(
    "--isolation",
    type=click.Choice(["full", "container", "none"]),
    default="full",
    show_default=True,
    help="What strangers' code is locked in; container: this machine is one, and is thrown away.",
)
@click.option(
    "--trust", is_flag=True, help="With --isolation none: I trust all this code as my own."
)
@click.option(
    "--regrade", is_flag=True, help="Grade again what has a result; that one is kept, too."
)
@click.option("--resume", is_flag=True, help="Go on where a batch stopped. This is always so.")
@click.option(
    "--replay", nargs=2, metavar="LEARNER EXERCISE", help="Judge one kept answer again; show both."
)
@click.option(
    "--secret",
    type=click.Path(exists=True, path_type=Path, dir_okay=False),
    help="The file with the class's secret for seeds [default: one made in OUT].",
)
@click.option(
    "--wall",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds for all cells of a notebook together, before any exercise is judged.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def grade(
    paths: tuple[Path, ...],
    out: Path,
    assignment: str,
    replay: tuple[str, str] | None,
    trust: bool,
    resume: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Grade strangers' notebooks, each locked in a sandbox.

    PATH is a zip as Moodle, Canvas or Gradescope exports it, nbgrader's folder, or any folder of
    notebooks. OUT gets grades.csv, feedback/ with a page a learner, and junit.xml.

    Stopped or killed, run the same command again: what is graded stays so, and only new and changed
    notebooks are graded.
    """
    from grader.classroom.grading import batch, command

    how["jobs"] = how["jobs"] or 0
    options = batch.How(**how)
    if options.isolation == "none" and not trust:
        refuse(command.NEEDS_TRUST)
    for warning in command.warnings(options):
        say(warning, err=True)
    if replay and not paths:
        with refusing(*command.KNOWN):
            again = command.replay(out, *replay, options)
        print_json(again.as_json()) if as_json else say(command.replayed(again))
        sys.exit(0 if again.same else 1)
    if replay or not paths:
        refuse("Give the PATH of what was handed in, or --replay LEARNER EXERCISE without one.")
    with refusing(*command.KNOWN):
        done = command.grade(paths, out, options, assignment)
    print_json(done.as_json()) if as_json else say(command.told(done))
    sys.exit(2 if done.left else 0 if done.all_well else 1)
