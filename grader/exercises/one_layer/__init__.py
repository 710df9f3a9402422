"""Notebook 03: a layer as a table of skip-trigrams, how to read it, and where the reading ends."""

from __future__ import annotations

from grader.exercises.one_layer.bugs import BUG_PARTNERS, SKIP_TRIGRAM_EFFECT
from grader.exercises.one_layer.circuits import FULL_OV_CIRCUIT, FULL_QK_CIRCUIT
from grader.exercises.one_layer.copying_rank import COPYING_RANK
from grader.exercises.one_layer.copying_score import COPYING_SCORE
from grader.exercises.one_layer.frozen import FROZEN_LOGITS
from grader.exercises.one_layer.interaction import SOURCE_INTERACTION
from grader.exercises.one_layer.low_rank import LOW_RANK_EIGENVALUES
from grader.exercises.one_layer.paths import ONE_LAYER_PATHS
from grader.exercises.one_layer.positions import POSITIONAL_PATTERN
from grader.exercises.one_layer.svd import FACTORED_SVD
from grader.exercises.one_layer.tables import TOP_SKIP_TRIGRAMS
from grader.exercises.one_layer.trap import EIGENVALUE_TRAP
from grader.exercises.one_layer.used import USED_SKIP_TRIGRAMS

EXERCISES = [
    FROZEN_LOGITS,
    ONE_LAYER_PATHS,
    FULL_QK_CIRCUIT,
    FULL_OV_CIRCUIT,
    TOP_SKIP_TRIGRAMS,
    SKIP_TRIGRAM_EFFECT,
    BUG_PARTNERS,
    POSITIONAL_PATTERN,
    LOW_RANK_EIGENVALUES,
    FACTORED_SVD,
    EIGENVALUE_TRAP,
    COPYING_SCORE,
    COPYING_RANK,
    USED_SKIP_TRIGRAMS,
    SOURCE_INTERACTION,
]
