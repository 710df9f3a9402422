"""The figures of the cards: their definitions on cases worked out by hand, and against dense algebra."""

from __future__ import annotations

import torch

from grader.circuits import composition, induction_heads, one_layer, path_importance, zero_layer
from grader.models.recipes import figures, measure
from grader.models.recipes.skip_trigrams import count_triple, used
from grader.transformer import Transformer

MODEL = Transformer.random(
    n_layers=2, n_heads=3, d_model=12, d_head=4, d_vocab=20, n_ctx=30,
    generator=torch.Generator().manual_seed(5), dtype=torch.float64,
)  # fmt: skip
TOKENS = torch.randint(20, (3, 15), generator=torch.Generator().manual_seed(6))


def dense_positivity(matrix: torch.Tensor) -> float:
    values = torch.linalg.eigvals(matrix)
    return float(values.real.sum() / values.abs().sum())


def test_positivity_is_that_of_the_dense_circuits() -> None:
    m = MODEL
    full_ov = m.W_E @ m.W_V[1, 2] @ m.W_O[1, 2] @ m.W_U
    assert abs(figures.ov_positivity(m, 1, 2) - dense_positivity(full_ov)) <= 1e-6
    full_qk = m.W_E @ m.W_Q[1, 0] @ m.W_K[1, 0].T @ m.W_E.T
    assert abs(figures.qk_positivity(m, 1, 0) - dense_positivity(full_qk)) <= 1e-6
    W_OV = m.W_V[0, 1] @ m.W_O[0, 1]
    composed = m.W_E @ m.W_Q[1, 2] @ m.W_K[1, 2].T @ W_OV.T @ m.W_E.T
    assert abs(figures.composed_qk_positivity(m, 1, 2) - dense_positivity(composed)) <= 1e-6


def test_compositions_are_frobenius_ratios_minus_chance() -> None:
    table = figures.compositions(MODEL)
    W_OV, W_QK = MODEL.W_V @ MODEL.W_O, MODEL.W_Q @ MODEL.W_K.mT
    for late in range(3):
        for early in range(3):
            reads = (W_QK[1, late], W_QK[1, late].T, W_OV[1, late])
            for kind, read in enumerate(reads):
                ratio = (W_OV[0, early] @ read).norm() / W_OV[0, early].norm() / read.norm()
                assert abs(float(table[kind, late, early] - ratio + 12**-0.5)) <= 1e-9


def test_terms_add_up_to_the_whole_loss() -> None:
    losses = figures.term_losses(MODEL, TOKENS)
    whole = float(measure.token_losses(MODEL, TOKENS).mean())
    assert abs(losses["all"] - whole) <= 1e-9
    table = figures.term_table(MODEL, TOKENS)
    taken = table["direct_path"] + table["single_heads"] + table["virtual_heads"]
    assert abs(taken - (torch.tensor(20.0).log().item() - whole)) <= 1e-6


def test_without_composition_a_model_that_has_none_stays_as_it_is() -> None:
    whole = float(measure.token_losses(MODEL, TOKENS).mean())
    silent = MODEL.with_weights(W_O=torch.cat([0 * MODEL.W_O[:1], MODEL.W_O[1:]]))
    alone = float(measure.token_losses(silent, TOKENS).mean())
    for kind in "QKV":
        assert abs(figures.without_composition(silent, TOKENS, kind) - alone) <= 1e-9
        assert abs(figures.without_composition(MODEL, TOKENS, kind) - whole) > 1e-3


def test_pattern_scores_on_patterns_made_by_hand() -> None:
    previous = torch.zeros(12, 12)
    previous[0, 0] = 1
    previous[range(1, 12), range(11)] = 1
    assert measure.previous_token(previous) == 1
    assert figures.attention_reach(previous[None, None], 4) == 1
    assert measure.prefix_matching(previous, 4) == 0
    matching = torch.zeros(12, 12)
    matching[range(3, 12), range(9)] = 1  # 3 back: after the copy, 4 back
    assert measure.prefix_matching(matching, 4) == 1
    assert measure.first_position(torch.eye(12)) == 0
    resting = torch.zeros(12, 12)
    resting[:, 0] = 1
    assert measure.first_position(resting) == 1


def test_used_triples_are_the_sum_over_the_text() -> None:
    m = Transformer.random(
        n_layers=1, n_heads=2, d_model=8, d_head=4, d_vocab=6, n_ctx=12,
        generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    tokens = torch.randint(6, (4, 12), generator=torch.Generator().manual_seed(2))
    pattern = m.run_with_cache(tokens)[1].pattern[0, :, 1]
    full_ov = m.W_E @ m.W_V[0, 1] @ m.W_O[0, 1] @ m.W_U
    expected: dict[tuple[int, int, int], float] = {}
    for b, row in enumerate(tokens.tolist()):
        for dst in range(11):
            for src in range(dst):
                gain = float(pattern[b, dst, src] * full_ov[row[src], row[dst + 1]])
                if gain >= 0.1:
                    key = (row[src], row[dst], row[dst + 1])
                    expected[key] = expected.get(key, 0.0) + gain
    found = used(m, tokens)[1]
    assert len(found["triples"]) == len(expected) > 5
    for triple, total in zip(found["triples"].tolist(), found["total"].tolist(), strict=True):
        assert abs(total - expected[tuple(triple)]) <= 1e-4


def test_triples_are_counted_within_the_window() -> None:
    text = torch.zeros(100, dtype=torch.int64)
    text[40], text[50], text[51] = 7, 8, 9
    text[90], text[91] = 8, 9
    assert count_triple(text, (7, 8, 9)) == 1
    assert count_triple(text, (7, 8, 0)) == 0


def test_the_figures_agree_with_the_reference_circuits() -> None:
    m, row = MODEL, TOKENS[0]
    _, cache = m.run_with_cache(row)
    pattern = cache.pattern[1, 0]
    pairs = [
        (measure.previous_token(pattern), induction_heads.previous_token_score(pattern)),
        (measure.prefix_matching(pattern, 5), induction_heads.prefix_matching_score(pattern, 5)),
        (
            figures.ov_positivity(m, 0, 1),
            one_layer.copying_score(m.W_E, m.W_V[0, 1], m.W_O[0, 1], m.W_U),
        ),
        (
            figures.composed_qk_positivity(m, 2, 1),
            induction_heads.matching_score(
                m.W_E, m.W_Q[1, 1], m.W_K[1, 1], m.W_V[0, 2] @ m.W_O[0, 2]
            ),
        ),
        (
            figures.without_composition(m, row[None], "K"),
            zero_layer.next_token_loss(composition.knock_out_composition(row, m, "K"), row),
        ),
    ]
    for mine, reference in pairs:
        assert abs(float(mine) - float(reference)) <= 1e-6
    assert torch.allclose(figures.compositions(m), composition.composition_table(m))
    orders = path_importance.term_importance(row, m)
    losses = figures.term_losses(m, row[None])
    for name, reference in zip(("direct", "single_heads", "all"), orders, strict=True):
        assert abs(losses[name] - float(reference)) <= 1e-6
