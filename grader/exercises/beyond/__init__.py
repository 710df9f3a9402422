"""Notebook 07: MLPs, LayerNorm, biases, erasing heads, smeared keys, models from elsewhere."""

from __future__ import annotations

from grader.exercises.beyond.folding import FOLD_LAYER_NORM, FOLD_VALUE_BIAS
from grader.exercises.beyond.heads import ERASURE_SCORE, SMEARED_KEYS
from grader.exercises.beyond.importing import FROM_TRANSFORMER_LENS
from grader.exercises.beyond.mlp import MLP_PATH_EXPANSION

EXERCISES = [
    MLP_PATH_EXPANSION,
    FOLD_LAYER_NORM,
    FOLD_VALUE_BIAS,
    ERASURE_SCORE,
    SMEARED_KEYS,
    FROM_TRANSFORMER_LENS,
]
