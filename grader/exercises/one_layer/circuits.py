"""The two tables of a head over the whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from grader.circuits import one_layer as reference
from grader.exercises.one_layer.common import NOTEBOOK
from grader.judge.comparators import Comparator
from grader.judge.draw import Draw
from grader.judge.spec import Case, Exercise, Mistake, Variant

PAPER = "Splitting Attention Head terms into Query-Key and Output-Value Circuits"


def _qk_cases(draw: Draw) -> Iterator[Case]:
    def case(by: Draw, d_vocab: int, d_model: int, d_head: int, label: str = "") -> Case:
        heads = (by.normal(d_model, d_head) for _ in range(2))
        return Case((by.normal(d_vocab, d_model), *heads), label)

    d_head, d_model, d_vocab = sorted(draw.sizes(3, 3, 9))
    yield case(draw, d_vocab, d_model, d_head)
    n = draw.integer(4, 6)
    yield case(draw, n, n, n, "where all sizes are equal")
    yield case(Draw(draw.seed, torch.float64), d_vocab, d_model, 1, "with d_head 1, in float64")
    yield case(draw, 1, d_model, d_head, "with a vocabulary of one token")


FULL_QK_CIRCUIT = Exercise(
    reference=reference.full_qk_circuit,
    notebook=NOTEBOOK,
    title="The full QK circuit: who looks at whom",
    paper=PAPER,
    points=2,
    minutes=6,
    difficulty=1,
    cases=_qk_cases,
    compare=Comparator(),
    hints=(
        "Both sides of the circuit are tokens. What turns a token into a stream vector?",
        "The result is (d_vocab, d_vocab), with the destination in the rows. d_model and d_head both "
        "disappear in sums.",
        "Make a query of every token and a key of every token, and multiply each query with each "
        "key. Nothing is divided, nothing masked.",
    ),
    mistakes=(
        Mistake(
            "transposed",
            lambda W_E, W_Q, W_K: (W_E @ W_K) @ (W_E @ W_Q).T,
            "Right numbers, rows and columns exchanged: your rows are sources. Queries belong to the "
            "destination, and the destination in the rows.",
            facts=(16, 30),
        ),
        Mistake(
            "without_embedding",
            lambda W_E, W_Q, W_K: W_Q @ W_K.T,
            "This is W_QK, between directions of the stream. The *full* circuit is between tokens.",
            facts=(29,),
        ),
        Mistake(
            "embedding_on_one_side",
            lambda W_E, W_Q, W_K: W_E @ W_Q @ W_K.T,
            "The rows are tokens, the columns still directions of the stream. The source is a token "
            "too.",
            facts=(29,),
        ),
        Mistake(
            "embedding_on_the_source_side",
            lambda W_E, W_Q, W_K: W_Q @ (W_E @ W_K).T,
            "The columns are tokens, the rows still directions of the stream. The destination is a "
            "token too.",
            facts=(29,),
        ),
        Mistake(
            "divided",
            lambda W_E, W_Q, W_K: (W_E @ W_Q) @ (W_E @ W_K).T / W_Q.shape[1] ** 0.5,
            "Divided by √d_head, so these are scores. A circuit is the plain product, as in the "
            "paper.",
            facts=(17,),
        ),
        Mistake(
            "masked",
            lambda W_E, W_Q, W_K: ((W_E @ W_Q) @ (W_E @ W_K).T).tril(),
            "A causal mask was applied. Rows and columns are tokens of the vocabulary here, and ids "
            "have no before and after.",
        ),
        Mistake(
            "softmaxed",
            lambda W_E, W_Q, W_K: ((W_E @ W_Q) @ (W_E @ W_K).T).softmax(dim=-1),
            "The rows went through a softmax over the vocabulary. No destination ever chooses among "
            "all tokens, only among those of its text; the circuit is the raw table.",
        ),
        Mistake(
            "queries_with_queries",
            lambda W_E, W_Q, W_K: (W_E @ W_Q) @ (W_E @ W_Q).T,
            "Queries are multiplied with queries. Where is W_K?",
        ),
    ),
    variants=(
        Variant(
            "outer_factors_first", lambda W_E, W_Q, W_K: W_E @ (W_Q @ W_K.T) @ W_E.T, facts=("E",)
        ),
        Variant(
            "einsum",
            lambda W_E, W_Q, W_K: torch.einsum("ad,dh,eh,be->ab", W_E, W_Q, W_K, W_E),
            facts=("E", "T"),
        ),
        Variant(
            "numpy",
            lambda W_E, W_Q, W_K: W_E.numpy() @ W_Q.numpy() @ W_K.numpy().T @ W_E.numpy().T,
            facts=("N",),
        ),
    ),
)


def _ov_cases(draw: Draw) -> Iterator[Case]:
    def case(by: Draw, d_vocab: int, d_model: int, d_head: int, label: str = "") -> Case:
        outer = by.normal(d_vocab, d_model), by.normal(d_model, d_vocab)
        return Case(
            (outer[0], by.normal(d_model, d_head), by.normal(d_head, d_model), outer[1]), label
        )

    d_head, d_model, d_vocab = sorted(draw.sizes(3, 3, 9))
    yield case(draw, d_vocab, d_model, d_head)
    n = draw.integer(4, 6)
    yield case(draw, n, n, n, "where all sizes are equal")
    yield case(Draw(draw.seed, torch.float64), d_vocab, d_model, 1, "with d_head 1, in float64")
    yield case(draw, 1, d_model, d_head, "with a vocabulary of one token")


FULL_OV_CIRCUIT = Exercise(
    reference=reference.full_ov_circuit,
    notebook=NOTEBOOK,
    title="The full OV circuit: what a look does",
    paper=PAPER,
    points=2,
    minutes=6,
    difficulty=1,
    cases=_ov_cases,
    compare=Comparator(),
    hints=(
        "Follow one source token all the way: into the stream, through the head, out to the logits.",
        "(d_vocab, d_model), (d_model, d_head), (d_head, d_model), (d_model, d_vocab): the shapes "
        "leave one order only, unless two sizes happen to agree.",
        "A product of all four in the order in which a row vector meets them: embedding, value, "
        "output, unembedding. Nothing is transposed.",
    ),
    mistakes=(
        Mistake(
            "paper_convention",
            lambda W_E, W_V, W_O, W_U: (W_E @ W_V @ W_O @ W_U).T,
            "This is the paper's table, for columns: its rows are outputs. Here the source is in the "
            "rows. Beware: trace, norm and eigenvalues can't tell the two apart.",
            facts=(37,),
        ),
        Mistake(
            "circuit_transposed",
            lambda W_E, W_V, W_O, W_U: W_E @ (W_V @ W_O).T @ W_U,
            "Inside, W_OV is turned over: the head reads where it should write. Embedding and "
            "unembedding are in the right places.",
            facts=(37,),
        ),
        Mistake(
            "without_both",
            lambda W_E, W_V, W_O, W_U: W_V @ W_O,
            "This is W_OV, between directions of the stream. The *full* circuit is between tokens.",
            facts=(46,),
        ),
        Mistake(
            "without_unembedding",
            lambda W_E, W_V, W_O, W_U: W_E @ W_V @ W_O,
            "The rows are tokens, the columns still directions of the stream. What reads logits off "
            "the stream?",
            facts=(46,),
        ),
        Mistake(
            "without_embedding",
            lambda W_E, W_V, W_O, W_U: W_V @ W_O @ W_U,
            "The columns are tokens, the rows still directions of the stream. What puts a token into "
            "the stream?",
            facts=(46,),
        ),
        Mistake(
            "tied_unembedding",
            lambda W_E, W_V, W_O, W_U: W_E @ W_V @ W_O @ W_E.T,
            "W_E came in once more in place of W_U. The two are not transposes of each other in "
            "these models.",
            facts=(4,),
        ),
        Mistake(
            "direct_path_added",
            lambda W_E, W_V, W_O, W_U: W_E @ W_V @ W_O @ W_U + W_E @ W_U,
            "The direct path is added. The circuit says what the *head* does with a source.",
            facts=(54,),
        ),
        Mistake(
            "log_probs",
            lambda W_E, W_V, W_O, W_U: (W_E @ W_V @ W_O @ W_U).log_softmax(dim=-1),
            "The rows are normalized to log-probabilities. A head only adds to logits that others "
            "write to as well, so nothing can be normalized here.",
            facts=(8,),
        ),
        Mistake(
            "in_head_space",
            lambda W_E, W_V, W_O, W_U: W_O @ W_U @ W_E @ W_V,
            "The product was turned round to (d_head, d_head). It has the same non-zero eigenvalues "
            "(you will use that soon), but it is no table of tokens.",
            facts=(36,),
        ),
    ),
    variants=(
        Variant(
            "inside_first",
            lambda W_E, W_V, W_O, W_U: W_E @ (W_V @ W_O) @ W_U,
            facts=("E",),
        ),
        Variant(
            "einsum",
            lambda W_E, W_V, W_O, W_U: torch.einsum("ad,dh,he,eb->ab", W_E, W_V, W_O, W_U),
            facts=("E", "T"),
        ),
        Variant(
            "paper_order_transposed_at_the_end",
            lambda W_E, W_V, W_O, W_U: (W_U.T @ W_O.T @ W_V.T @ W_E.T).T,
            facts=("E", "D"),
        ),
        Variant(
            "numpy",
            lambda W_E, W_V, W_O, W_U: W_E.numpy() @ W_V.numpy() @ W_O.numpy() @ W_U.numpy(),
            facts=("N",),
        ),
    ),
)
