"""Notebook 01: without layers a transformer is a table of bigrams."""

from __future__ import annotations

from grader.exercises.zero_layer.counting import (
    BIGRAM_COUNTS,
    BIGRAM_ENTROPY,
    BIGRAM_LOG_PROBS,
)
from grader.exercises.zero_layer.low_rank import SVD_BIGRAM_TABLE
from grader.exercises.zero_layer.reading import BIGRAM_TABLE, NEXT_TOKEN_LOSS, ZERO_LAYER_LOGITS
from grader.exercises.zero_layer.training import TRAIN_ZERO_LAYER

EXERCISES = [
    BIGRAM_COUNTS,
    BIGRAM_LOG_PROBS,
    ZERO_LAYER_LOGITS,
    BIGRAM_TABLE,
    NEXT_TOKEN_LOSS,
    BIGRAM_ENTROPY,
    TRAIN_ZERO_LAYER,
    SVD_BIGRAM_TABLE,
]
