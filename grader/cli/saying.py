"""What all commands share: how they refuse, wait and speak."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click


def exits(zero: str, one: str = "") -> str:
    """The lines on exit statuses at the end of a command's help."""
    one = f"\n  1  {one}" if one else ""
    return f"\b\nExit status:\n  0  {zero}{one}\n  2  it could not be done; stderr says why"


@contextlib.contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """Turn errors whose message is meant for the user into that one sentence and exit status 2."""
    try:
        yield
    except errors as error:
        refuse(str(error.args[0]) if isinstance(error, LookupError) and error.args else str(error))


def refuse(sentence: str) -> NoReturn:
    say(f"Error: {sentence}", err=True)
    sys.exit(2)


@contextlib.contextmanager
def bar(label: str) -> Iterator[Any]:
    """A progress bar on stderr if a person is watching → a function to call after each step."""
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status(label) as line:
        yield lambda step: line.update(f"{label}: {step}")


def say(text: str, *, err: bool = False) -> None:
    from grader.lab.terminal import plain

    click.echo(plain(text), err=err)


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=True))
