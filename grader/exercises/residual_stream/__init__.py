"""Notebook 00, the transformer redrawn: its exercises in the course's order."""

from grader.exercises.residual_stream.overlap import READ_WRITE_OVERLAP
from grader.exercises.residual_stream.readings import COMPONENT_LOGITS, VIRTUAL_WEIGHTS
from grader.exercises.residual_stream.rotation import ROTATE_RESIDUAL_STREAM
from grader.exercises.residual_stream.stream import RESIDUAL_STREAM
from grader.judge.spec import Exercise

EXERCISES: list[Exercise] = [
    RESIDUAL_STREAM,
    COMPONENT_LOGITS,
    VIRTUAL_WEIGHTS,
    ROTATE_RESIDUAL_STREAM,
    READ_WRITE_OVERLAP,
]
