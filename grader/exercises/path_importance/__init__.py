"""Notebook 06: which paths carry the predictions, and how far a picture of one part can be trusted."""

from __future__ import annotations

from grader.exercises.path_importance.effects import MARGINAL_EFFECT
from grader.exercises.path_importance.readings import (
    DIRECT_LOGIT_ATTRIBUTION,
    VALUE_WEIGHTED_PATTERN,
)
from grader.exercises.path_importance.terms import TERM_IMPORTANCE
from grader.exercises.path_importance.virtual_heads import VIRTUAL_HEAD_IMPORTANCE

EXERCISES = [
    TERM_IMPORTANCE,
    MARGINAL_EFFECT,
    VIRTUAL_HEAD_IMPORTANCE,
    DIRECT_LOGIT_ATTRIBUTION,
    VALUE_WEIGHTED_PATTERN,
]
