"""The recipes: batches, the loop and its resuming, the optimiser, the corpus builder."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from grader.models import bigram_counts
from grader.models.recipes import catalogue, corpus, training
from grader.models.recipes.data import load_corpus, repeat_rows, step_generator, text_rows
from grader.models.recipes.network import Network, sinusoids
from grader.models.recipes.optimiser import orthogonalised
from grader.models.recipes.training import Recipe, Run, Stage, run
from grader.models.recipes.zero_layer import count_bigrams, entropy_of, fit_bigrams, table_loss

TINY = Recipe(
    "tiny",
    "for tests",
    n_layers=2,
    n_heads=2,
    d_model=16,
    d_head=8,
    n_ctx=128,
    stages=(
        Stage(4, 2, 24, muon_lr=0.02, adam_lr=0.01, repeats=1.0, periods=(4, 9), warm_up=2),
        Stage(4, 2, 32, muon_lr=0.02, adam_lr=0.01, repeats=0.5, periods=(4, 9), warm_up=2),
    ),
)


def tiny_corpus() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    names = ("code", "docs", "jargon", "web")
    return {n: torch.randint(2048, (500,), generator=generator, dtype=torch.int32) for n in names}


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log without measurements, which take longer than the tiny model's training."""
    monkeypatch.setattr(training, "watch", lambda model: {})


@pytest.mark.usefixtures("unwatched")
def test_a_killed_run_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole = run(TINY, tmp_path / "whole", tiny_corpus(), every=3)

    class Killed(Exception):
        pass

    def kill(step: int, steps: int, loss: float) -> None:
        if step == 5:
            raise Killed

    with pytest.raises(Killed):
        run(TINY, tmp_path / "cut", tiny_corpus(), every=3, progress=kill)
    seen: list[int] = []
    resumed = run(
        TINY, tmp_path / "cut", tiny_corpus(), every=3, progress=lambda s, _n, _l: seen.append(s)
    )
    assert seen == [4, 5, 6, 7, 8], "the last checkpoint was at step 3"
    for name, weight in whole.weights().items():
        assert torch.equal(weight, resumed.weights()[name]), name


@pytest.mark.usefixtures("unwatched")
def test_a_folder_of_another_recipe_is_refused(tmp_path: Path) -> None:
    run(replace(TINY, stages=TINY.stages[:1]), tmp_path, tiny_corpus())
    with pytest.raises(ValueError, match="another recipe"):
        run(TINY, tmp_path, tiny_corpus())


def test_snapshots_and_a_log_come_where_they_are_asked_for(tmp_path: Path) -> None:
    run(TINY, tmp_path, tiny_corpus(), snapshots=(0, 2))
    last = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 8
    assert 0 <= last["prefix_matching_random"][1][1] <= 1
    assert [p.stem for p in sorted((tmp_path / "snapshots").iterdir())] == [
        "000000", "000002", "000008",
    ]  # fmt: skip


def test_batches_depend_on_seed_and_step_alone(tmp_path: Path) -> None:
    one, other = (Run(TINY, tmp_path, tiny_corpus()) for _ in range(2))
    one.step = other.step = 6
    stage = TINY.stage_at(6)[0]
    assert torch.equal(one.rows(stage)[0], other.rows(stage)[0])
    other.step = 7
    assert not torch.equal(one.rows(stage)[0], other.rows(stage)[0])


def test_learning_rate_warms_up_holds_and_falls() -> None:
    stage = Stage(100, 1, 8, muon_lr=1, adam_lr=1, decay_from=0.5, end=0.1, warm_up=10)
    assert stage.scale(0) == pytest.approx(0.1)
    assert stage.scale(30) == 1.0
    assert stage.scale(75) == pytest.approx(0.55)


def test_repeated_rows_repeat_with_their_own_period() -> None:
    rows, known = repeat_rows(64, 20, 60, (5, 12), step_generator(0, 0))
    periods = []
    for row, mine in zip(rows, known, strict=True):
        period = int((~mine).sum()) - 1
        periods.append(period)
        assert torch.equal(row[period:], row[:-period])
        assert len(set(row[:period].tolist())) == period
        assert mine[period + 1 :].all()
    assert len(set(periods)) > 3


