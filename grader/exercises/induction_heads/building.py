"""Induction written into the weights by hand, in two ways; judged by what the model does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from grader.circuits import induction_heads as reference
from grader.circuits.compiled import compile_model
from grader.circuits.compiled_heads import (
    dead,
    duplicate_token,
    induction,
    pointer,
    pointer_induction,
    positional,
    previous_token,
)
from grader.circuits.compiled_parts import Copy, Head, Match, Offset, Remember
from grader.exercises.induction_heads.repeating import NOTEBOOK
from grader.judge.comparators import Property
from grader.judge.draw import Draw
from grader.judge.reading import Unreadable, read_like, read_model
from grader.judge.spec import Case, Exercise, Mistake, Variant
from grader.transformer import Transformer

PAPER = "How Induction Heads Work"
RIGHT, LOST = 0.99, 0.5


def _cases(draw: Draw) -> Iterator[Case]:
    def case(d_vocab: int, n_ctx: int, label: str = "") -> Case:
        return Case((d_vocab, n_ctx), label, {"seed": draw.integer(0, 10**6)})

    yield case(draw.integer(10, 14), draw.integer(30, 36))
    yield case(draw.integer(17, 20), draw.integer(12, 15), "with more tokens than positions")
    yield case(3, 6, "with the smallest sizes there can be")
    yield case(draw.integer(4, 5), draw.integer(36, 40), "with many copies of a short period")


def _read(raw: Any, expected: Any, case: Case) -> Transformer:
    d_vocab, n_ctx = case.args
    model = read_model(raw) if raw is not None else read_like(raw, None)
    if model.n_layers != 2:
        raise Unreadable("shape", f"A model of {model.n_layers} layers came; two were asked for.")
    if model.d_vocab != d_vocab or model.n_ctx < n_ctx:
        came = f"d_vocab {model.d_vocab} and n_ctx {model.n_ctx} came"
        raise Unreadable("shape", f"{came}; {d_vocab} and {n_ctx} were asked for.")
    return model


def _texts(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Repeated tokens of every period: tokens and true next ones (period, text, pos), and where the
    next one is known, (period, 1, pos)."""
    d_vocab, n_ctx = case.args
    seed = int(case.context["seed"])
    periods = range(3, min(d_vocab, n_ctx // 2) + 1)
    rows = [
        [
            reference.repeated_tokens(d_vocab, p, n_ctx // p + 2, seed + i)[: n_ctx + 1]
            for i in (0, 1, 2)
        ]
        for p in periods
    ]
    tokens = torch.stack([torch.stack(row) for row in rows])
    known = torch.arange(n_ctx) >= torch.tensor(list(periods))[:, None, None]
    return tokens[..., :-1], tokens[..., 1:], known


def _guesses(model: Transformer, tokens: Tensor, cut: str = "") -> Tensor:
    """The likeliest next token; ``cut``: those inputs of layer 1 read the embedding only."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        streams = {
            kind: cache.stream[0] if kind in cut else cache.stream[1] for kind in ("Q", "K", "V")
        }
        q = model.qk_input(streams["Q"]).unsqueeze(-3) @ model.W_Q[1]
        k = model.qk_input(streams["K"]).unsqueeze(-3) @ model.W_K[1]
        scores = q @ k.mT / model.d_head**0.5
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        pattern = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
        z = pattern @ (streams["V"].unsqueeze(-3) @ model.W_V[1])
        return ((cache.stream[1] + (z @ model.W_O[1]).sum(dim=-3)) @ model.W_U).argmax(dim=-1)


def _accuracy(guessed: Tensor, true: Tensor, known: Tensor) -> Tensor:
    """(period,): the share that is right among the predictions that can be known."""
    right = (guessed == true) & known
    return right.double().sum(dim=(1, 2)) / known.expand_as(right).sum(dim=(1, 2))


def _composes(kind: str) -> Callable[[Transformer, Any, Case], tuple[bool, bool]]:
    """(induction works, and it works through that input of layer 1 and through no other)."""
    others = "QKV".replace(kind, "")

    def holds(model: Transformer, expected: Any, case: Case) -> tuple[bool, bool]:
        tokens, true, known = _texts(case)

        def accuracy(cut: str) -> Tensor:
            return _accuracy(_guesses(model, tokens, cut), true, known)

        works = bool((accuracy("") >= RIGHT).all())
        alone = works and bool((accuracy(others) >= RIGHT).all())
        return works, alone and bool(accuracy(kind).mean() < LOST)

    return holds


# --- what a wrong model does ---------------------------------------------------------------------

Signature = Callable[[Any, Case], bool]


def _seen(model: Transformer, case: Case) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """tokens, true next ones and guesses (text, pos), and where known."""
    tokens, true, known = _texts(case)
    known = known.expand_as(tokens)
    guessed = _guesses(model, tokens)
    flat = [value.flatten(0, 1) for value in (tokens, true, guessed, known)]
    return flat[0], flat[1], flat[2], flat[3]


def _share(agrees: Tensor, where: Tensor) -> float:
    return float(agrees[where].double().mean())


def _fails_at_the_first_token(model: Transformer, case: Case) -> bool:
    tokens, true, guessed, known = _seen(model, case)
    wrong = (guessed != true) & known
    return bool(wrong.any()) and not bool((wrong & (tokens != tokens[:, :1])).any())


def _repeats_the_present_token(model: Transformer, case: Case) -> bool:
    tokens, _, guessed, known = _seen(model, case)
    return _share(guessed == tokens, known) > 0.8


def _two_ahead(model: Transformer, case: Case) -> bool:
    _, true, guessed, known = _seen(model, case)
    return _share(guessed[:, :-1] == true[:, 1:], known[:, :-1]) > 0.6


def _fixed_distance(model: Transformer, case: Case) -> bool:
    """The same number of steps back, whatever the period, explains nearly all guesses."""
    tokens, _, guessed, known = _seen(model, case)
    reach = min(12, tokens.shape[1] // 2)
    return any(
        _share(guessed[:, k:] == tokens[:, : tokens.shape[1] - k], known[:, k:]) > 0.9
        for k in range(1, reach)
    )


def _looks_right_but_softly(model: Transformer, case: Case) -> bool:
    tokens, true, guessed, known = _seen(model, case)
    with torch.no_grad():
        pattern = model.run_with_cache(tokens)[1].pattern[1].mean(dim=-3)
    looked = tokens.gather(-1, pattern.argmax(dim=-1))
    return _share(looked == true, known) > 0.9 and _share(guessed == true, known) < 1.0


def _third_copies_fail(model: Transformer, case: Case) -> bool:
    tokens, true, known = _texts(case)
    guessed = _guesses(model, tokens)
    periods = known.logical_not().sum(dim=-1, keepdim=True)
    second = known & (torch.arange(tokens.shape[-1]) < 2 * periods)
    wrong = guessed != true
    return not bool((wrong & second).any()) and bool((wrong & known).any())


def _finds_itself(model: Transformer, case: Case) -> bool:
    tokens, true, guessed, known = _seen(model, case)
    with torch.no_grad():
        itself = model.run_with_cache(tokens)[1].pattern[0].diagonal(0, -2, -1).mean(dim=-2)
    return float(itself[known].mean()) > 0.4 and _share(guessed == true, known) < 0.6


def _works_otherwise(model: Transformer, case: Case) -> bool:
    """Induction works, only not by the composition asked for."""
    _, true, guessed, known = _seen(model, case)
    return _share(guessed == true, known) >= RIGHT


def _works_with_positions_in_stream(model: Transformer, case: Case) -> bool:
    if model.pos_in_stream or _works_otherwise(model, case):
        return False
    _, true, guessed, known = _seen(Transformer(**model.weights(), pos_in_stream=True), case)
    return _share(guessed == true, known) >= RIGHT


def _no_better_than_chance(model: Transformer, case: Case) -> bool:
    _, true, guessed, known = _seen(model, case)
    return _share(guessed == true, known) < 0.85


def _built(*layers: list[Head], pos_in_stream: bool = False) -> Callable[[int, int], Transformer]:
    """A model with those heads, exact, in float64; built once for each pair of sizes."""

    @lru_cache(maxsize=16)
    def answer(d_vocab: int, n_ctx: int) -> Transformer:
        return compile_model(
            layers, d_vocab=d_vocab, n_ctx=n_ctx, seed=1, noise=0.0, bigrams=0.0,
            pos_in_stream=pos_in_stream, dtype=torch.float64,
        ).model  # fmt: skip

    return answer


def _random(d_vocab: int, n_ctx: int) -> Transformer:
    return Transformer.random(
        n_layers=2, n_heads=1, d_model=16, d_head=8, d_vocab=d_vocab, n_ctx=n_ctx,
        generator=torch.Generator().manual_seed(3),
    )  # fmt: skip


def _as_dict(build: Callable[[int, int], Transformer]) -> Callable[[int, int], dict[str, Any]]:
    def answer(d_vocab: int, n_ctx: int) -> dict[str, Any]:
        model = build(d_vocab, n_ctx)
        return {**model.weights(), "pos_in_stream": model.pos_in_stream}

    return answer


def _one_layer(d_vocab: int, n_ctx: int) -> Transformer:
    return _built([positional(2, Copy())])(d_vocab, n_ctx)


_ONE_LAYER = Mistake(
    "not_two_layers",
    _one_layer,
    "Two layers were asked for: one finds something and writes it down, the next one reads it.",
)


def _nothing_found(where_to_look: str) -> Mistake:
    return Mistake(
        "no_induction",
        _random,
        "The predictions on repeated tokens are hardly better than chance. " + where_to_look,
        signature=_no_better_than_chance,
    )


_same_token = Mistake(
    "repeats_the_present_token",
    _built([previous_token()], [duplicate_token(Copy())]),
    "The model predicts the token that it is reading. Layer 1 looks at the earlier copy itself; it "
    "should look at the position *after* it.",
    facts=(89, 99),
    signature=_repeats_the_present_token,
)

_fixed = Mistake(
    "fixed_distance",
    _built([dead()], [positional(2, Copy())]),
    "The model looks a fixed number of steps back. That can be right for one period; it should find "
    "the earlier copy by what it is.",
    facts=(119,),
    signature=_fixed_distance,
)


INDUCTION_BY_K_COMPOSITION = Exercise(
    reference=reference.induction_by_k_composition,
    notebook=NOTEBOOK,
    title="Induction by K-composition, by hand",
    paper=PAPER,
    points=5,
    minutes=45,
    difficulty=3,
    cases=_cases,
    compare=Property(_composes("K"), "induction", "by keys alone", read=_read, by_outcome=True),
    hints=(
        "Give each kind of information its own directions: which token stands here, which token stood "
        "before, what comes next (only this is read by the unembedding), and what positions need. Then "
        "every head is a small map from one group to another.",
        "Layer 0 is your previous-token head; it copies “which token stands here” into “which token "
        "stood before”. In layer 1 the query reads the first group, the key the second, and the value "
        "goes from the first group to “what comes next”.",
        "Position 0 has nothing before it and looks at itself, so it claims that its own token stood "
        "before it. Keep queries away from it: one more direction of W_pos that marks position 0, and "
        "a query that dislikes it wherever it stands. Make all scores large; matches must win clearly "
        "against up to n_ctx others.",
    ),
    mistakes=(
        _ONE_LAYER,
        Mistake(
            "first_position_matches_falsely",
            _built([previous_token()], [Head("induction", Match(key=(0, 0)), Copy())]),
            "Right except where the present token is the one at position 0. That position can only "
            "look at itself, so it says that its own token came before it, and draws attention. How "
            "can queries be kept away from it?",
            signature=_fails_at_the_first_token,
        ),
        _same_token,
        _fixed,
        Mistake(
            "two_tokens_ahead",
            _built([positional(2)], [induction((0, 0))]),
            "The model predicts the token after next: the first layer writes down the token two back. "
            "It should be the one just before.",
            facts=(35, 91),
            signature=_two_ahead,
        ),
        Mistake(
            "not_by_keys",
            _built([pointer()], [pointer_induction((0, 0))], pos_in_stream=True),
            "Induction works, but not by K-composition alone: with layer-1 keys reading the embedding "
            "only it should fail, and with queries and values so it should still work.",
            facts=(79,),
            signature=_works_otherwise,
        ),
        Mistake(
            "not_sharp_enough",
            _built([previous_token()], [induction((0, 0), sharpness=-1.3)]),
            "Layer 1 prefers the right position, but many others share the attention and together "
            "outvote it. Make the scores larger.",
            signature=_looks_right_but_softly,
        ),
        _nothing_found(
            "Look at the two patterns, one after the other. Does layer 0 look one back, and does its "
            "output end in directions that the keys of layer 1 read?"
        ),
    ),
    variants=(
        Variant("dict_of_weights", _as_dict(reference.induction_by_k_composition), ("E",)),
        Variant(
            "in_float32",
            lambda v, n: reference.induction_by_k_composition(v, n).to(torch.float32),
            ("D",),
        ),
        Variant(
            "more_heads",
            _built([dead(), previous_token()], [induction((0, 1)), dead()]),
            ("E", "R"),
        ),
    ),
)


def _not_flagged(d_vocab: int, n_ctx: int) -> Transformer:
    model = reference.induction_by_pointer_arithmetic(d_vocab, n_ctx)
    return Transformer.from_weights(model.weights())


def _mean_of_two_places(d_vocab: int, n_ctx: int) -> Transformer:
    """A pointer written as one point of a circle, taken from all earlier copies alike."""
    double = torch.float64
    d_head = d_vocab + n_ctx
    here, following, place, pointer = torch.eye(2 * d_vocab + n_ctx + 2, dtype=double).split(
        [d_vocab, d_vocab, n_ctx, 2]
    )
    by_token, by_place = torch.eye(d_head, dtype=double).split([d_vocab, n_ctx])
    angle = torch.pi * torch.arange(n_ctx, dtype=double) / n_ctx
    point = torch.stack([angle.cos(), angle.sin()], dim=1)
    ahead = torch.stack([(angle - angle[1]).cos(), (angle - angle[1]).sin()], dim=1)
    gain = 40.0 / (1 - float(angle[1].cos()))
    same_token, same_place = here.T @ by_token, place.T @ by_place
    W_Q = torch.stack([40.0 * (same_token - same_place), gain * pointer.T @ by_place[:2]])
    W_K = torch.stack([same_token + same_place, place.T @ ahead @ by_place[:2]])
    return Transformer(
        W_E=here, W_U=following.T, W_pos=place,
        W_Q=d_head**0.5 * W_Q[:, None], W_K=W_K[:, None],
        W_V=torch.stack([same_place, same_token])[:, None],
        W_O=torch.stack([by_place.T @ point @ pointer, 10.0 * by_token.T @ following])[:, None],
        pos_in_stream=True,
    )  # fmt: skip


def _pointing(**attend: Any) -> Head:
    return Head("duplicate", Match(**attend), Remember(position=True))


INDUCTION_BY_POINTER_ARITHMETIC = Exercise(
    reference=reference.induction_by_pointer_arithmetic,
    notebook=NOTEBOOK,
    title="Induction by pointer arithmetic, by hand",
    paper="Induction Heads through Pointer Arithmetic (the paper's exercises)",
    points=5,
    minutes=45,
    difficulty=3,
    cases=_cases,
    compare=Property(_composes("Q"), "induction", "by queries alone", read=_read, by_outcome=True),
    hints=(
        "Layer 0 finds an earlier copy of the present token and writes down *where* it stands. Layer 1 "
        "looks one further than what is written there.",
        "In layer 0 a token always equals itself, so a second term in the scores must push each "
        "position away from itself. With three copies and more it must also settle on one: a term that "
        "grows with the position of the source prefers the latest.",
        "Positions as points on circles can be copied by a value and turned by a query: one step "
        "forward is a rotation. Several circles keep positions well apart. The copied position needs "
        "directions of its own, or it will be mixed with the position that was there before.",
    ),
    mistakes=(
        _ONE_LAYER,
        Mistake(
            "pos_in_stream_forgotten",
            _not_flagged,
            "The weights are right for positions in the stream, but the model says they are not: pass "
            'pos_in_stream=True, or "pos_in_stream": True in the dict.',
            facts=(32,),
            signature=_works_with_positions_in_stream,
        ),
        Mistake(
            "third_copies_fail",
            _mean_of_two_places,
            "Right in the second copy, wrong later: with two earlier copies layer 0 looks at both, and "
            "the mean of two positions points at neither. Let it prefer one of them.",
            signature=_third_copies_fail,
        ),
        Mistake(
            "finds_itself",
            _built(
                [_pointing(prefer_latest=True)], [pointer_induction((0, 0))], pos_in_stream=True
            ),
            "Layer 0 looks at the present position: a token always equals itself. Something must push "
            "each position away from itself.",
            facts=(24,),
            signature=_finds_itself,
        ),
        Mistake(
            "repeats_the_present_token",
            _built(
                [pointer()],
                [Head("induction", Offset(query=(0, 0), offset=0), Copy())],
                pos_in_stream=True,
            ),
            "The model predicts the token that it is reading: layer 1 looks at the position that was "
            "written down. It should look one further.",
            facts=(89, 99),
            signature=_repeats_the_present_token,
        ),
        _fixed,
        Mistake(
            "not_by_queries",
            _built([previous_token()], [induction((0, 0))]),
            "Induction works, but not by Q-composition alone: with layer-1 queries reading the "
            "embedding only it should fail, and with keys and values so it should still work.",
            facts=(79,),
            signature=_works_otherwise,
        ),
        _nothing_found(
            "Look at the pattern of layer 0 first: in the second copy, does each position look at the "
            "earlier copy of its token? Then at layer 1: does it look one further?"
        ),
    ),
    variants=(
        Variant("dict_of_weights", _as_dict(reference.induction_by_pointer_arithmetic), ("E",)),
        Variant(
            "in_float32",
            lambda v, n: reference.induction_by_pointer_arithmetic(v, n).to(torch.float32),
            ("D",),
        ),
    ),
)
