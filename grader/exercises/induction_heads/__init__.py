"""Notebook 05: induction heads, seen, named, proved, built by hand, and trained."""

from __future__ import annotations

from grader.exercises.induction_heads.building import (
    INDUCTION_BY_K_COMPOSITION,
    INDUCTION_BY_POINTER_ARITHMETIC,
)
from grader.exercises.induction_heads.finding import FIND_INDUCTION_HEADS
from grader.exercises.induction_heads.previous import PREVIOUS_TOKEN_HEAD
from grader.exercises.induction_heads.proving import ABLATE_HEAD, K_COMPOSED_QK, MATCHING_SCORE
from grader.exercises.induction_heads.repeating import (
    IN_CONTEXT_LEARNING_SCORE,
    LOSS_BY_POSITION,
    REPEATED_TOKENS,
)
from grader.exercises.induction_heads.scoring import (
    COPYING_EFFECT,
    PREFIX_MATCHING_SCORE,
    PREVIOUS_TOKEN_SCORE,
)
from grader.exercises.induction_heads.training import PHASE_CHANGE_STEP, TRAIN_INDUCTION

EXERCISES = [
    REPEATED_TOKENS,
    LOSS_BY_POSITION,
    IN_CONTEXT_LEARNING_SCORE,
    PREVIOUS_TOKEN_SCORE,
    PREFIX_MATCHING_SCORE,
    COPYING_EFFECT,
    FIND_INDUCTION_HEADS,
    K_COMPOSED_QK,
    MATCHING_SCORE,
    ABLATE_HEAD,
    PREVIOUS_TOKEN_HEAD,
    INDUCTION_BY_K_COMPOSITION,
    INDUCTION_BY_POINTER_ARITHMETIC,
    TRAIN_INDUCTION,
    PHASE_CHANGE_STEP,
]
