"""``python -m grader.models.report``: the paper's figures beside those of the shipped models.

Everything printed is computed now, from the shipped weights and the held-out text, without a network;
only what needs training (other widths, other seeds) is read from the cards, and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch

from grader.models.recipes import figures, measure
from grader.models.recipes.skip_trigrams import load_findings
from grader.models.recipes.zero_layer import entropy_of, table_loss
from grader.models.shelf import CHECKPOINTS, bigram_counts, card, checkpoints, load, names
from grader.models.text import KINDS, sample_tokens, tokenizer
from grader.transformer import Transformer

ROWS = 24  # of each kind of text; more changes the third digit
COPYING = 0.5  # positivity from which a head is called copying; chance gives 0 ± 0.1 at d_head 32


@torch.no_grad()
def losses(model: Transformer, rows: int = ROWS) -> dict[str, Any]:
    """Mean held-out loss of each kind, and by position: mean over all kinds."""
    by_kind = {
        kind: measure.token_losses(
            model, measure.rows_of(sample_tokens(kind), rows, model.n_ctx)
        ).mean(0)
        for kind in KINDS
    }
    curve = torch.stack(list(by_kind.values())).mean(0)
    return {
        "loss": {kind: round(float(values.mean()), 4) for kind, values in by_kind.items()},
        "loss_by_position": [round(float(value), 3) for value in curve],
    }


@torch.no_grad()
def zero_layer_figures(model: Transformer) -> dict[str, Any]:
    counts = bigram_counts()
    floor, loss = entropy_of(counts), table_loss(model.W_E, model.W_U, counts)
    return {"training_loss": loss, "bigram_entropy": floor, "gap": loss - floor}


@torch.no_grad()
def one_layer_figures(model: Transformer) -> dict[str, Any]:
    text = measure.rows_of(sample_tokens(), ROWS, model.n_ctx)
    _, cache = model.run_with_cache(text)
    heads = range(model.n_heads)
    scores = [figures.ov_positivity(model, 0, h) for h in heads]
    return {
        "ov_positivity": scores,
        "copying_heads": sum(score >= COPYING for score in scores),
        "heads": model.n_heads,
        "attention_to_last_5": figures.attention_reach(cache.pattern[0]).mean(0).tolist(),
        "previous_token": measure.previous_token(cache.pattern[0]).mean(0).tolist(),
        "first_position": measure.first_position(cache.pattern[0]).mean(0).tolist(),
    }


@torch.no_grad()
def two_layer_figures(model: Transformer) -> dict[str, Any]:
    seen = measure.watch(model, rows=ROWS)
    text = measure.rows_of(sample_tokens(), ROWS, model.n_ctx)
    table = figures.compositions(model)
    matching = torch.tensor(seen["prefix_matching_random"]) + torch.tensor(
        seen["prefix_matching_code"]
    )
    induction = int(matching[1].argmax())
    previous = int(torch.tensor(seen["previous_token"])[0].argmax())
    best = [int(i) for i in torch.unravel_index(table.argmax(), table.shape)]
    return seen | {
        "induction_head": [1, induction],
        "previous_token_head": [0, previous],
        "second_copy_gain": seen["code_first"] - seen["code_second"],
        "compositions": table.tolist(),
        "pair_composition": float(table[1, induction, previous]),
        "largest_composition": ["QKV"[best[0]], best[1], best[2], float(table.max())],
        "ov_positivity": [
            [figures.ov_positivity(model, layer, h) for h in range(model.n_heads)]
            for layer in range(2)
        ],
        "composed_qk_positivity": figures.composed_qk_positivity(model, previous, induction),
        "plain_qk_positivity": figures.qk_positivity(model, 1, induction),
        "loss_without": {k: figures.without_composition(model, text, k) for k in "QKV"},
        "terms": figures.term_table(model, text),
        "in_context_score": figures.in_context_score(model, text),
        "largest_first_position": max(max(layer) for layer in seen["first_position"]),
    }


def figures_of(name: str, model: Transformer) -> dict[str, Any]:
    """The circuit figures of a shipped model, computed from its weights."""
    make = (zero_layer_figures, one_layer_figures, two_layer_figures)[model.n_layers]
    return make(model)


@torch.no_grad()
def change(models: list[tuple[int, Transformer]]) -> Iterator[tuple[int, dict[str, float]]]:
    """Each snapshot's step, random-repeat figures and gain on the second copy of code."""
    for step, model in models:
        seen = measure.watch(model, rows=4)
        yield (
            step,
            {
                "random_loss": seen["random_loss"],
                "random_accuracy": seen["random_accuracy"],
                "prefix_matching": max(seen["prefix_matching_random"][1]),
                "previous_token": max(seen["previous_token_random"][0]),
                "second_copy_gain": seen["code_first"] - seen["code_second"],
            },
        )


def main() -> int:
    """Print everything."""
    torch.set_num_threads(min(2, torch.get_num_threads()))
    for name in names():
        model = load(name)
        print(f"\n== {name}: {model}")
        if name == CHECKPOINTS:
            _print_change()
            continue
        kinds = losses(model)["loss"]
        print("held-out loss, nats: " + ", ".join(f"{k} {v:.3f}" for k, v in kinds.items()))
        _PRINTERS[model.n_layers](figures_of(name, model), card(name))
    return 0


def _line(what: str, ours: str, paper: str = "") -> None:
    print(f"  {what:<58} {ours:<34} {paper}")


