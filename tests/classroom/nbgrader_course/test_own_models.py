"""Each learner's own mystery models in a class: from the secret, the same each time, without the truth."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from safetensors import safe_open

from grader.classroom.grading.seeds import class_secret
from grader.classroom.nbgrader_course import folder as folders
from grader.classroom.nbgrader_course import own_models
from grader.cli import cli
from grader.exercises.mystery_models import own
from grader.lab import class_settings, mystery
from grader.transformer import Transformer

NOTEBOOK = "08-mystery-models"


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A class whose teacher handed out the models of ana; a place that learners read."""
    root = tmp_path_factory.mktemp("own")
    folder = folders.init(root / "c1")
    made = own_models.hand_out(folder, ["ana"], root / "exchange")
    return SimpleNamespace(folder=folder, made=made[0], home=folder.root / "source" / NOTEBOOK)


def same(one: list[Transformer], other: list[Transformer]) -> bool:
    return len(one) == len(other) and all(
        mine.weights().keys() == yours.weights().keys()
        and all(torch.equal(w, yours.weights()[name]) for name, w in mine.weights().items())
        for mine, yours in zip(one, other, strict=True)
    )


def test_a_learner_opens_the_models_that_the_teacher_draws_again(
    handed: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handed.home)
    monkeypatch.setattr(mystery, "_name_in_class", lambda: "ana")
    mine = mystery.mine()
    assert [model.n_layers for model in mine] == [1, 2, 3]
    assert same(mine, [drawn.model for drawn in own_models.drawn(handed.folder, "ana")])
    assert same(mystery.mine("ana"), mine)


def test_the_judge_asks_about_these_models(handed: SimpleNamespace) -> None:
    seed = class_secret(handed.folder.secret, make=False).own_models("ana")
    asked = [one.model for one in own.own_models(seed)]
    assert same([Transformer.load(path) for path in sorted(handed.made.iterdir())], asked)


def test_two_learners_and_two_classes_have_other_models(
    handed: SimpleNamespace, tmp_path: Path
) -> None:
    seeds = class_secret(handed.folder.secret, make=False)
    other = class_secret(folders.init(tmp_path / "c1").secret, make=False)
    assert len({seeds.own_models("ana"), seeds.own_models("ben"), other.own_models("ana")}) == 3


def test_a_file_holds_weights_and_no_truth_and_no_secret(handed: SimpleNamespace) -> None:
    secret = handed.folder.secret.read_bytes().strip()
    for path in handed.made.iterdir():
        with safe_open(path, framework="pt") as file:
            assert json.loads(file.metadata()["notes"]) == {}
            assert set(file.keys()) <= set(Transformer.load(path).weights())
        assert secret not in path.read_bytes()
        assert b"ana" not in path.read_bytes()[:2000]
    assert "ana" not in str(handed.made.relative_to(handed.made.parent))


def test_files_given_by_hand_are_found_beside_the_notebook(
    handed: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = class_settings.ClassSettings("c1", own_models=("nowhere",))
    (tmp_path / class_settings.FILE).write_text(class_settings.written(settings), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="Ask your teacher"):
        mystery.mine("ana")
    for path in handed.made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert len(mystery.mine()) == 3


def test_a_stranger_is_told_what_to_do(
    handed: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(handed.home)
    with pytest.raises(FileNotFoundError, match="There are no models for mallory in the class c1"):
        mystery.mine("mallory")


def test_the_teacher_reads_the_truth_by_a_command(handed: SimpleNamespace) -> None:
    command = ["class", "models", "ana", "--truth", "--folder", str(handed.folder.root)]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["ana"]
    assert [one["layers"] for one in told] == [1, 2, 3]
    assert all(one["heads"] for one in told)


def test_an_empty_class_is_told_so(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["class", "models", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not a class's folder" in done.stderr
