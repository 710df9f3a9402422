"""The tokenizers and the held-out text."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from grader.models import bigram_counts, sample_text, sample_tokens, tokenizer
from grader.models.text import HERE, KINDS


def test_importing_the_package_needs_no_torch() -> None:
    code = "import grader.models, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_sample_survives_the_round_trip(kind: str) -> None:
    text = sample_text(kind)[:20_000]
    for name in ("standard", "small"):
        assert tokenizer(name).decode(tokenizer(name).encode(text)) == text


def test_sample_is_small_and_the_sum_of_its_kinds() -> None:
    assert (HERE / "sample.safetensors").stat().st_size <= 2_000_000
    parts = torch.cat([sample_tokens(kind) for kind in KINDS])
    assert torch.equal(sample_tokens(), parts)
    described = json.loads((HERE / "corpus.json").read_text())["held_out_tokens"]
    assert described == {kind: len(sample_tokens(kind)) for kind in KINDS}


def test_sample_reads_like_its_kind() -> None:
    assert "def " in sample_text("code")
    assert ".. function::" in sample_text("docs")
    assert "Yahweh" in sample_text("english")


def test_vocabularies_have_their_sizes() -> None:
    assert (tokenizer().d_vocab, tokenizer("small").d_vocab) == (2048, 512)


def test_text_outside_ascii_is_folded() -> None:
    t = tokenizer()
    assert t.decode(t.encode("naïve — “hi”\t☃")) == 'naive -- "hi"    ?'


def test_labels_show_spaces_and_new_lines() -> None:
    t = tokenizer()
    assert t.token_strings([t.token_id(" self")]) == ["·self"]
    assert t.token_strings(t.encode("\n        ")) == ["⏎········"]
    assert len(t.token_strings()) == t.d_vocab


def test_token_id_refuses_what_is_not_one_token() -> None:
    with pytest.raises(ValueError, match="is not one token but"):
        tokenizer().token_id("incomprehensible")


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="standard, small"):
        tokenizer("huge")
    with pytest.raises(ValueError, match="code, docs, english"):
        sample_tokens("poetry")


def test_bigram_counts_are_those_of_the_training_text() -> None:
    counts = bigram_counts()
    sources = json.loads((HERE / "corpus.json").read_text())["sources"]
    pairs = sum(row["training_tokens"] - 1 for row in sources.values())
    assert counts.shape == (2048, 2048)
    assert int(counts.sum()) == pairs
