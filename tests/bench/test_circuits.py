"""Two answers are compared before they are timed; and a contest's form is the peer's."""

from __future__ import annotations

import pytest
import torch

from grader.transformer import Transformer
from tests.bench.circuits import paths
from tests.bench.circuits_lens import check_alike


def test_answers_that_differ_are_refused() -> None:
    ours = torch.tensor([100.0, 1.0])
    check_alike("same", ours, ours + 0.005)
    with pytest.raises(ValueError, match=r"scores: the answers differ by 2\.0e-04"):
        check_alike("scores", ours, ours + torch.tensor([0.0, 0.02]))
    with pytest.raises(ValueError, match="differ by nan"):
        check_alike("scores", ours, torch.tensor([100.0, torch.nan]))
    with pytest.raises(ValueError, match=r"ours is \(2,\) and theirs \(1,\)"):
        check_alike("scores", ours, ours[:1])


def test_paths_come_in_the_peers_order_with_the_heads_of_the_last_layer_last() -> None:
    sizes = {"n_heads": 2, "d_model": 6, "d_head": 3, "d_vocab": 7, "n_ctx": 5}
    model = Transformer.random(n_layers=2, **sizes)
    tokens = torch.tensor([1, 2, 3])
    contest = paths(model, tokens)
    terms = contest.as_theirs(contest.ours())
    assert terms.shape == (1 + 4 + 4, 3, 7)
    silent = model.W_O.clone()
    silent[0, 1] = 0  # paths through head 1 of layer 0: alone, then before each head of layer 1
    changed = model.with_weights(W_O=silent)
    contest = paths(changed, tokens)
    gone = contest.as_theirs(contest.ours()).abs().amax(dim=(1, 2)) == 0
    assert gone.nonzero().flatten().tolist() == [2, 7, 8]
