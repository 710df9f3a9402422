"""Commands of somebody who learns: start, reset, status, check, doctor."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.saying import bar, exits, print_json, refusing, say


@click.command(epilog=exits("you ended it"))
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option(
    "--browser/--no-browser", default=True, help="Open a web browser, or print the address only."
)
@click.option(
    "--port", type=click.IntRange(1, 65535), help="The port to serve on [default: a free one]."
)
def start(folder: Path | None, browser: bool, port: int | None) -> None:
    """Open the course in JupyterLab, in a FOLDER of your own.

    The first time, the course is copied there. Without FOLDER it is the current folder if the course
    is in it, else ./transformer-circuits, else the one you used last. Your work is never written
    over: after an update of the course your answers are carried over by exercise, and the old file
    stays beside the new one.
    """
    from grader import resources
    from grader.lab import server, starting, workbook

    known = (starting.NotWorking, workbook.WorkbookError, server.CannotOpen)
    with refusing(*known, resources.CourseNotFound):
        starting.start(folder, say, port=port, browser=browser)


@click.command(epilog=exits("the answer is back to its stub"))
@click.argument("exercise")
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Your course folder [default: as start]."
)
def reset(exercise: str, folder: Path | None) -> None:
    """Put your answer to one EXERCISE back to its stub.

    The notebook as it was is kept beside it, and the points you reached stay.
    """
    from grader import resources
    from grader.lab import starting, workbook

    folder = (folder or workbook.usual_folder()).expanduser().resolve()
    with refusing(workbook.WorkbookError, LookupError, resources.CourseNotFound):
        change = workbook.reset(exercise, folder)
    for line in starting.told([change], folder):
        say(line)
    say("If the notebook is open: File > Reload Notebook from Disk.")


@click.command(epilog=exits("shown"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--all", "everything", is_flag=True, help="List the exercises of every notebook.")
def status(as_json: bool, everything: bool) -> None:
    """Show the course as a map: what you passed, the points you reached, and what comes next."""
    from grader.lab import progress, progress_map

    course = progress_map.overview(progress.snapshot())
    if as_json:
        print_json(progress_map.as_json(course))
    else:
        say(progress_map.as_text(course, everything=everything))


@click.command(epilog=exits("every exercise of the notebook is passed", "some are not"))
@click.argument("notebook", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--seed", type=int, help="Judge with these questions, to replay a verdict.")
def check(notebook: Path, as_json: bool, seed: int | None) -> None:
    """Run a whole NOTEBOOK in a fresh process and judge every exercise in it.

    The same judge and the same words as in the notebook. Your progress stays as it is.
    """
    from grader.classroom import checking

    with refusing(checking.NotebookUnreadable), bar(f"running {notebook.name}"):
        result = checking.check_notebook(notebook, seed=seed)
    if as_json:
        print_json(result.as_json())
    else:
        from grader.classroom import told

        say(told.notebook_result(result))
    sys.exit(0 if all(verdict.passed for verdict in result.verdicts) else 1)


@click.command(epilog=exits("a learner has all that is needed", "something is missing"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def doctor(as_json: bool) -> None:
    """Show what is installed, where your files are, what is missing and how to get it."""
    from grader.classroom import doctor as doctoring

    findings = []
    for finding in doctoring.examine():
        findings.append(finding)
        if not as_json:
            mark = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}[finding.state]
            say(f"{mark}  {finding.topic}: {finding.text}")
            if finding.remedy:
                say(f"         -> {finding.remedy}")
    ok = all(finding.state != "missing" for finding in findings)
    if as_json:
        print_json({"ok": ok, "findings": [vars(finding) for finding in findings]})
    sys.exit(0 if ok else 1)
