"""The frame of the widgets: messages, redraws, what is left where no kernel runs; and their HTML."""

from __future__ import annotations

import base64
import io

import ipywidgets as w
import numpy as np
import page
import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from PIL import Image

from grader import models
from grader.lab import pictures
from grader.lab.widgets.widget_base import (
    CannotShow,
    Explorer,
    Notice,
    head_picker,
    in_words,
    transformer,
)
from grader.lab.widgets.widget_html import (
    Markup,
    heat_table,
    html_table,
    shade,
    thumbnail,
    token_strip,
)
from grader.lab.widgets.widget_text import (
    as_typed,
    given_or_default,
    one_token,
    read_text,
    token_labels,
    typed_text,
)
from grader.transformer import Transformer

SIZES = {"n_layers": 2, "n_heads": 3, "d_model": 8, "d_head": 2, "d_vocab": 11, "n_ctx": 9}


@pytest.fixture(scope="module")
def model() -> Transformer:
    return Transformer.random(**SIZES, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def reader() -> Transformer:
    """A model that reads text."""
    return models.load("one-layer")


class Halves(Explorer):
    """Shows the half of an even number."""

    def __init__(self) -> None:
        self.number, self.out, self.redraws = w.IntText(value=2), w.HTML(), 0
        super().__init__("Halves", controls=[self.number], body=[self.out], about="<half>")
        self.watch(self.redraw, self.number)
        self.redraw()

    def redraw(self) -> None:
        self.redraws += 1
        if self.number.value % 2:
            raise CannotShow(f"{self.number.value} is odd & can't be halved.")
        self.out.value = html_table(["half"], [[self.number.value // 2]])

    def picture(self) -> Figure:
        return pictures.matrix([[self.number.value / 2]])

    def summary(self) -> str:
        return f"half is {self.number.value // 2}"


def test_a_control_redraws_and_what_cannot_be_shown_leaves_the_body_and_says_so() -> None:
    shown = Halves()
    shown.number.value = 8
    assert page.rows(shown.out.value)[-1] == ["4"]
    shown.number.value = 9
    assert page.rows(shown.out.value)[-1] == ["4"]
    assert shown.message == "9 is odd & can't be halved."
    line = shown._line.value
    assert "role='alert'" in line
    assert "9 is odd &amp; can" in line
    shown.number.value = 10
    assert shown.message == ""
    assert "role='status'" in shown._line.value
    assert page.rows(shown.out.value)[-1] == ["5"]


def test_only_what_cannot_be_shown_becomes_words() -> None:
    shown = Halves()
    with pytest.raises(ZeroDivisionError):
        shown.try_to(lambda: 1 / 0)


def test_quiet_changes_do_not_redraw() -> None:
    shown = Halves()
    with shown.quiet():
        shown.number.value = 4
        with shown.quiet():
            shown.number.value = 6
        shown.number.value = 8
    assert shown.redraws == 1
    shown.number.value = 10
    assert shown.redraws == 2


def test_a_picture_and_words_are_left_beside_the_live_widget(
    capfd: pytest.CaptureFixture[str],
) -> None:
    shown = Halves()
    data, metadata = shown._repr_mimebundle_()
    assert data["text/plain"] == repr(shown) == "Halves: half is 1"
    assert metadata["image/png"]["alt"] == "Halves: half is 1"
    with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as image:
        assert image.size[0] >= metadata["image/png"]["width"] > 0
    view = data["application/vnd.jupyter.widget-view+json"]
    assert view["model_id"] == shown.model_id
    assert "text/html" not in data  # readers without a kernel would prefer it to the picture
    assert pyplot.get_fignums() == []
    assert capfd.readouterr() == ("", "")


def test_the_title_and_what_it_is_about_are_escaped() -> None:
    assert "&lt;half&gt;" in Halves().children[0].value


def test_what_cannot_be_made_is_a_notice() -> None:
    @in_words("Thing")
    def thing(model: object) -> Explorer:
        transformer(model, least=2, most=2)
        return Halves()

    assert thing.__name__ == "thing"
    sizes = {**SIZES, "n_layers": 3}
    notice = thing(Transformer.random(**sizes))
    assert isinstance(notice, Notice)
    assert "needs a model of 2 layers; this one has 3" in notice.message
    assert repr(thing("two-layer")).startswith("Thing: This draws a Transformer")
    assert notice._repr_mimebundle_()[0]["image/png"]


def test_a_model_in_training_is_read_without_its_gradients(model: Transformer) -> None:
    learning = model.clone()
    for weight in learning.parameters():
        weight.requires_grad_(True)
    read = transformer(learning)
    assert not any(weight.requires_grad for weight in read.parameters())
    assert read.W_E.data_ptr() == learning.W_E.data_ptr()
    assert all(weight.requires_grad for weight in learning.parameters())


def test_few_heads_are_buttons_and_many_a_list(model: Transformer) -> None:
    few = head_picker(model, layers=[1], chosen=(1, 2))
    assert isinstance(few, w.ToggleButtons)
    assert few.value == (1, 2)
    assert [name for name, _ in few.options] == ["1.0", "1.1", "1.2"]
    many = head_picker(Transformer.random(**{**SIZES, "n_heads": 9}))
    assert isinstance(many, w.Dropdown)
    assert len(many.options) == 18
    with pytest.raises(CannotShow, match=r"no head 2\.0 to choose; there are 0\.0 … 1\.2"):
        head_picker(model, chosen=(2, 0))


def test_ids_are_read_without_a_tokenizer(model: Transformer) -> None:
    read = read_text(model, " 3, 1 4 ")
    assert read.tokens.tolist() == [3, 1, 4]
    assert read.labels == ["3", "1", "4"]
    assert read_text(model, torch.tensor([5, 5])).tokens.tolist() == [5, 5]
    default = given_or_default(model, "")
    assert len(read_text(model, default).tokens) == 2 * (SIZES["n_ctx"] // 2)
    assert as_typed(model, torch.tensor([5, 6])) == "5 6"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There is no text yet"),
        ("3", "One token can only look at itself"),
        ("1 2 3 4 5 6 7 8 9 10", "10 tokens; the model reads at most 9"),
        ("1 11", r"knows the tokens 0 … 10; 11 came"),
        ("1 -1", "-1 came"),
        ("1 one", "“one” is none"),
        (torch.tensor([[1, 2]]), r"integers of shape \(pos,\)"),
        (torch.tensor([1.0, 2.0]), "integers of shape"),
        (["a", "b"], "integers of shape"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_in_words(
    model: Transformer, text: object, words: str
) -> None:
    with pytest.raises(CannotShow, match=words):
        read_text(model, text)  # type: ignore[arg-type]


def test_text_is_read_with_a_tokenizer(reader: Transformer) -> None:
    text = "def get(self):\n    return"
    assert typed_text(as_typed(reader, text)) == text
    read = read_text(reader, text)
    assert read.labels == reader.tokenizer.token_strings(read.tokens)
    assert read.note == ""
    assert as_typed(reader, read.tokens) == "def get(self):⏎    return"
    with pytest.raises(CannotShow, match="reads at most 256"):
        read_text(reader, "x " * 300)


def test_letters_the_tokenizer_lacks_are_named(reader: Transformer) -> None:
    assert read_text(reader, "café 漢 x").note == "The tokenizer doesn't know 漢: read as “?”."


def test_one_token_is_typed_as_it_is_shown(reader: Transformer, model: Transformer) -> None:
    assert token_labels(reader, [one_token(reader, "·self")]) == ["·self"]
    assert one_token(reader, "⏎") == reader.tokenizer.token_id("\n")
    assert one_token(model, " 7 ") == 7
    with pytest.raises(CannotShow, match=r"“self\.x” is 3 tokens, not one: self \| \. \| x"):
        one_token(reader, "self.x")


def test_a_table_escapes_strings_and_keeps_markup() -> None:
    html = html_table(
        ["<a>", "b"], [["<i>", 1.23456], [Markup("<b>x</b>"), 1234]], caption="<c>",
        chosen=1, titles=["one's", "two"],
    )  # fmt: skip
    assert page.rows(html) == [["<a>", "b"], ["<i>", "1.235"], ["x", "1,234"]]
    assert page.titles(html) == ["one's", "two"]
    assert "<b>x</b>" in html
    assert "<i>" not in html
    assert page.count_class(html, "lab-chosen") == 1


def test_a_heat_table_says_each_cell_and_hides_what_is_hidden() -> None:
    values = np.array([[0.25, 0.5], [1.0, 0.0]])
    html = heat_table(
        values, ["r0", "r1"], ["<c0>", "c1"], hidden=[[False, True], [False, False]], digits=2
    )
    assert page.rows(html) == [["", "<c0>", "c1"], ["r0", "0.25", ""], ["r1", "1.00", "0.00"]]
    assert page.titles(html) == ["r0 → <c0>: 0.250", "r1 → <c0>: 1.000", "r1 → c1: 0.000"]
    assert html.count(shade(1.0)) == 1
    bare = heat_table(values, ["a", "b"], ["c", "d"])
    assert page.rows(bare)[1] == ["a", "", ""]
    written = heat_table(values, ["a", "b"], ["c", "d"], write=lambda i, j, v: f"<{i}{j}>")
    assert page.rows(written)[2] == ["b", "<10>", "<11>"]


def test_a_strip_shows_each_token_with_its_number() -> None:
    html = token_strip(["<a>", " b"], ["", shade(1)], ["", "0.5"], titles=["x'", "y"], chosen=1)
    assert page.titles(html) == ["x'", "y"]
    assert "&lt;a&gt;" in html
    assert "·b" in html
    assert html.count("lab-chosen") == 1


def test_a_thumbnail_has_a_pixel_an_entry() -> None:
    pattern = np.tril(np.full((5, 5), 0.2))
    data = base64.b64decode(thumbnail(pattern).split(",")[1])
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (5, 5)
        corner, below = image.getpixel((4, 0)), image.getpixel((0, 4))
    assert corner == (0xDC, 0xDC, 0xD6, 255)  # the future
    assert below != corner
