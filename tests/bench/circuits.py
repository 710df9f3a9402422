"""Our circuits against TransformerLens, on the same weights: agreement first, then speed, in turns.

Sizes run from the shipped models to 12 heads of GPT-2 small's shape. Both sides use the same number of
threads, run without gradients, and take turns; what a user of TransformerLens would write stands in
``circuits_peer.py``. Our cache holds what each head writes; the package's does so only when told, so
it is measured both ways.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader import models
from grader.circuits.composition import composition_scores, two_layer_paths
from grader.circuits.low_rank import LowRank, real_over_absolute
from grader.circuits.one_layer import copying_score, full_ov_circuit, one_layer_paths
from grader.transformer import Transformer
from tests.bench.circuits_lens import Lens, check_alike, lens
from tests.bench.circuits_memory import D_HEAD, D_MODEL, D_VOCAB, mebibytes
from tests.bench.rows import Row, alternate, seconds

PEER = "TransformerLens"
TOP = 100
# A contest's rounds go on for about this long, between these numbers of rounds.
SECONDS, FEWEST, MOST = 1.0, 4, 25


@dataclass(frozen=True)
class Size:
    """A model, and how much is asked of it: (batch, pos) of texts, pos of paths, rows of circuits."""

    name: str
    make: Callable[[], Transformer]
    texts: tuple[tuple[int, int], ...]
    path_pos: int
    circuit_rows: int


@dataclass(frozen=True)
class Contest:
    """One thing that both do: ours, the peer's request, and ours in the order of the peer's axes."""

    what: str
    ours: Callable[[], Any]
    do: str
    arguments: dict[str, Any] = field(default_factory=dict)
    as_theirs: Callable[[Any], Tensor] = lambda came: came
    ratio_at_least: float | None = None
    note: str = ""


def rows() -> Iterator[Row]:
    threads, before = os.cpu_count() or 1, torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.inference_mode():
            with lens(threads) as peer:
                for size in SIZES:
                    yield from against(peer, size)
            yield dense()
        for call, what in (("copying_score", "copying_score"), ("largest_ov", f"OV top {TOP}")):
            yield memory(call, what)
    finally:
        torch.set_num_threads(before)


def against(peer: Lens, size: Size) -> Iterator[Row]:
    """All contests of one size."""
    model = size.make()
    peer.load(model)
    shape = f"{size.name}: {model.n_layers} × {model.n_heads} heads, d_model {model.d_model}, d_vocab {model.d_vocab:,}"
    for contest in contests(model, size):
        yield race(peer, contest, f"{contest.what}; {shape}")


def race(peer: Lens, contest: Contest, what: str) -> Row:
    """Compare the answers, which also warms both up; then let the two take turns for a while."""
    came: list[Any] = []
    once = seconds(lambda: came.append(contest.ours()))
    took, theirs = peer.answer(contest.do, contest.arguments)
    check_alike(what, contest.as_theirs(came.pop()), theirs)
    del theirs
    turns = alternate(
        {
            "ours": lambda: 1e3 * seconds(contest.ours),
            "theirs": lambda: 1e3 * peer.seconds(contest.do, contest.arguments),
        },
        rounds=min(MOST, max(FEWEST, int(SECONDS / (once + took)))),
        warm=0,
    )
    return Row(
        what, turns["ours"], "ms", peer=PEER, peer_runs=turns["theirs"],
        ratio_at_least=contest.ratio_at_least, note=contest.note,
    )  # fmt: skip


def contests(model: Transformer, size: Size) -> Iterator[Contest]:
    generator = torch.Generator().manual_seed(1)
    for batch, pos in size.texts:
        tokens = torch.randint(model.d_vocab, (batch, pos), generator=generator)
        yield from forward(model, tokens)
    if model.n_layers > 1:
        yield Contest(
            "composition of all pairs, Q, K and V",
            lambda: composition_scores(model),
            "composition",
            as_theirs=lambda table: table.permute(0, 3, 4, 1, 2),
            ratio_at_least=1,
        )
    yield Contest(
        "copying score of every head",
        lambda: copying_score(model.W_E, model.W_V, model.W_O, model.W_U),
        "copying",
        ratio_at_least=1,
    )
    for circuit in ("QK", "OV"):
        yield largest(model, circuit, size.circuit_rows)
    yield paths(model, torch.randint(model.d_vocab, (size.path_pos,), generator=generator))


def forward(model: Transformer, tokens: Tensor) -> Iterator[Contest]:
    """With the peer's cache as it comes; for a single text also with head outputs in it, as in ours."""
    kinds = {"forward": "its cache as it comes, without the head outputs that ours has"}
    if len(tokens) == 1:  # it takes a (head, d_head, d_model) of memory a token for that
        kinds["forward_heads"] = "head outputs in both caches"
    for do, note in kinds.items():
        yield Contest(
            f"forward with cache, {tokens.shape[0]} × {tokens.shape[1]} tokens",
            lambda: model.run_with_cache(tokens)[0],
            do,
            {"tokens": tokens.tolist()},
            ratio_at_least=1,
            note=note,
        )


