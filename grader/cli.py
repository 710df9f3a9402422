"""The command ``grader``: its arguments. What it does is in the rooms.

Everything but click is imported inside the command that needs it, so that ``grader --help`` is quick.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

import grader


def _exits(zero: str, one: str = "") -> str:
    """The lines on exit statuses at the end of a command's help."""
    one = f"\n  1  {one}" if one else ""
    return f"\b\nExit status:\n  0  {zero}{one}\n  2  it could not be done; stderr says why"


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
        _say(
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


@cli.command(epilog=_exits("you ended it"))
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
    with _refusing(*known, resources.CourseNotFound):
        starting.start(folder, _say, port=port, browser=browser)


@cli.command(epilog=_exits("the answer is back to its stub"))
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
    with _refusing(workbook.WorkbookError, LookupError, resources.CourseNotFound):
        change = workbook.reset(exercise, folder)
    for line in starting.told([change], folder):
        _say(line)
    _say("If the notebook is open: File > Reload Notebook from Disk.")


@cli.command(epilog=_exits("shown"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--all", "everything", is_flag=True, help="List the exercises of every notebook.")
def status(as_json: bool, everything: bool) -> None:
    """Show the course as a map: what you passed, the points you reached, and what comes next."""
    from grader.lab import progress, progress_map

    course = progress_map.overview(progress.snapshot())
    if as_json:
        _print_json(progress_map.as_json(course))
    else:
        _say(progress_map.as_text(course, everything=everything))


@cli.command(epilog=_exits("every exercise of the notebook is passed", "some are not"))
@click.argument("notebook", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--seed", type=int, help="Judge with these questions, to replay a verdict.")
def check(notebook: Path, as_json: bool, seed: int | None) -> None:
    """Run a whole NOTEBOOK in a fresh process and judge every exercise in it.

    The same judge and the same words as in the notebook. Your progress stays as it is.
    """
    from grader.classroom import checking

    with _refusing(checking.NotebookUnreadable), _bar(f"running {notebook.name}"):
        result = checking.check_notebook(notebook, seed=seed)
    if as_json:
        _print_json(result.as_json())
    else:
        from grader.classroom import told

        _say(told.notebook_result(result))
    sys.exit(0 if all(verdict.passed for verdict in result.verdicts) else 1)


@cli.command(epilog=_exits("every submission is graded", "some need a look: it is said which"))
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
        _refuse(command.NEEDS_TRUST)
    for warning in command.warnings(options):
        _say(warning, err=True)
    if replay and not paths:
        with _refusing(*command.KNOWN):
            again = command.replay(out, *replay, options)
        _print_json(again.as_json()) if as_json else _say(command.replayed(again))
        sys.exit(0 if again.same else 1)
    if replay or not paths:
        _refuse("Give the PATH of what was handed in, or --replay LEARNER EXERCISE without one.")
    with _refusing(*command.KNOWN):
        done = command.grade(paths, out, options, assignment)
    _print_json(done.as_json()) if as_json else _say(command.told(done))
    sys.exit(2 if done.left else 0 if done.all_well else 1)


@cli.group("class")
def class_() -> None:
    """For teachers: a class of nbgrader's with this course in it.

    Start with `grader class init FOLDER`; solutions/README.md is the guide.
    """


@class_.command("init", epilog=_exits("the folder is made"))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", default="", help="nbgrader's name of the course [default: as FOLDER].")
@click.option("--hints/--no-hints", default=True, help="Whether hint() opens for learners.")
@click.option("--solutions/--no-solutions", default=True, help="Whether solution() opens.")
def class_init(folder: Path, name: str, hints: bool, solutions: bool) -> None:
    """Make FOLDER a class's folder: a normal nbgrader course.

    Our plug-in is switched on there and only there. Nothing that exists is written over.
    """
    from grader import resources
    from grader.classroom.nbgrader_course import folder as folders
    from grader.lab.class_settings import ClassSettings

    settings = ClassSettings(hints=hints, solutions=solutions)
    with _refusing(folders.FolderUnusable, resources.CourseNotFound, OSError):
        made = folders.init(folder, name, settings)
    _say(
        f"{made.root} is a class of {len(made.notebooks())} assignments.\n"
        f"Keep {made.secret} to yourself, and a copy of it in a safe place.\n"
        "Next: set c.Exchange.root in nbgrader_config.py, then in the folder "
        f"`nbgrader generate_assignment {made.notebooks()[0]}`."
    )


@class_.command(
    "autograde",
    epilog=_exits("all is in the gradebook", "some need a look: it is said which"),
)
@click.argument("assignment")
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option("--jobs", type=click.IntRange(1), help="Notebooks at a time [default: processors].")
@click.option(
    "--isolation",
    type=click.Choice(["full", "container"]),
    default="full",
    show_default=True,
    help="What strangers' code is locked in; container: this machine is one, and is thrown away.",
)
@click.option("--regrade", is_flag=True, help="Judge again what has a verdict; that one is kept.")
@click.option("--again", is_flag=True, help="Write every learner's gradebook entry again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def class_autograde(
    assignment: str,
    folder: Path,
    jobs: int | None,
    isolation: str,
    regrade: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Judge all that was collected of ASSIGNMENT in parallel; put the points into nbgrader's gradebook.

    The same as `nbgrader autograde`, many times faster, and what hasn't changed is left alone.
    """
    from grader.classroom.grading import batch, command
    from grader.classroom.grading.watching import Bar
    from grader.classroom.nbgrader_course import autograding
    from grader.classroom.nbgrader_course import folder as folders

    with _refusing(*command.KNOWN, autograding.CannotAutograde, folders.FolderUnusable):
        course = folders.opened(folder)
        how = batch.How(isolation=isolation, jobs=jobs or 0, regrade=regrade, secret=course.secret)
        with Bar() as bar:
            done = autograding.autograde(course, assignment, how, bar, again=again)
    if as_json:
        _print_json(done.as_json())
    else:
        _say("\n\n".join([*([command.told(done.batch)] if done.batch else []), done.as_text()]))
    sys.exit(0 if done.all_well else 1)


@class_.command("models", epilog=_exits("the files are written"))
@click.argument("learners", nargs=-1)
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option(
    "--to", type=click.Path(path_type=Path), help="Where learners read [default: the exchange]."
)
@click.option("--truth", is_flag=True, help="Write nothing: print what is in the learners' models.")
def class_models(learners: tuple[str, ...], folder: Path, to: Path | None, truth: bool) -> None:
    """Make each learner's own mystery models for notebook 08, as files of weights.

    LEARNERS are names in the class; without any it is everybody in the gradebook. The models come
    from the class's secret and the learner's name: made again, they are the same.
    """
    from grader.classroom.grading.seeds import SecretUnusable
    from grader.classroom.nbgrader_course import autograding, own_models
    from grader.classroom.nbgrader_course import folder as folders
    from grader.lab.class_settings import SettingsDamaged

    known = (autograding.CannotAutograde, folders.FolderUnusable, SecretUnusable, SettingsDamaged)
    with _refusing(*known, OSError):
        course = folders.opened(folder)
        names = list(learners) or own_models.enrolled(course)
        if not names:
            _refuse(
                "The gradebook has no learners yet. Name them: `grader class models LEARNER...`."
            )
        if truth:
            _print_json({name: own_models.truth(course, name) for name in names})
            return
        made = own_models.hand_out(course, names, to)
    for name, where in zip(names, made, strict=True):
        _say(f"{name}: {where}")
    _say(
        "Run `nbgrader generate_assignment --force 08-mystery-models` and release it: the notebook looks "
        f"there. Where learners can't read {made[0].parent}, give each the three files by hand, to be "
        "put beside the notebook."
    )


@class_.command("settings", epilog=_exits("set"))
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option("--hints/--no-hints", default=None, help="Whether hint() opens for learners.")
@click.option("--solutions/--no-solutions", default=None, help="Whether solution() opens.")
def class_settings(folder: Path, hints: bool | None, solutions: bool | None) -> None:
    """Show what learners may open, or set it for the assignments that are generated from now on."""
    from grader.classroom.nbgrader_course import folder as folders
    from grader.lab.class_settings import SettingsDamaged

    changed = {"hints": hints, "solutions": solutions}
    with _refusing(folders.FolderUnusable, SettingsDamaged, OSError):
        asked = {name: value for name, value in changed.items() if value is not None}
        _print_json(vars(folders.change_settings(folders.opened(folder), asked)))


@class_.command("similar", epilog=_exits("no two are alike", "some are: it is said which"))
@click.argument("assignment")
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def class_similar(assignment: str, folder: Path, as_json: bool) -> None:
    """Show answers to the notebook ASSIGNMENT that are alike: a place to look, and no finding."""
    from grader.classroom.grading.store import StoreError
    from grader.classroom.nbgrader_course import folder as folders
    from grader.classroom.nbgrader_course import similar

    with _refusing(folders.FolderUnusable, StoreError, OSError):
        found = similar.find(folders.opened(folder).grades, assignment)
    if as_json:
        _print_json([vars(pair) for pair in found])
    else:
        _say(similar.as_text(found))
    sys.exit(1 if found else 0)


@cli.group()
def export() -> None:
    """For teachers: files for another system (Gradescope, Canvas, Moodle)."""


@export.command("gradescope", epilog=_exits("the zip is written"))
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

    with _refusing(gradescope.CannotExport, OSError):
        made = gradescope.export(assignment, out or Path(f"{assignment}-autograder.zip"), wheel)
    _say(f"{made} is ready: upload it in Gradescope, Configure Autograder, base image Ubuntu.")


def _lms_command(lms: str, takes: str) -> None:
    """Make `grader export canvas` or `moodle`."""

    @export.command(
        lms,
        epilog=_exits("everybody with points is in the table", "some are not: it is said who"),
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

        with _refusing(lms_tables.TableUnusable, StoreError, OSError):
            points = lms_tables.points_in(grades, assignment)
            filled = lms_tables.fill(lms, table, points, column or assignment)
            out = out or Path(f"{lms}-{assignment}.csv")
            write_whole(out, filled.text)
        _say(f"{out}: {filled.matched} learners.")
        for who in filled.unknown:
            _say(f"  {who} has points and is not in {table.name}.")
        for who in filled.missing:
            _say(f"  {who} has no points and was left out.")
        sys.exit(1 if filled.unknown else 0)


_lms_command("canvas", "the gradebook that Canvas exports")
_lms_command("moodle", "the grading worksheet that Moodle offers")


@cli.command(epilog=_exits("every file is as its sources give it", "with --check: some are not"))
@click.option("--check", "only_check", is_flag=True, help="Write nothing; say what would change.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
@click.option("--site", is_flag=True, help="Render the learners' notebooks as a site to read.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The site's folder [default: ./course-site]."
)
def build(only_check: bool, as_json: bool, site: bool, out: Path | None) -> None:
    """Build the notebooks from their sources: solutions/NN-topic.py to solutions/ and course/.

    With --site: render the built notebooks, without solutions, with what their pictures show, as
    static pages that need no network. It takes minutes, since every notebook is run.
    """
    if site or out:
        if only_check or not site:
            _refuse("--out belongs to --site, and --site has no --check.")
        _build_site(out or Path("course-site"), as_json)
        return
    from grader import resources
    from grader.classroom import build as building
    from grader.classroom.release import ReleaseError
    from grader.classroom.sources import SourceError

    with _refusing(SourceError, ReleaseError, resources.CourseNotFound, OSError):
        if only_check:
            differing = building.check()
            if as_json:
                _print_json({"ok": not differing, "differing": differing})
            else:
                for line in differing:
                    _say(line)
                _say(
                    "Run `grader build`."
                    if differing
                    else "All built files are as their sources give them."
                )
            sys.exit(1 if differing else 0)
        report = building.build()
    if as_json:
        _print_json(report.as_json())
        return
    for path in report.written:
        _say(f"wrote {path}")
    _say(
        f"{len(report.notebooks)} notebooks, {report.exercises} exercises, {report.points} points; "
        f"{report.questions} questions, {report.question_points} points, for people to mark; "
        f"{len(report.written)} files written, {len(report.unchanged)} unchanged."
    )


@cli.command(epilog=_exits("every rule is kept", "a rule is broken"))
@click.argument("names", metavar="[EXERCISE|NOTEBOOK]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def validate(names: tuple[str, ...], as_json: bool) -> None:
    """Put every content rule to the test, of the whole course or of what is named.

    The reference and the notebook's own solution pass, each listed mistake fails with its own
    message, each accepted variant passes, the stub counts as not attempted, hints and texts are whole.
    """
    from grader import resources
    from grader.classroom import validate as validating

    problems: list[validating.Problem] = []
    done = 0
    with _refusing(ValueError, resources.CourseNotFound), _bar("validating") as advance:
        for where, found in validating.each(names or None):
            problems += found
            done += 1
            advance(where)
    if as_json:
        told = [vars(problem) for problem in problems]
        _print_json({"ok": not problems, "examined": done, "problems": told})
    else:
        for problem in problems:
            _say(str(problem))
        _say(f"{done} exercises and notebooks examined, {len(problems)} problems.")
    sys.exit(1 if problems else 0)


@cli.command(epilog=_exits("the model is made"))
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("models"),
    show_default=True,
    help="The folder for the weights, the log and the checkpoints.",
)
@click.option(
    "--corpus",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the training text [default: OUT/corpus].",
)
@click.option("--seed", type=int, help="Another seed than the shipped model's.")
def train(name: str, out: Path, corpus: Path | None, seed: int | None) -> None:
    """Make the shipped model NAME again from its recipe.

    Ended and called again, it goes on from the last checkpoint.
    """
    from grader.models.recipes import catalogue

    with _refusing(ValueError, OSError):
        cost = catalogue.cost(name)
        _say(f"{name}: about {cost['minutes']:g} minutes on one core.")
        with _bar(name) as advance:
            catalogue.train(
                name,
                out=out,
                corpus=corpus,
                seed=seed,
                progress=lambda step, steps, loss: advance(
                    f"step {step} of {steps}, loss {loss:.3f} nats"
                ),
            )
    _say(f"The model is in {out / f'{name}.safetensors'}.")


@cli.command(epilog=_exits("a learner has all that is needed", "something is missing"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def doctor(as_json: bool) -> None:
    """Show what is installed, where your files are, what is missing and how to get it."""
    from grader.classroom import doctor as doctoring

    findings = []
    for finding in doctoring.examine():
        findings.append(finding)
        if not as_json:
            mark = {"ok": "ok     ", "note": "note   ", "missing": "MISSING"}[finding.state]
            _say(f"{mark}  {finding.topic}: {finding.text}")
            if finding.remedy:
                _say(f"         -> {finding.remedy}")
    ok = all(finding.state != "missing" for finding in findings)
    if as_json:
        _print_json({"ok": ok, "findings": [vars(finding) for finding in findings]})
    sys.exit(0 if ok else 1)


def _build_site(out: Path, as_json: bool) -> None:
    from grader import resources
    from grader.classroom.site import SiteError, build_site

    with _refusing(SiteError, resources.CourseNotFound, OSError), _bar("site") as advance:
        report = build_site(out, say=advance)
    if as_json:
        _print_json(report.as_json())
        return
    _say(
        f"{report.pages} pages in {report.out}, {report.links} links followed; "
        f"open {report.out / 'index.html'}."
    )


@contextlib.contextmanager
def _refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors whose message is meant for the user into that one sentence and exit status 2."""
    try:
        yield
    except errors as error:
        _refuse(str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error))


def _refuse(sentence: str) -> NoReturn:
    _say(f"Error: {sentence}", err=True)
    sys.exit(2)


@contextlib.contextmanager
def _bar(label: str) -> Iterator[Any]:
    """A progress bar on stderr if a person is watching → a function to call after each step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(label) as line:
        yield lambda step: line.update(f"{label}: {step}")


def _say(text: str, *, err: bool = False) -> None:
    from grader.lab.terminal import plain

    click.echo(plain(text), err=err)


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=True))
