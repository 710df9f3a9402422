"""Commands of somebody who changes the course: build, validate, train."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.saying import bar, exits, print_json, refuse, refusing, say


@click.command(epilog=exits("every file is as its sources give it", "with --check: some are not"))
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
            refuse("--out belongs to --site, and --site has no --check.")
        _build_site(out or Path("course-site"), as_json)
        return
    from grader import resources
    from grader.classroom import build as building
    from grader.classroom.release import ReleaseError
    from grader.classroom.sources import SourceError

    with refusing(SourceError, ReleaseError, resources.CourseNotFound, OSError):
        if only_check:
            differing = building.check()
            if as_json:
                print_json({"ok": not differing, "differing": differing})
            else:
                for line in differing:
                    say(line)
                say(
                    "Run `grader build`."
                    if differing
                    else "All built files are as their sources give them."
                )
            sys.exit(1 if differing else 0)
        report = building.build()
    if as_json:
        print_json(report.as_json())
        return
    for path in report.written:
        say(f"wrote {path}")
    say(
        f"{len(report.notebooks)} notebooks, {report.exercises} exercises, {report.points} points; "
        f"{report.questions} questions, {report.question_points} points, for people to mark; "
        f"{len(report.written)} files written, {len(report.unchanged)} unchanged."
    )


@click.command(epilog=exits("every rule is kept", "a rule is broken"))
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
    with refusing(ValueError, resources.CourseNotFound), bar("validating") as advance:
        for where, found in validating.each(names or None):
            problems += found
            done += 1
            advance(where)
    if as_json:
        told = [vars(problem) for problem in problems]
        print_json({"ok": not problems, "examined": done, "problems": told})
    else:
        for problem in problems:
            say(str(problem))
        say(f"{done} exercises and notebooks examined, {len(problems)} problems.")
    sys.exit(1 if problems else 0)


@click.command(epilog=exits("the model is made"))
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

    with refusing(ValueError, OSError):
        cost = catalogue.cost(name)
        say(f"{name}: about {cost['minutes']:g} minutes on one core.")
        with bar(name) as advance:
            catalogue.train(
                name,
                out=out,
                corpus=corpus,
                seed=seed,
                progress=lambda step, steps, loss: advance(
                    f"step {step} of {steps}, loss {loss:.3f} nats"
                ),
            )
    say(f"The model is in {out / f'{name}.safetensors'}.")


def _build_site(out: Path, as_json: bool) -> None:
    from grader import resources
    from grader.classroom.site import SiteError, build_site

    with refusing(SiteError, resources.CourseNotFound, OSError), bar("site") as advance:
        report = build_site(out, say=advance)
    if as_json:
        print_json(report.as_json())
        return
    say(
        f"{report.pages} pages in {report.out}, {report.links} links followed; "
        f"open {report.out / 'index.html'}."
    )
