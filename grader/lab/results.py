"""The paper's results as a table: where a learner showed each, the paper's figure, and ours.

The paper's figures are facts with a source; ours are read from the model cards (which a test holds
against the weights) or computed now. What is said of the comparison is held, too: each remark stands
beside the inequality that makes it true.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from grader.circuits.residual_stream import random_rotation, rotate_residual_stream
from grader.lab import path_losses
from grader.models.recipes.skip_trigrams import load_findings
from grader.models.shelf import card, load
from grader.models.text import sample_tokens, tokenizer

TWO = ("two-layer", "two-layer-curriculum")
_NONE = "no figure"


@dataclass(frozen=True)
class Result:
    """One result. ours: our figure in words; remark holds where ``true()`` does."""

    notebook: str
    claim: str
    exercises: tuple[str, ...]
    paper: str
    ours: Callable[[], str]
    remark: str
    true: Callable[[], bool]


def _figures(name: str) -> dict[str, Any]:
    return dict(card(name)["figures"])


def _both(what: Callable[[dict[str, Any]], str]) -> Callable[[], str]:
    return lambda: "; ".join(f"{name}: {what(_figures(name))}" for name in TWO)


def induction_heads(figures: dict[str, Any], matching: float = 0.4, copying: float = 0.5) -> int:
    """Heads of layer 1 that match prefixes on random tokens and copy, by a card's figures."""
    scores = zip(figures["prefix_matching_random"][1], figures["ov_positivity"][1], strict=True)
    return sum(m >= matching and c >= copying for m, c in scores)


def rotation_error() -> float:
    """The largest change of a logit, in parts of the largest logit, when the stream is turned."""
    model, tokens = load("two-layer"), sample_tokens("code")[:64]
    R = random_rotation(model.d_model, torch.Generator().manual_seed(0)).to(model.W_E.dtype)
    before, after = model(tokens), rotate_residual_stream(model, R)(tokens)
    return float((after - before).abs().max() / before.abs().max())


@functools.cache
def term_effects(name: str) -> tuple[float, ...]:
    """`path_losses.effects` on the six texts of notebook 06."""
    texts = [sample_tokens(kind)[:512].reshape(-1, 256) for kind in ("code", "docs", "english")]
    return tuple(path_losses.effects(load(name), torch.cat(texts)))


def _bug() -> str:
    label = tokenizer().token_strings()
    found = next(b for b in load_findings()["bugs"] if label[b["tokens"][0]] == "if")
    source, destination, output = (label[i] for i in found["tokens"])
    return (
        f"“{source}” makes “{destination} → {output}” go from {found['without']:.4f} to "
        f"{found['with']:.4f}, and the training text has it {found['count']} times"
    )


def _terms(chosen: int) -> Callable[[], str]:
    return lambda: "; ".join(f"{name}: {term_effects(name)[chosen]:.2f} nats" for name in TWO)


def _effect(chosen: int, claim: str, remark: str, true: Callable[[], bool]) -> Result:
    paper = f"{path_losses.EFFECTS[chosen].paper:g} nats"
    return Result(
        "06-path-importance", claim, ("term_importance", "marginal_effect"), paper,
        _terms(chosen), remark, true,
    )  # fmt: skip


