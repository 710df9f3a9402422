"""Notebook 02: where a head looks, what it copies, and the algebra of both."""

from __future__ import annotations

from grader.exercises.attention_heads.basis import CHANGE_OF_BASIS
from grader.exercises.attention_heads.layer import ATTENTION_LAYER
from grader.exercises.attention_heads.pattern import CAUSAL_PATTERN
from grader.exercises.attention_heads.products import MIXED_PRODUCT, TENSOR_PRODUCT
from grader.exercises.attention_heads.scores import ATTENTION_SCORES, QK_CIRCUIT
from grader.exercises.attention_heads.what import CONCAT_EQUALS_SUM, HEAD_OUTPUT, OV_CIRCUIT

EXERCISES = [
    ATTENTION_SCORES,
    CAUSAL_PATTERN,
    HEAD_OUTPUT,
    ATTENTION_LAYER,
    CONCAT_EQUALS_SUM,
    QK_CIRCUIT,
    OV_CIRCUIT,
    TENSOR_PRODUCT,
    MIXED_PRODUCT,
    CHANGE_OF_BASIS,
]
