"""What goes wrong when circuits are named: each mistake as a change of the true answer.

A mistake is recognised by the part it spoils: in every model that isn't all right, the learner's
claims of that part must be exactly the spoiled ones. The others may be wrong in their own way.
The last mistakes are kinds (too much, too little) and hold whatever the claims are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.exercises.mystery_models.known import known_truth
from grader.exercises.mystery_models.reading import Claims, part, read_claims
from grader.judge.spec import Case, Mistake
from grader.transformer import Transformer

Truth = dict[str, Any]
Change = Callable[[Truth, Transformer], Truth]
Kind = Callable[[Claims, Claims], bool]


def spoiled(
    name: str, of: str, change: Change, message: str, facts: tuple[int, ...] = ()
) -> Mistake:
    """The mistake that turns the truth into ``change(truth, model)``, seen in the part ``of``."""

    def answer(model: Transformer) -> Truth:
        return change(known_truth(model), model)

    def signature(value: Claims, case: Case) -> bool:
        (model,) = case.args
        wrong, right = (read_claims(t) for t in (answer(model), known_truth(model)))
        return part(value, of) == part(wrong, of) != part(right, of)

    return Mistake(name, answer, message, facts, signature=signature)


def kind(name: str, of: str, holds: Kind, example: Change, message: str) -> Mistake:
    """A whole kind: ``holds(claimed, true)`` of the part ``of`` in every model not all right."""

    def signature(value: Claims, case: Case) -> bool:
        truth = read_claims(known_truth(case.args[0]))
        return holds(part(value, of), part(truth, of))

    return Mistake(
        name,
        lambda model: example(known_truth(model), model),
        message,
        signature=signature,
    )


# --- heads ---------------------------------------------------------------------------------------


def relabeled(old: str, new: str) -> Change:
    return lambda truth, model: (
        truth
        | {"heads": {a: new if label == old else label for a, label in truth["heads"].items()}}
    )


def matching_is_induction(truth: Truth, model: Transformer) -> Truth:
    """Every head that reads a previous-token head through its keys is called an induction head."""
    heads = dict(truth["heads"])
    for composed, writer, reader in truth["compositions"]:
        if composed == "K" and heads[writer] == "previous":
            heads[reader] = "induction"
    return truth | {"heads": heads}


def copies_and_after_exchanged(truth: Truth, model: Transformer) -> Truth:
    turned = {"duplicate": "induction", "induction": "duplicate"}
    return truth | {"heads": {a: turned.get(label, label) for a, label in truth["heads"].items()}}


def head_before_layer(truth: Truth, model: Transformer) -> Truth:
    return truth | {"heads": {(h, layer): label for (layer, h), label in truth["heads"].items()}}


def every_head_has_a_job(truth: Truth, model: Transformer) -> Truth:
    return relabeled("none", "positional")(truth, model)


def only_silent_heads_named(claimed: Claims, true: Claims) -> bool:
    """Too much, and only where the truth is "none"."""
    named = {claim[1] for claim in true}
    return true < claimed and not named & {claim[1] for claim in claimed - true}


def _fewer(claimed: Claims, true: Claims) -> bool:
    return claimed < true


def _more(claimed: Claims, true: Claims) -> bool:
    return claimed > true


# --- skip-trigrams -------------------------------------------------------------------------------


def reordered(*order: int) -> Change:
    """The three tokens of each skip-trigram in another order; an index may come twice."""
    return lambda truth, model: (
        truth
        | {"skip_trigrams": [tuple(triple[i] for i in order) for triple in truth["skip_trigrams"]]}
    )


def one_output_each(truth: Truth, model: Transformer) -> Truth:
    best = {(s, d): (s, d, o) for s, d, o in truth["skip_trigrams"]}
    return truth | {"skip_trigrams": list(best.values())}


def _one_of_each_pair(claimed: Claims, true: Claims) -> bool:
    pairs = [claim[1:3] for claim in claimed]
    complete = set(pairs) == {claim[1:3] for claim in true}
    return claimed < true and complete and len(pairs) == len(set(pairs))


def _without_last(name: str) -> Change:
    return lambda truth, model: truth | {name: truth[name][:-1]}


def _with_another(truth: Truth, model: Transformer) -> Truth:
    source, destination, output = truth["skip_trigrams"][0]
    absent = next(t for t in range(model.d_vocab) if t not in {source, destination, output})
    return truth | {"skip_trigrams": [*truth["skip_trigrams"], (absent, destination, absent)]}


# --- compositions --------------------------------------------------------------------------------


def reader_before_writer(truth: Truth, model: Transformer) -> Truth:
    return truth | {"compositions": [(k, by, of) for k, of, by in truth["compositions"]]}


def queries_for_keys(truth: Truth, model: Transformer) -> Truth:
    turned = {"Q": "K", "K": "Q", "V": "V"}
    return truth | {"compositions": [(turned[k], of, by) for k, of, by in truth["compositions"]]}


def keys_only(truth: Truth, model: Transformer) -> Truth:
    return truth | {"compositions": [c for c in truth["compositions"] if c[0] == "K"]}


def next_layer_only(truth: Truth, model: Transformer) -> Truth:
    near = [(k, of, by) for k, of, by in truth["compositions"] if by[0] == of[0] + 1]
    return truth | {"compositions": near}


def every_pair(truth: Truth, model: Transformer) -> Truth:
    heads = [(layer, h) for layer in range(model.n_layers) for h in range(model.n_heads)]
    pairs = [(of, by) for of in heads for by in heads if of[0] < by[0]]
    return truth | {"compositions": [(k, of, by) for k in "QKV" for of, by in pairs]}


def _with_an_echo(truth: Truth, model: Transformer) -> Truth:
    """Each pair that composes is said to do so by two inputs."""
    more = {"Q": "V", "K": "V", "V": "K"}
    echo = [(more[k], of, by) for k, of, by in truth["compositions"]]
    return truth | {"compositions": [*truth["compositions"], *echo]}


MISTAKES = (
    kind(
        "nothing_named",
        "heads",
        lambda claimed, true: not claimed,
        lambda truth, model: {},
        "No head has a label yet, other than “none”. Begin with one that is easy to see: does any head "
        "look a fixed distance back?",
    ),
    spoiled(
        "prefix_matching_alone",
        "heads",
        matching_is_induction,
        "Every head that looks after earlier copies is called an induction head. Some of them lower "
        "what they find, some write something else. Look also at what a head does to the token it "
        "attends to.",
        (98,),
    ),
    spoiled(
        "duplicate_called_induction",
        "heads",
        relabeled("duplicate", "induction"),
        "Duplicate-token heads are called induction heads. They look at the earlier copy itself; an "
        "induction head looks one position after it. Which stripe do you measure?",
        (99,),
    ),
    spoiled(
        "stripes_exchanged",
        "heads",
        copies_and_after_exchanged,
        "Duplicate-token heads and induction heads are exchanged. With a period of P, one of them "
        "looks P back and the other P − 1. Which is which?",
        (89, 99),
    ),
    spoiled(
        "previous_called_positional",
        "heads",
        relabeled("previous", "positional"),
        "Heads that look one back have a label of their own; “positional” is for two and more.",
    ),
    spoiled(
        "positional_called_previous",
        "heads",
        relabeled("positional", "previous"),
        "Heads that look a fixed distance back are all called previous-token heads. How far back do "
        "they look?",
        (35,),
    ),
    spoiled(
        "positional_missed",
        "heads",
        relabeled("positional", "none"),
        "Heads that look two or more positions back were not found. Do you measure the attention at "
        "more than one distance?",
        (33,),
    ),
    spoiled(
        "anti_copying_missed",
        "heads",
        relabeled("anti_copying", "none"),
        "Heads that lower the tokens they see were not found. A score of copying has a sign, and the "
        "negative end means something too.",
        (72,),
    ),
    spoiled(
        "head_before_layer",
        "heads",
        head_before_layer,
        "The keys are turned round: (layer, head), in this order.",
    ),
    kind(
        "silent_heads_named",
        "heads",
        only_silent_heads_named,
        every_head_has_a_job,
        "Heads that do nothing in particular are given a job. A dead or scrambled head also has a "
        "largest score of some kind; is yours large enough to mean something?",
    ),
    spoiled(
        "source_and_destination_exchanged",
        "skip_trigrams",
        reordered(1, 0, 2),
        "In the skip-trigrams source and destination are exchanged. In the full QK circuit the rows "
        "are destinations, and the source comes first in the text.",
        (30, 16),
    ),
    spoiled(
        "source_and_output_exchanged",
        "skip_trigrams",
        reordered(2, 1, 0),
        "In the skip-trigrams source and output are exchanged. With weights on the right, the rows "
        "of the full OV circuit are what is read and its columns what is written.",
        (37, 50),
    ),
    spoiled(
        "output_from_the_qk_circuit",
        "skip_trigrams",
        reordered(0, 1, 1),
        "The outputs are the destinations again. Where a head looks comes from the QK circuit; what "
        "it then predicts comes from the OV circuit and depends on the source alone.",
        (47,),
    ),
    kind(
        "one_output_for_each_pair",
        "skip_trigrams",
        _one_of_each_pair,
        one_output_each,
        "Each (source, destination) has one output in your list. Think of the skip-trigram bug: a "
        "source that serves two destinations brings all of its outputs to both.",
    ),
    spoiled(
        "reader_before_writer",
        "compositions",
        reader_before_writer,
        "In the compositions the two heads are exchanged: first the head that is read from, in the "
        "earlier layer, then the head that reads.",
        (80,),
    ),
    spoiled(
        "queries_for_keys",
        "compositions",
        queries_for_keys,
        "The right pairs, and Q and K exchanged. W_QK has a query side (rows) and a key side "
        "(columns); which of them meets what the earlier head wrote?",
        (79,),
    ),
    spoiled(
        "every_pair_composes",
        "compositions",
        every_pair,
        "Every pair of heads is said to compose. Two unrelated heads have a composition score too, "
        "about 1/√d_model: only what stands out from that means something.",
        (86,),
    ),
    spoiled(
        "keys_only",
        "compositions",
        keys_only,
        "All compositions through keys are there and no others. A head can read another one through "
        "its queries or its values as well.",
    ),
    spoiled(
        "next_layer_only",
        "compositions",
        next_layer_only,
        "Only heads of neighboring layers are compared. What a head writes stays in the stream: a "
        "head two layers on can read it just as well.",
        (119,),
    ),
    kind(
        "skip_trigrams_missed",
        "skip_trigrams",
        _fewer,
        _without_last("skip_trigrams"),
        "Every skip-trigram that you name is there, and some are missing. Is the threshold too high, "
        "or is a layer or a head left out?",
    ),
    kind(
        "skip_trigrams_invented",
        "skip_trigrams",
        _more,
        _with_another,
        "All skip-trigrams are found, and some more that are none. Does the head attend to that "
        "source from that destination, *and* raise that output by several logits?",
    ),
    kind(
        "compositions_missed",
        "compositions",
        _fewer,
        _without_last("compositions"),
        "Every composition that you name is there, and some are missing. There are three kinds, and "
        "any earlier layer can be read.",
    ),
    kind(
        "compositions_invented",
        "compositions",
        _more,
        _with_an_echo,
        "All compositions are found, and some more that are none. How large is the score of two heads "
        "that have nothing to do with each other?",
    ),
    kind(
        "heads_missed",
        "heads",
        _fewer,
        relabeled("skip_trigram", "none"),
        "Every label that you give is right, and some heads with a job are called “none” or not "
        "listed. Which label never occurs in your answers?",
    ),
)