def test_text_rows_are_stretches_of_the_corpus() -> None:
    corpus_ids = {"code": torch.arange(0, 300), "docs": torch.arange(1000, 1300)}
    rows = text_rows(corpus_ids, 8, 20, step_generator(0, 0))
    assert ((rows[:, 1:] - rows[:, :-1]) == 1).all()


def test_the_network_is_the_transformer() -> None:
    net = Network(
        n_layers=2, n_heads=3, d_model=12, d_head=5, d_vocab=30, seed=1,
        W_pos=sinusoids(9, 12, amplitude=1.5),
    )  # fmt: skip
    tokens = torch.randint(30, (4, 9), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(tokens), net.to_transformer()(tokens), rtol=1e-4, atol=1e-5)


def test_one_position_on_is_the_same_rotation_everywhere() -> None:
    W_pos = sinusoids(40, 16, amplitude=1.0).double()
    gram = W_pos @ W_pos.T
    torch.testing.assert_close(gram.diagonal(3), gram[0, 3].expand(37), rtol=1e-4, atol=1e-4)


def test_orthogonalised_keeps_singular_vectors_and_evens_values() -> None:
    matrices = torch.randn(3, 20, 6, generator=torch.Generator().manual_seed(0))
    made = orthogonalised(matrices)
    values = torch.linalg.svdvals(made)
    assert bool(((values > 0.5) & (values < 1.3)).all())
    U, _, Vh = torch.linalg.svd(matrices, full_matrices=False)
    core = U.mT @ made @ Vh.mT
    off = core - torch.diag_embed(core.diagonal(dim1=-2, dim2=-1))
    assert float(off.abs().max()) <= 1e-4


def test_a_wide_enough_table_reaches_the_bigram_entropy() -> None:
    text = torch.randint(12, (3000,), generator=torch.Generator().manual_seed(0))
    counts = count_bigrams(text, 12)
    W_E, W_U = fit_bigrams(counts, 12, steps=400)
    assert 0 <= table_loss(W_E, W_U, counts) - entropy_of(counts) <= 0.01


def test_zero_layer_resumes_to_the_same_weights(tmp_path: Path) -> None:
    counts = bigram_counts()[:40, :40] + 1
    whole = fit_bigrams(counts, 6, steps=120)
    file = tmp_path / "state.pt"

    class Killed(Exception):
        pass

    def kill(step: int, steps: int, loss: float) -> None:
        if step == 70:
            raise Killed

    with pytest.raises(Killed):
        fit_bigrams(counts, 6, steps=120, checkpoint=file, progress=kill)
    resumed = fit_bigrams(counts, 6, steps=120, checkpoint=file)
    assert all(torch.equal(a, b) for a, b in zip(whole, resumed, strict=True))


def test_unknown_recipes_and_a_missing_corpus_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one-layer, two-layer"):
        catalogue.train("three-layer", out=tmp_path)
    with pytest.raises(FileNotFoundError, match="Build the corpus first"):
        catalogue.train("one-layer", out=tmp_path)
    with pytest.raises(FileNotFoundError, match="apt-get download"):
        corpus.read_sources(tmp_path)
    with pytest.raises(FileNotFoundError, match="Build the corpus first"):
        load_corpus(tmp_path)


def test_costs_are_known_before_training() -> None:
    for name in catalogue.recipe_names():
        assert catalogue.cost(name)["minutes"] > 0


def debian_package(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": b"odd",
        "data.tar.xz": packed.getvalue(),
    }
    raw = b"!<arch>\n"
    for name, content in members.items():
        raw += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        raw += content + b"\n" * (len(content) % 2)
    return raw


def test_a_debian_package_is_read_without_its_tools(tmp_path: Path) -> None:
    path = tmp_path / "x_1_all.deb"
    path.write_bytes(debian_package({"usr/a.txt": b"one", "usr/b.txt": b"two"}))
    assert dict(corpus.unpack_deb(path)) == {"usr/a.txt": b"one", "usr/b.txt": b"two"}


def test_cleaning_leaves_plain_text() -> None:
    assert corpus.clean("a\tb \r\n“q” é ══════\n=========\n+---+---+\nend\n\n\n\n\n") == (
        'a    b\n"q" e ?\n====\nend\n'
    )