def _print_zero(found: dict[str, Any], about: dict[str, Any]) -> None:
    _line("loss on the training text", f"{found['training_loss']:.3f}")
    _line("bigram entropy of that text: the floor", f"{found['bigram_entropy']:.3f}")
    _line("gap", f"{found['gap']:.3f}")
    for width, gap in about["gap_by_d_model"].items():
        _line(f"gap at d_model {width} (from the card)", f"{gap:.3f}")


def _print_one(found: dict[str, Any], about: dict[str, Any]) -> None:
    _line(
        f"copying heads (positivity of the OV circuit ≥ {COPYING})",
        f"{found['copying_heads']} of {found['heads']}",
        "paper: 10 of 12",
    )
    for head in range(found["heads"]):
        _line(
            f"head {head}: OV positivity · attention to the last 5 · to the one before",
            f"{found['ov_positivity'][head]:+.2f} · {found['attention_to_last_5'][head]:.2f}"
            f" · {found['previous_token'][head]:.2f}",
        )
    findings, label = load_findings(), tokenizer().token_strings()
    print("  skip-trigrams, source … destination → next (head, logits added per use, uses):")
    for f in findings["skip_trigrams"]:
        s, d, n = (label[i] for i in f["tokens"])
        print(f"    {s!r} … {d!r} → {n!r}   (head {f['head']}, {f['mean']:.2f}, {f['uses']})")
    print("  bugs: a pair that the source forces too, and how often the training text has it:")
    for f in findings["bugs"]:
        s, d, n = (label[i] for i in f["tokens"])
        print(
            f"    {s!r} … {d!r} → {n!r}   p {f['without']:.4f} → {f['with']:.4f}, "
            f"in the text: {f['count']}"
        )


def _print_two(found: dict[str, Any], about: dict[str, Any]) -> None:
    layer, head = found["induction_head"]
    previous = found["previous_token_head"][1]
    kind, late, early, size = found["largest_composition"]
    best = lambda key, layer: max(found[key][layer])  # noqa: E731
    _line("induction head, previous-token head", f"1.{head}, 0.{previous}")
    _line("held-out code, first → second copy", _arrow(found["code_first"], found["code_second"]))
    _line("gain of the second copy", f"{found['second_copy_gain']:.2f} nats")
    _line("prefix matching on repeated code", f"{best('prefix_matching_code', 1):.2f}")
    _line("prefix matching on 4 × 25 random tokens", f"{best('prefix_matching_random', 1):.2f}")
    _line("greedy accuracy on their repeats", f"{found['random_accuracy']:.2f}")
    _line("previous-token score, on text", f"{best('previous_token', 0):.2f}")
    _line("previous-token score, on random tokens", f"{best('previous_token_random', 0):.2f}")
    _line("K-composition of the pair, above chance", f"{found['pair_composition']:+.3f}")
    _line("largest of all pairs and kinds", f"{kind} {early}→{late} {size:+.3f}", "paper: K")
    _line("OV positivity of the induction head", f"{found['ov_positivity'][layer][head]:+.2f}",
          "paper: positive")  # fmt: skip
    _line("positivity of its K-composed QK circuit", f"{found['composed_qk_positivity']:+.2f}",
          "paper: positive")  # fmt: skip
    _line("positivity of its plain QK circuit", f"{found['plain_qk_positivity']:+.2f}")
    gone = found["loss_without"]
    _line("loss; without Q-, K-, V-composition", f"{found['terms']['loss']:.3f}; "
          + ", ".join(f"{gone[k]:.3f}" for k in "QKV"))  # fmt: skip
    _line("largest attention to position 0 (0.9: dead)", f"{found['largest_first_position']:.2f}")
    _line("in-context score, late minus early loss", f"{found['in_context_score']:+.3f}",
          "later paper, 2 layers and more: −0.4")  # fmt: skip
    terms = found["terms"]
    for what, key, paper in _TERMS:
        _line(what, f"{terms[key]:.3f} nats", f"paper: {paper}")


_TERMS = (
    ("direct path, against uniform", "direct_path", "1.8"),
    ("single heads, after the direct path", "single_heads", "5.2"),
    ("virtual heads, after single heads", "virtual_heads", "0.3"),
    ("layer 0 heads, after the direct path", "layer_0_after_direct", "1.3"),
    ("layer 0 heads, after layer 1 heads", "layer_0_after_layer_1", "0.05"),
    ("layer 1 heads, after the direct path", "layer_1_after_direct", "5.2"),
    ("layer 1 heads, after layer 0 heads", "layer_1_after_layer_0", "4.0"),
)


def _print_change() -> None:
    for of in card(CHECKPOINTS)["runs"]:
        print(f"  {of}\n  step   random loss  accuracy  prefix matching  previous  gain on code")
        for step, seen in change(checkpoints(of)):
            print(
                f"  {step:5d}  {seen['random_loss']:11.2f}  {seen['random_accuracy']:8.2f}"
                f"  {seen['prefix_matching']:15.2f}  {seen['previous_token']:8.2f}"
                f"  {seen['second_copy_gain']:12.2f}"
            )


def _arrow(before: float, after: float) -> str:
    return f"{before:.2f} → {after:.2f}"


_PRINTERS = {0: _print_zero, 1: _print_one, 2: _print_two}

if __name__ == "__main__":
    sys.exit(main())
