"""What notebook 01's demos draw from agrees with the text it was counted on."""

from __future__ import annotations

import pytest
import torch

from grader.lab import bigrams

TEXT = torch.tensor([0, 1, 2, 0, 1, 3, 0, 1, 2, 0, 2, 2, 1, 0, 3, 0])


def test_the_text_s_own_table_has_its_entropy_as_loss() -> None:
    seen = bigrams.of(TEXT, d_vocab=5)
    assert seen.counts.sum() == len(TEXT) - 1
    assert seen.loss(seen.probs.clamp_min(1e-300).log()) == pytest.approx(seen.entropy)
    assert seen.entropy == pytest.approx(float((seen.frequency * seen.row_entropy).sum()))
    assert seen.loss(seen.log_probs(0.5)) > seen.entropy


def test_a_wide_model_meets_the_entropy_and_a_narrow_one_does_not() -> None:
    seen = bigrams.of(TEXT, d_vocab=4)
    loss = {}
    for d_model in (1, 4):
        W_E, W_U = seen.train(d_model)
        loss[d_model] = seen.loss((W_E @ W_U).log_softmax(dim=1))
    assert loss[4] <= seen.entropy + 0.01
    assert loss[1] > seen.entropy + 0.05
    assert seen.loss(seen.cut(4, 0.1)) == pytest.approx(seen.loss(seen.log_probs(0.1)))


def test_what_it_writes_holds_only_pairs_of_the_text() -> None:
    seen = bigrams.of(TEXT, d_vocab=5)
    written = seen.write(200, seed=1)
    assert len(written) == 200
    assert (seen.counts[written[:-1], written[1:]] > 0).all()
    assert written.equal(seen.write(200, seed=1))


def test_after_a_token_that_nothing_follows_it_goes_on() -> None:
    assert len(bigrams.of(torch.tensor([0, 1, 2]), d_vocab=3).write(20)) == 20
