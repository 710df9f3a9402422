"""Commands that write files for another system: grader export …."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.saying import exits, refusing, say


@click.group()
def export() -> None:
    """For teachers: files for another system (Gradescope, Canvas, Moodle)."""


@export.command("gradescope", epilog=exits("the zip is written"))
@click.argument("assignment")
@click.option("--out", type=click.Path(path_type=Path), help="[default: ASSIGNMENT-autograder.zip]")
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A built wheel of the course [default: the sources of this checkout].",
)
def export_gradescope(assignment: str, out: Path | None, wheel: Path | None) -> None:
    """Write the autograder's zip for Gradescope for the notebook ASSIGNMENT."""
    from grader.classroom.nbgrader_course import gradescope

    with refusing(gradescope.CannotExport, OSError):
        made = gradescope.export(assignment, out or Path(f"{assignment}-autograder.zip"), wheel)
    say(f"{made} is ready: upload it in Gradescope, Configure Autograder, base image Ubuntu.")


def _lms_command(lms: str, takes: str) -> None:
    """Make `grader export canvas` or `moodle`."""

    @export.command(
        lms,
        epilog=exits("everybody with points is in the table", "some are not: it is said who"),
        help=f"Fill the points for the notebook ASSIGNMENT into TABLE, {takes}.",
    )
    @click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.argument("assignment")
    @click.option(
        "--grades",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("grades"),
        show_default=True,
        help="The folder that `grader grade` or `grader class autograde` wrote.",
    )
    @click.option("--column", default="", help="The column's heading [default: ASSIGNMENT].")
    @click.option("--out", type=click.Path(path_type=Path), help=f"[default: {lms}-ASSIGNMENT.csv]")
    def run(table: Path, assignment: str, grades: Path, column: str, out: Path | None) -> None:
        from grader.classroom.grading.store import StoreError
        from grader.classroom.nbgrader_course import lms_tables
        from grader.lab.files import write_whole

        with refusing(lms_tables.TableUnusable, StoreError, OSError):
            points = lms_tables.points_in(grades, assignment)
            filled = lms_tables.fill(lms, table, points, column or assignment)
            out = out or Path(f"{lms}-{assignment}.csv")
            write_whole(out, filled.text)
        say(f"{out}: {filled.matched} learners.")
        for who in filled.unknown:
            say(f"  {who} has points and is not in {table.name}.")
        for who in filled.missing:
            say(f"  {who} has no points and was left out.")
        sys.exit(1 if filled.unknown else 0)


_lms_command("canvas", "the gradebook that Canvas exports")
_lms_command("moodle", "the grading worksheet that Moodle offers")
