"""What an edited induction circuit did, in one sentence: how well, and which of its parts is why."""

from __future__ import annotations

import torch

from grader.lab.widgets.workshop import Outcome

_WELL, _SEEN = 0.5, 0.5  # a share of right guesses, of attention, from which on one may speak of it
_FEW = 0.25  # a probability below which nobody would bet


def told(outcome: Outcome, strength: float, temperature: float, offset: int) -> str:
    """How many predictions are right, and why, or why not."""
    known = int(outcome.known.sum())
    right = int(outcome.right[outcome.known].sum())
    return f"{right} of {known} right. {_why(outcome, strength, temperature, offset)}"


def _why(outcome: Outcome, strength: float, temperature: float, offset: int) -> str:
    if offset != 1:
        return _elsewhere(outcome, offset)
    attention, chance = outcome.matching(), outcome.mean_probability()
    if attention < _SEEN:
        heat = f"at temperature {temperature:g} " if temperature > 1 else ""
        return (
            f"The later head gives only {attention:.0%} of its attention to what came after earlier copies: "
            f"{heat}the rest is spread over places that have nothing to say. The right token gets "
            f"{chance:.0%} on average."
        )
    looks = (
        f"The later head gives {attention:.0%} of its attention to what came after earlier copies"
    )
    if strength <= 0:
        does = "writes nothing: looking is half of it" if strength == 0 else "lowers what it finds"
        others = "; other heads are right without it" if outcome.share_right() >= _WELL else ""
        return f"{looks}, and it {does}{others}."
    if chance < _FEW:
        return f"{looks}; what it adds is too weak: the right token gets {chance:.0%} on average."
    return f"{looks}, and the right token gets {chance:.0%} on average: it works."


def _elsewhere(outcome: Outcome, offset: int) -> str:
    """The first head remembers another token than the one before, so the second looks elsewhere."""
    if offset == 0:
        return (
            "The first head remembers each token itself, so the second finds the copies, not what "
            f"came after them: {_share(outcome, 0):.0%} of its guesses repeat the present token."
        )
    return (
        f"The first head looks {offset} back, so the second finds the place {offset} after the "
        f"copy: {_share(outcome, offset):.0%} of its guesses are the token {offset} steps on."
    )


def _share(outcome: Outcome, ahead: int) -> float:
    """Of the predictions that can be made, how many name the token ``ahead`` of the present one."""
    places = outcome.known.nonzero()[:, 0]
    places = places[places + ahead < len(outcome.tokens)]
    if not len(places):
        return 0.0
    hits = outcome.guess[places] == outcome.tokens[places + ahead]
    return float(hits.to(torch.float64).mean())
