"""A model card as a learner reads it: last line of a cell, it shows as a table."""

from __future__ import annotations

from typing import Any

from grader.models.shelf import card

# What a reader needs a word for; figures without one stay in the JSON.
_WORDS = {
    "training_loss": "loss on the training text, nats",
    "bigram_entropy": "bigram entropy of that text, nats",
    "gap": "gap between the two, nats",
    "copying_heads": "heads with a copying OV circuit",
    "heads": "heads in all",
    "second_copy_gain": "repeated held-out code: gain of the second copy, nats",
    "random_accuracy": "25 random tokens four times: greedy accuracy on the repeats",
    "induction_head": "induction head (layer, head)",
    "previous_token_head": "previous-token head (layer, head)",
    "pair_composition": "K-composition of the two, above chance",
    "composed_qk_positivity": "eigenvalue positivity of the K-composed QK circuit",
    "in_context_score": "in-context score, late minus early loss (negative is good), nats",
    "largest_first_position": "largest mean attention of a head to position 0 (near 1: dead)",
}


class ReadableCard:
    """Text in a terminal, a table in a notebook."""

    def __init__(self, name: str) -> None:
        self.about = card(name)
        self.rows = list(_rows(self.about))

    def __str__(self) -> str:
        lines = [self.about["name"], self.about["about"]]
        return "\n".join(lines + [f"  {what}: {value}" for what, value in self.rows])

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        head = f"**{self.about['name']}** — {self.about['about']}\n\n| | |\n|---|---|\n"
        return head + "\n".join(f"| {what} | {value} |" for what, value in self.rows)


def _rows(about: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    if "seed" in about:
        rows.append(("seed", str(about["seed"])))
    if "training_tokens" in about:
        rows.append(
            ("training", f"{about['training_steps']:,} steps, {about['training_tokens']:,} tokens")
        )
    for kind, loss in about.get("loss", {}).items():
        rows.append((f"loss on held-out {kind}, nats", _number(loss)))
    figures = about.get("figures", {})
    rows += [(words, _number(figures[key])) for key, words in _WORDS.items() if key in figures]
    for what, outcome in about.get("others_tried", {}).items():
        told = ", ".join(f"{key.replace('_', ' ')} {_number(v)}" for key, v in outcome.items())
        rows.append((f"also tried: {what}", told))
    for of, run in about.get("runs", {}).items():
        rows.append((f"steps of {of}", ", ".join(map(str, run["steps"]))))
    return rows


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_number(inner)}" for key, inner in value.items())
    return ".".join(map(str, value)) if isinstance(value, list) else str(value)
