"""Rules for what learners read: prompts, stubs, hints, messages and links."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import torch

from grader.classroom import sources
from grader.classroom.sources import Cell, Source
from grader.judge.draw import Draw
from grader.judge.spec import Exercise

_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
_HALF_LINK = re.compile(r"\]\([^)]*$", re.MULTILINE)
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)


def declaration_flaws(exercise: Exercise) -> Iterator[str]:
    """What is missing from an exercise's declaration."""
    if len([hint for hint in exercise.hints if hint.strip()]) < 2:
        yield "it has fewer than two hints."
    if not (isinstance(exercise.points, int) and exercise.points >= 1):
        yield f"its points must be a whole number of at least 1, not {exercise.points!r}."
    if not exercise.title.strip() or not exercise.paper.strip():
        yield "it has no title, or no section of the paper."
    if not exercise.minutes >= 1:
        yield f"its minutes must be at least 1, not {exercise.minutes!r}."
    if exercise.difficulty not in (1, 2, 3):
        yield f"its difficulty must be 1, 2 or 3, not {exercise.difficulty!r}."
    names = [mistake.name for mistake in exercise.mistakes]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two mistakes are called {name}."
    messages: dict[str, str] = {}
    for mistake in exercise.mistakes:
        if not mistake.message.strip():
            yield f"mistake {mistake.name} has no message."
        first = messages.setdefault(mistake.message, mistake.name)
        if first != mistake.name and first not in mistake.same_as:
            yield f"mistakes {first} and {mistake.name} say the same; each needs its own message."
        for other in mistake.same_as:
            if other not in names:
                yield f"mistake {mistake.name} is the same as {other}, which there isn't."


def telling_flaws(exercise: Exercise, solution: str) -> Iterator[str]:
    """Hints and messages that print a line of the solution (its text, dedented)."""
    lines = {_tight(line) for line in solution.split("\n")}
    lines |= {line.removeprefix("return") for line in lines if line.startswith("return")}
    texts = {f"hint {i}": hint for i, hint in enumerate(exercise.hints, 1)}
    texts |= {f"the message of {m.name}": m.message for m in exercise.mistakes}
    for where, text in texts.items():
        for line in sorted(lines):
            whole = not line.endswith(("(", "[", "{", ",")) and len(line) >= sources.TELLING
            if whole and line in _tight(text):
                yield f"{where} prints a line of the solution: {line}"


def _tight(text: str) -> str:
    return re.sub(r"\s+", "", text)


def stub_flaws(exercise: Exercise, cell: Cell) -> Iterator[str]:
    """What a learner can't see from the stub: its arguments, their shapes, the result."""
    function = next(f for f in cell.functions if f.name == exercise.name)
    arguments = tuple(a.arg for a in function.args.args)
    if arguments != exercise.parameters:
        yield f"its stub takes {arguments}, its reference {exercise.parameters}."
        return
    text = ast.get_docstring(function) or ""
    if "→" not in text and "->" not in text:
        yield "its docstring doesn't say what comes out (…  → …)."
    case = next(iter(exercise.cases(Draw(0))))
    for name, argument in zip(arguments, case.args, strict=False):
        if not re.search(rf"\b{re.escape(name)}\b", text):
            yield f"its docstring doesn't mention {name}."
        elif isinstance(argument, torch.Tensor) and argument.ndim and not _shaped(name, text):
            yield f"its docstring doesn't give the shape of {name}, as in `{name} (pos, d_model)`."


def _shaped(name: str, text: str) -> bool:
    """Whether a bracket follows the name on its line: ``q (dst, d_head)``, ``W_Q, W_K (…)``."""
    return bool(re.search(rf"\b{re.escape(name)}\b[^()\n→>]*\(", text))


def notebook_flaws(source: Source, names: Sequence[str], course: Path) -> Iterator[str]:
    """Order, prompts and links of one notebook. names: its exercises, in the registry's order."""
    answered = [sources.answer_name(cell, names) for cell in source.of_kind("answer")]
    if answered != list(names):
        yield f"{source.notebook}.py teaches {answered}; the registry has {list(names)}."
    yield from _prompt_flaws(source)
    yield from _demo_flaws(source)
    for cell in (*source.of_kind("markdown"), *source.of_kind(sources.QUESTION)):
        for what in _link_flaws(cell.source, course / source.notebook):
            yield source.flaw(cell, what)


def _prompt_flaws(source: Source) -> Iterator[str]:
    prompt = ""
    for cell in source.cells:
        if cell.kind == "markdown":
            prompt += "\n\n" + cell.source
        elif cell.kind in ("answer", sources.QUESTION):
            if _sentences(prompt) < 2:
                yield source.flaw(cell, "a prompt of at least two sentences must stand before it.")
            prompt = ""
        elif cell.kind == "check":
            prompt = ""


def _demo_flaws(source: Source) -> Iterator[str]:
    """Where notebooks are graded demo cells are skipped: what only they make is missing there."""
    made_elsewhere, made_in_demos = set(dir(builtins)), set[str]()
    for cell in source.cells:
        made, used = _names(cell)
        if cell.kind == "demo":
            made_in_demos |= made
            continue
        for name in sorted((used - made - made_elsewhere) & made_in_demos):
            yield source.flaw(cell, f"it uses {name}, which only a demo cell makes.")
        made_elsewhere |= made


def _names(cell: Cell) -> tuple[set[str], set[str]]:
    """The names that a cell's code makes, and those that it uses."""
    try:
        nodes = (
            []
            if cell.kind in ("markdown", sources.QUESTION)
            else [*ast.walk(ast.parse(cell.source))]
        )
    except SyntaxError:  # a magic
        return set(), set()
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {
        (node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)
    }
    return made, {name.id for name in names if isinstance(name.ctx, ast.Load)}


def _sentences(markdown: str) -> int:
    text = "\n".join(line for line in markdown.split("\n") if not line.startswith("#"))
    return len(re.findall(r"[.!?][*_)\"”]*(?=\s|$)", _CODE.sub("code", text)))


def _link_flaws(markdown: str, folder: Path) -> Iterator[str]:
    text = _CODE.sub("code", markdown)
    if half := _HALF_LINK.search(_LINK.sub("", text)):
        yield f"a link is not closed: {half[0][:60]!r}."
    for label, target in _LINK.findall(text):
        if what := _target_flaw(target.strip(), folder):
            yield f"the link [{label}]({target}) {what}."


def _target_flaw(target: str, folder: Path) -> str:
    if not target or re.search(r"\s", target):
        return "has no address, or a blank in it"
    if target.startswith("#"):
        return ""
    parts = urlsplit(target)
    if parts.scheme:
        fine = parts.scheme == "https" and "." in (parts.hostname or "")
        return "" if fine else "is not a whole https address"
    if not (folder / parts.path).exists():
        return "leads to no file of the course"
    return ""
