"""Notebook 04: heads that read heads, how strongly, and all the paths there are."""

from __future__ import annotations

from grader.exercises.composition.baseline import RANDOM_COMPOSITION
from grader.exercises.composition.counting import COUNT_PATHS, VIRTUAL_HEAD
from grader.exercises.composition.kinds import K_COMPOSITION, Q_COMPOSITION, V_COMPOSITION
from grader.exercises.composition.knocked import KNOCK_OUT_COMPOSITION
from grader.exercises.composition.norms import LOW_RANK_FROBENIUS
from grader.exercises.composition.paths import TWO_LAYER_PATHS
from grader.exercises.composition.score_paths import ATTENTION_SCORE_PATHS
from grader.exercises.composition.table import COMPOSITION_TABLE

EXERCISES = [
    Q_COMPOSITION,
    K_COMPOSITION,
    V_COMPOSITION,
    LOW_RANK_FROBENIUS,
    RANDOM_COMPOSITION,
    COMPOSITION_TABLE,
    KNOCK_OUT_COMPOSITION,
    VIRTUAL_HEAD,
    COUNT_PATHS,
    TWO_LAYER_PATHS,
    ATTENTION_SCORE_PATHS,
]
