"""Commands for a class of nbgrader's: grader class …."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.saying import exits, print_json, refuse, refusing, say


@click.group("class")
def class_() -> None:
    """For teachers: a class of nbgrader's with this course in it.

    Start with `grader class init FOLDER`; solutions/README.md is the guide.
    """


@class_.command("init", epilog=exits("the folder is made"))
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
    with refusing(folders.FolderUnusable, resources.CourseNotFound, OSError):
        made = folders.init(folder, name, settings)
    say(
        f"{made.root} is a class of {len(made.notebooks())} assignments.\n"
        f"Keep {made.secret} to yourself, and a copy of it in a safe place.\n"
        "Next: set c.Exchange.root in nbgrader_config.py, then in the folder "
        f"`nbgrader generate_assignment {made.notebooks()[0]}`."
    )


@class_.command(
    "autograde",
    epilog=exits("all is in the gradebook", "some need a look: it is said which"),
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

    with refusing(*command.KNOWN, autograding.CannotAutograde, folders.FolderUnusable):
        course = folders.opened(folder)
        how = batch.How(isolation=isolation, jobs=jobs or 0, regrade=regrade, secret=course.secret)
        with Bar() as bar:
            done = autograding.autograde(course, assignment, how, bar, again=again)
    if as_json:
        print_json(done.as_json())
    else:
        say("\n\n".join([*([command.told(done.batch)] if done.batch else []), done.as_text()]))
    sys.exit(0 if done.all_well else 1)


@class_.command("models", epilog=exits("the files are written"))
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
    with refusing(*known, OSError):
        course = folders.opened(folder)
        names = list(learners) or own_models.enrolled(course)
        if not names:
            refuse(
                "The gradebook has no learners yet. Name them: `grader class models LEARNER...`."
            )
        if truth:
            print_json({name: own_models.truth(course, name) for name in names})
            return
        made = own_models.hand_out(course, names, to)
    for name, where in zip(names, made, strict=True):
        say(f"{name}: {where}")
    say(
        "Run `nbgrader generate_assignment --force 08-mystery-models` and release it: the notebook looks "
        f"there. Where learners can't read {made[0].parent}, give each the three files by hand, to be "
        "put beside the notebook."
    )


@class_.command("settings", epilog=exits("set"))
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option("--hints/--no-hints", default=None, help="Whether hint() opens for learners.")
@click.option("--solutions/--no-solutions", default=None, help="Whether solution() opens.")
def class_settings(folder: Path, hints: bool | None, solutions: bool | None) -> None:
    """Show what learners may open, or set it for the assignments that are generated from now on."""
    from grader.classroom.nbgrader_course import folder as folders
    from grader.lab.class_settings import SettingsDamaged

    changed = {"hints": hints, "solutions": solutions}
    with refusing(folders.FolderUnusable, SettingsDamaged, OSError):
        asked = {name: value for name, value in changed.items() if value is not None}
        print_json(vars(folders.change_settings(folders.opened(folder), asked)))


@class_.command("similar", epilog=exits("no two are alike", "some are: it is said which"))
@click.argument("assignment")
@click.option("--folder", type=click.Path(path_type=Path), default=".", help="The class's folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for a program.")
def class_similar(assignment: str, folder: Path, as_json: bool) -> None:
    """Show answers to the notebook ASSIGNMENT that are alike: a place to look, and no finding."""
    from grader.classroom.grading.store import StoreError
    from grader.classroom.nbgrader_course import folder as folders
    from grader.classroom.nbgrader_course import similar

    with refusing(folders.FolderUnusable, StoreError, OSError):
        found = similar.find(folders.opened(folder).grades, assignment)
    if as_json:
        print_json([vars(pair) for pair in found])
    else:
        say(similar.as_text(found))
    sys.exit(1 if found else 0)