RESULTS = (
    Result(
        "00-residual-stream", "The stream is a sum, and no direction of it is special.",
        ("residual_stream", "rotate_residual_stream", "virtual_weights"), "exact",
        lambda: f"a turned model's logits differ by {rotation_error():.0e} of the largest",
        "Agrees, up to rounding. (Training can prefer directions all the same.)",
        lambda: rotation_error() <= 1e-4,
    ),
    Result(
        "01-zero-layer", "Without layers the best model is a table of bigrams.",
        ("bigram_table", "bigram_entropy", "train_zero_layer"), _NONE,
        lambda: "{training_loss:.3f} nats, the floor is {bigram_entropy:.3f}".format(
            **_figures("zero-layer")
        ),
        "Agrees; what is left is the price of 128 dimensions for 2,048 tokens.",
        lambda: 0 <= _figures("zero-layer")["gap"] <= 0.05,
    ),
    Result(
        "02-attention-heads", "Heads add up; QK says where to look, OV what to copy.",
        ("concat_equals_sum", "qk_circuit", "ov_circuit", "tensor_product"), "exact",
        lambda: "exact: each check compares the two sides", "Agrees.", lambda: True,
    ),
    Result(
        "03-one-layer", "With frozen patterns one layer is bigrams and skip-trigrams, with a bug.",
        ("one_layer_paths", "top_skip_trigrams", "skip_trigram_effect", "bug_partners"),
        "“keep … in → mind” and “at → bay” force “in → bay”", _bug,
        "Agrees: the forced pair is in the trained weights.",
        lambda: all(b["with"] > b["without"] for b in load_findings()["bugs"]),
    ),
    Result(
        "03-one-layer", "Most heads copy, by their eigenvalues.",
        ("copying_score", "copying_rank", "eigenvalue_trap"), "10 of 12 heads",
        lambda: "{copying_heads} of {heads} heads have a score of 0.5 or more".format(
            **_figures("one-layer")
        ),
        "Differs: fewer of ours. In several, one large negative eigenvalue rules the score.",
        lambda: 12 * _figures("one-layer")["copying_heads"] < 10 * _figures("one-layer")["heads"],
    ),
    Result(
        "04-composition", "Two layers compose, above all through keys.",
        ("composition_table", "knock_out_composition", "two_layer_paths"),
        "K with one head of layer 0; more in the corrected figure",
        _both(lambda f: "{} 1.{}←0.{} {:+.3f} above chance".format(*f["largest_composition"])),
        "Agrees: the strongest pair is K-composition, about twice the score of random heads.",
        lambda: all(
            _figures(name)["largest_composition"][0] == "K"
            and 0.8 <= _figures(name)["largest_composition"][3] * 128**0.5 <= 1.3
            for name in TWO
        ),
    ),
    Result(
        "05-induction-heads", "Layer 1 grows induction heads.",
        ("prefix_matching_score", "copying_effect", "find_induction_heads"),
        "6 clear ones of 12 heads",
        _both(lambda f: f"{induction_heads(f)} of {len(f['ov_positivity'][1])}"),
        "In part: one where text alone was learned, all where random repeats came first.",
        lambda: [induction_heads(_figures(name)) for name in TWO] == [1, 4],
    ),
    Result(
        "05-induction-heads", "They match through what a previous-token head wrote.",
        ("k_composed_qk", "matching_score", "ablate_head", "induction_by_k_composition"),
        "all in the extreme positive corner",
        _both(lambda f: f"score {f['composed_qk_positivity']:.2f}"),
        "Agrees.",
        lambda: all(_figures(name)["composed_qk_positivity"] >= 0.9 for name in TWO),
    ),
    Result(
        "05-induction-heads", "They appear suddenly, and context helps from then on (2022).",
        ("train_induction", "phase_change_step", "in_context_learning_score"),
        "late minus early loss about −0.4 nats",
        _both(lambda f: f"{f['in_context_score']:.2f} nats"),
        "Similar in size, on shorter texts. On text alone ours grew slowly, not suddenly.",
        lambda: all(-0.5 <= _figures(name)["in_context_score"] <= -0.25 for name in TWO),
    ),
    _effect(
        0, "The direct path saves, against a uniform guess:",
        "Not comparable: their vocabulary is 25 times as large, and cuts words less.",
        lambda: 24 <= 50257 / load("two-layer").d_vocab <= 26,
    ),
    _effect(
        1, "All single heads save, on top of it:",
        "Less in ours, which have a third of the heads. Still more than a nat.",
        lambda: all(1 < term_effects(name)[1] < 5.2 for name in TWO),
    ),
    _effect(
        2, "All virtual heads save, on top of these:",
        "Agrees in the first. In the second one head that looks at itself makes the difference.",
        lambda: term_effects(TWO[0])[2] < 0.3 < term_effects(TWO[1])[2],
    ),
    _effect(
        4, "Layer 0 saves, beside layer 1:",
        "Differs. Our guess: with four heads a layer, less is said twice.",
        lambda: all(term_effects(name)[4] > 0.2 for name in TWO),
    ),
    Result(
        "07-beyond", "MLPs, LayerNorm and biases fit in, up to a point.",
        ("mlp_path_expansion", "fold_layer_norm", "fold_value_bias"), _NONE,
        lambda: "exact up to the activation and the division",
        "Agrees; more than that the paper leaves open, too.", lambda: True,
    ),
    Result(
        "08-mystery-models", "So a model can be read that nobody has explained.",
        ("name_circuits",), _NONE, lambda: "your points above",
        "Circuits planted by hand are easier to find than trained ones.", lambda: True,
    ),
)  # fmt: skip


class ResultsTable:
    """The table; a table with links in a notebook, lines of text elsewhere."""

    HEAD = ("what the paper shows", "you showed it in", "paper", "ours", "and so")

    def __init__(self) -> None:
        self.rows = [
            (r.notebook, r.claim, r.exercises, r.paper, r.ours(), r.remark) for r in RESULTS
        ]

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for notebook, claim, exercises, paper, ours, remark in self.rows:
            yield f"{notebook[:2]}  {claim}  ({', '.join(exercises)})"
            yield f"    paper: {paper} | ours: {ours} | {remark}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(word)}</th>" for word in self.HEAD)
        body = "".join(f"<tr>{''.join(self._cells(*row))}</tr>" for row in self.rows)
        return f'<table style="text-align: left"><tr>{head}</tr>{body}</table>'

    def _cells(
        self, notebook: str, claim: str, exercises: tuple[str, ...], *rest: str
    ) -> Iterator[str]:
        link = f'<a href="../{notebook}/{notebook}.ipynb">{notebook[:2]}</a>'
        names = ", ".join(f"<code>{html.escape(name)}</code>" for name in exercises)
        for inner in (html.escape(claim), f"{link}: {names}", *map(html.escape, rest)):
            yield f'<td style="text-align: left">{inner}</td>'


def table() -> ResultsTable:
    """Every result of the paper that the course shows, with the paper's figure and ours."""
    return ResultsTable()
