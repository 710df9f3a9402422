"""Pictures of heads that read heads: labeled, comparable, and clear about wrong shapes."""

import matplotlib
import pytest
import torch
from matplotlib.figure import Figure

from grader.lab import pictures
from grader.lab.picture_style import PAPER

matplotlib.use("Agg")


def panels(figure: Figure) -> list[str]:
    return [a.get_title(loc="left") for a in figure.axes if a.get_title(loc="left")]


def test_the_three_ways_and_the_three_tables_are_named() -> None:
    kinds = ["Q-composition", "K-composition", "V-composition"]
    assert panels(pictures.composition_diagram()) == kinds
    assert panels(pictures.compositions(torch.randn(3, 2, 4))) == kinds


def test_the_three_tables_share_one_color_scale_around_zero() -> None:
    table = torch.zeros(3, 2, 2)
    table[1, 0, 1] = -0.4
    images = [a.images[0] for a in pictures.compositions(table).axes if a.images]
    limits = {tuple(round(float(edge), 6) for edge in image.get_clim()) for image in images}
    assert limits == {(-0.4, 0.4)}
    given = [a.images[0] for a in pictures.compositions(table, scale=1.0).axes if a.images]
    assert {image.get_clim() for image in given} == {(-1.0, 1.0)}


def test_rows_are_readers_and_columns_are_read() -> None:
    first = pictures.compositions(torch.randn(3, 2, 4)).axes[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["1.0", "1.1"]
    assert [label.get_text() for label in first.get_xticklabels()] == ["0.0", "0.1", "0.2", "0.3"]
    assert (first.get_ylabel(), first.get_xlabel()) == ("head reading", "head read")


def test_a_histogram_shows_shares_and_its_levels() -> None:
    figure = pictures.histogram(
        {"a": torch.randn(50), "b": torch.randn(500)}, levels={"chance": 0.2}, x_label="score"
    )
    place = figure.axes[0]
    assert (place.get_xlabel(), place.get_ylabel()) == ("score", "share of samples")
    legend = place.get_legend()
    assert legend is not None
    assert sorted(text.get_text() for text in legend.get_texts()) == ["a", "b", "chance"]
    assert place.get_ylim()[1] <= 1.05
    assert figure.get_facecolor()[:3] == matplotlib.colors.to_rgb(PAPER)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3, 3), (3, 0, 3)])
def test_a_table_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="composition table"):
        pictures.compositions(torch.zeros(shape))


def test_a_histogram_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one series"):
        pictures.histogram({}, x_label="score")
