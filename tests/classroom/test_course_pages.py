"""The first and the last page agree with each other and with the exercises: names, minutes, links."""

from __future__ import annotations

import itertools
import re

import pytest

from grader import exercises, resources
from grader.classroom import sources
from grader.lab import results

NOTEBOOKS = list(exercises.NOTEBOOKS)


def prose(notebook: str) -> list[str]:
    source = sources.read(resources.solutions_dir() / f"{notebook}.py")
    return [cell.source for cell in source.of_kind("markdown")]


def rows(text: str) -> list[list[str]]:
    """The cells of a Markdown table's rows, without its head."""
    lines = [line for line in text.split("\n") if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def page(heading: str, notebook: str = NOTEBOOKS[0]) -> str:
    (text,) = (cell for cell in prose(notebook) if cell.startswith(heading))
    return text


def test_the_map_on_the_first_page_has_the_notebooks_of_the_last_pages_table() -> None:
    here = [re.match(r"\*\*(\d\d)\*\*", row[-1]) for row in rows(page("## The paper"))]
    numbers = [match[1] for match in here if match]
    assert numbers == [name[:2] for name in NOTEBOOKS]
    assert numbers == list(dict.fromkeys(r.notebook[:2] for r in results.RESULTS))


def test_the_shorter_way_names_exercises_and_adds_up_their_minutes() -> None:
    registry, text = exercises.registry(), page("### A shorter way")
    chosen: list[str] = []
    for number, names, minutes in rows(text):
        found = re.findall(r"`(\w+)`", names)
        assert {registry[name].notebook[:2] for name in found} == {number.strip("*")}
        assert sum(registry[name].minutes for name in found) == int(minutes), number
        chosen += found
    assert len(rows(text)) == len(NOTEBOOKS)
    assert chosen == [name for name in registry if name in chosen]
    share = sum(registry[name].minutes for name in chosen) / sum(
        e.minutes for e in registry.values()
    )
    assert "a little more than half" in text.replace("\n", " ")
    assert 0.5 <= share <= 0.6


@pytest.mark.parametrize(("notebook", "following"), list(itertools.pairwise(NOTEBOOKS)))
def test_the_last_page_of_a_notebook_leads_to_the_next(notebook: str, following: str) -> None:
    assert f"](../{following}/{following}.ipynb)" in prose(notebook)[-1]


def test_each_word_of_the_dictionary_leads_to_a_notebook() -> None:
    text = page("Where the two differ", NOTEBOOKS[-1]).partition("## Where to go on")[0]
    words = rows(text)
    assert len(words) >= 25
    for word, meaning, link in words:
        assert re.fullmatch(r"\*\*.+\*\*", word)
        assert meaning
        assert re.fullmatch(r"\[(\d\d)\]\(\.\./\1-[\w-]+/\1-[\w-]+\.ipynb\)", link)
    numbers = [link[1:3] for _, _, link in words]
    assert numbers == sorted(numbers)
