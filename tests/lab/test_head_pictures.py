"""Pictures of heads: what can be read in them, and what they refuse."""

import matplotlib
import pytest
import torch
from matplotlib.figure import Figure

from grader.lab import pictures

matplotlib.use("Agg")

WORDS = ["The", " cat", " ran"]
PATTERN = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.5, 0.5, 0.0]])


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for place in figure.axes for text in place.texts]


def test_the_diagram_names_both_sides_of_a_head() -> None:
    figure = pictures.head_diagram("One head")
    figure.draw_without_rendering()
    assert {"QK: where to look", "OV: what to copy"} <= set(texts(figure))


def test_a_flow_draws_one_line_for_each_attention_and_writes_the_chosen_ones() -> None:
    figure = pictures.attention_flow(PATTERN, WORDS, destination=1)
    ways = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 2]
    assert len(ways) == 5
    assert texts(figure).count("·cat") == 2
    assert {"0.25", "0.75"} <= set(texts(figure))


def test_a_flow_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(ValueError, match="no destination 3"):
        pictures.attention_flow(PATTERN, WORDS, destination=3)
    with pytest.raises(ValueError, match="as many destinations as sources"):
        pictures.attention_flow(PATTERN[:2], WORDS)
    with pytest.raises(ValueError, match="2 labels came for 3"):
        pictures.attention_flow(PATTERN, WORDS[:2])


def test_matrices_show_the_mask_and_no_negative_zero() -> None:
    scores = torch.tensor([[-0.001, -torch.inf], [2.0, 1.0]])
    figure = pictures.matrices(
        {"masked": scores}, axes=("destination", "source"), blocks={"masked": 1}
    )
    figure.draw_without_rendering()
    assert texts(figure) == ["0.0", "−∞", "2.0", "1.0"]
    assert len(figure.axes[0].lines) == 2
    assert figure.axes[0].get_ylabel() == "destination"


def test_matrices_refuse_nothing_and_vectors() -> None:
    with pytest.raises(ValueError, match="at least one"):
        pictures.matrices({})
    with pytest.raises(ValueError, match="'v' is a matrix; shape"):
        pictures.matrices({"v": torch.ones(3)})
