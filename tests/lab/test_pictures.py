"""Pictures: what a learner can read in them, and that a notebook shows each once."""

import base64

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from grader.lab import pictures
from grader.lab.picture_style import PAPER, ink_on

matplotlib.use("Agg")

TOKENS = ["The", " cat", "\n", "\tsat", "$x$"]


def causal(*shape: int) -> torch.Tensor:
    scores = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    return scores.masked_fill(torch.ones(shape[-2:]).triu(1).bool(), -torch.inf).softmax(-1)


def one_of_each() -> dict[str, Figure]:
    pattern = causal(5, 5)
    return {
        "matrix": pictures.matrix([[1.0, -2.0]], axes=("in", "out"), title="M"),
        "amounts": pictures.matrix(torch.rand(3, 30), diverging=False),
        "pattern": pictures.pattern(pattern, TOKENS, numbers=True),
        "patterns": pictures.patterns(causal(3, 5, 5), TOKENS, columns=2),
        "layers": pictures.patterns(causal(2, 3, 5, 5)),
        "lines": pictures.lines(
            {"a": [1.0, 2.0], "b": [2.0, 1.0]}, x_label="step", y_label="loss", levels={"floor": 1}
        ),
        "bars": pictures.bars([1.0, -1.0], [" a", "b"], x_label="token", y_label="logit"),
        "points": pictures.points([0, 1], [1, 0], x_label="QK", y_label="OV", labels=["0.1", "1"]),
        "eigenvalues": pictures.eigenvalues(torch.tensor([1 + 1j, -2.0])),
        "planes": pictures.eigenvalues({"head 0": [1.0], "head 1": [0.0]}),
    }


def tick_texts(figure: Figure, side: str = "x") -> list[str]:
    axis = figure.axes[0].xaxis if side == "x" else figure.axes[0].yaxis
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("name", one_of_each())
def test_every_outer_axis_is_labeled_and_the_picture_draws(name: str) -> None:
    figure = one_of_each()[name]
    plots = [a for a in figure.axes if a.get_label() != "<colorbar>" and a.get_visible()]
    assert any(a.get_xlabel() for a in plots)
    assert any(a.get_ylabel() for a in plots)
    assert figure.get_facecolor()[:3] == matplotlib.colors.to_rgb(PAPER)
    bundle, sizes = figure._repr_mimebundle_()
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")
    assert sizes["image/png"]["width"] <= 1200


def test_a_picture_is_shown_once() -> None:
    from matplotlib import pyplot

    assert isinstance(pictures.matrix([[1.0]]), Figure)
    assert pyplot.get_fignums() == []


def test_the_style_does_not_leak_into_the_learners_own_plots() -> None:
    before = dict(matplotlib.rcParams)
    one_of_each()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("token", "label"),
    [
        (" cat", "·cat"),
        ("head 0.1", "head 0.1"),
        ("   ", "···"),
        ("a ", "a·"),
        ("\n", "⏎"),
        ("\n  ", "⏎··"),
        ("\tx", "⇥x"),
        ("$x$", r"\$x\$"),
        ("", "∅"),
        ("\x00", r"\x00"),
        ("中", r"\u4e2d"),
        ("a" * 40, "a" * 15 + "…"),
        (7, "7"),
    ],
)
def test_labels_show_what_is_invisible(token: object, label: str) -> None:
    assert pictures.legible(token) == label


def test_ids_in_a_tensor_become_labels() -> None:
    assert pictures.token_labels(torch.tensor([3, 1])) == ["3", "1"]


def test_dollars_in_tokens_are_not_read_as_formulas() -> None:
    figure = pictures.pattern(causal(2, 2), ["$a_{$", "$b$"])
    figure._repr_mimebundle_()
    assert tick_texts(figure) == [r"\$a_{\$", r"\$b\$"]


def test_rows_are_destinations_and_the_future_is_grey() -> None:
    figure = pictures.pattern(causal(3, 3), ["a", "b", "c"])
    place = figure.axes[0]
    assert "destination" in place.get_ylabel()
    assert "source" in place.get_xlabel()
    shown = place.images[0].get_array()
    assert np.array_equal(np.ma.getmaskarray(shown), np.triu(np.ones((3, 3)), 1) > 0)


def test_a_leak_from_the_future_is_not_hidden() -> None:
    leaking = torch.full((2, 2), 0.5)
    shown = pictures.pattern(leaking).axes[0].images[0].get_array()
    assert not np.ma.getmaskarray(shown).any()


@pytest.mark.parametrize("numbers", [torch.ones(1, 1), [[1.0]], np.ones((1, 1), dtype=np.float32)])
def test_one_token_is_enough(numbers: object) -> None:
    pictures.pattern(numbers, ["x"])._repr_mimebundle_()
    pictures.patterns([numbers], ["x"])._repr_mimebundle_()


def test_small_matrices_show_their_numbers_in_readable_ink() -> None:
    texts = pictures.matrix([[5.0, -5.0], [0.0, 1.0]]).axes[0].texts
    assert [text.get_text() for text in texts] == ["5", "-5", "0", "1"]
    assert [text.get_color() == "white" for text in texts] == [True, True, False, False]
    assert ink_on("black") == "white"
    assert ink_on("white") != "white"


def test_large_matrices_show_colors_only() -> None:
    assert not pictures.matrix(torch.rand(40, 40)).axes[0].texts


def test_tensors_that_require_grad_and_zeros_draw() -> None:
    pictures.matrix(torch.zeros(2, 2, requires_grad=True))._repr_mimebundle_()
    pictures.eigenvalues(torch.zeros(2))._repr_mimebundle_()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: pictures.matrix([1.0, 2.0]), r"\(row, column\); shape \(2,\) came"),
        (lambda: pictures.matrix([[1.0], [1.0, 2.0]]), "different lengths"),
        (lambda: pictures.matrix(torch.zeros(0, 3)), r"shape \(0, 3\) came"),
        (lambda: pictures.matrix("abc"), "doesn't hold numbers"),
        (lambda: pictures.matrix([[1.0]], rows=["a", "b"]), "2 labels came for 1"),
        (lambda: pictures.pattern(torch.ones(2, 3)), "as many destinations as sources"),
        (lambda: pictures.pattern(torch.ones(2, 2, 2)), r"one head's \(dst, src\)"),
        (lambda: pictures.patterns(torch.ones(2, 2)), r"\(head, dst, src\)"),
        (lambda: pictures.lines({}, x_label="x", y_label="y"), "at least one series"),
        (
            lambda: pictures.lines({"a": [1, 2]}, [1], x_label="x", y_label="y"),
            "'a' has 2 values and x 1",
        ),
        (lambda: pictures.points([1], [1, 2], x_label="x", y_label="y"), "come in pairs"),
        (lambda: pictures.stream_diagram(["layer 0"], path=[(0, 1)]), "there is none"),
        (lambda: pictures.stream_diagram(["a", "b"], path=[(1, 0), (0, 0)]), "later layers"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_words(draw: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()  # type: ignore[operator]


def test_the_stream_diagram_names_every_box_and_runs_at_any_depth() -> None:
    figure = pictures.stream_diagram([["head 0.0", "head 0.1"], "layer 1"], path=[(0, 1), (1, 0)])
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {"head 0.0", "head 0.1", "layer 1", "embedding", "unembedding"} <= texts
    pictures.stream_diagram([], path=[])._repr_mimebundle_()