def largest(model: Transformer, circuit: str, n: int) -> Contest:
    """The largest entries in the first n rows of a full circuit of the last layer's first head."""
    last = model.n_layers - 1

    def ours() -> Tensor:
        W_E = model.W_E
        if circuit == "QK":
            full = LowRank(W_E[:n] @ model.W_Q[last, 0], (W_E @ model.W_K[last, 0]).mT)
        else:
            full = LowRank(W_E[:n] @ model.W_V[last, 0], model.W_O[last, 0] @ model.W_U)
        return full.largest(TOP)[0]

    part = "" if n == model.d_vocab else f" in {n:,} rows"
    arguments = {"circuit": circuit, "layer": last, "head": 0, "k": TOP, "rows": n}
    return Contest(
        f"{TOP} largest entries of a full {circuit} circuit{part}", ours, "largest", arguments,
        note="its own call for it is none: 64 MiB of rows at a time, then topk",
    )  # fmt: skip


def paths(model: Transformer, tokens: Tensor) -> Contest:
    """Logits of every path; the peer lists a path where its last head puts it, heads of layer 1 last."""

    def all_paths() -> Any:
        return (
            one_layer_paths(tokens, model)
            if model.n_layers == 1
            else two_layer_paths(tokens, model)
        )

    def in_order(came: Any) -> Tensor:
        if isinstance(came, Tensor):
            return came
        direct, (first, second), virtual = came
        pairs = virtual.transpose(0, 1).flatten(0, 1)
        return torch.cat([direct.unsqueeze(0), first, second, pairs])

    return Contest(
        f"logits of every path, {len(tokens)} tokens",
        all_paths,
        "paths",
        {"tokens": [tokens.tolist()]},
        as_theirs=in_order,
    )


def dense(rounds: int = 3) -> Row:
    """The low-rank copying score against the eigenvalues of the dense circuit, both in float64."""
    generator = torch.Generator().manual_seed(2)
    model = Transformer.random(
        n_layers=1, n_heads=1, d_model=256, d_head=D_HEAD, d_vocab=1024, n_ctx=1,
        generator=generator, dtype=torch.float64,
    )  # fmt: skip
    head = model.W_E, model.W_V[0, 0], model.W_O[0, 0], model.W_U

    def eigenvalues() -> Tensor:
        return real_over_absolute(torch.linalg.eigvals(full_ov_circuit(*head)))

    check_alike("dense eigenvalues", copying_score(*head), eigenvalues())
    turns = alternate(
        {
            "ours": lambda: 1e3 * seconds(lambda: copying_score(*head)),
            "theirs": lambda: 1e3 * seconds(eigenvalues),
        },
        rounds,
        warm=0,
    )
    what = f"copying_score of one head, d_vocab {model.d_vocab:,}, d_model {model.d_model}, d_head {model.d_head}, float64"
    return Row(
        what, turns["ours"], "ms", peer="dense eigenvalues", peer_runs=turns["theirs"],
        ratio_at_least=100,
    )  # fmt: skip


def memory(call: str, what: str) -> Row:
    """Peak memory of one call at full size, above its inputs."""
    sizes = f"d_vocab {D_VOCAB:,}, d_model {D_MODEL}, d_head {D_HEAD}"
    return Row(
        f"{what} of one head, memory above its inputs; {sizes}",
        (mebibytes(call),),
        "MiB",
        at_most=1024,
    )


def _random(n_heads: int, d_model: int, d_head: int, d_vocab: int) -> Transformer:
    return Transformer.random(
        n_layers=2, n_heads=n_heads, d_model=d_model, d_head=d_head, d_vocab=d_vocab, n_ctx=256,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip


SIZES = (
    Size("shipped one-layer", lambda: models.load("one-layer"), ((1, 256), (8, 256)), 64, 2048),
    Size("shipped two-layer", lambda: models.load("two-layer"), ((1, 256), (8, 256)), 64, 2048),
    Size("middle", lambda: _random(8, 512, 64, 8192), ((1, 256), (8, 256)), 16, 2048),
    Size("GPT-2's shape", lambda: _random(12, D_MODEL, D_HEAD, D_VOCAB), ((1, 128),), 4, 1024),
)
