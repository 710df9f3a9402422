"""`grader class init`: what a class's folder holds, what it never does, who may read the secret."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from traitlets.config import PyFileConfigLoader

from grader import exercises
from grader.classroom.nbgrader_course import folder as folders
from grader.cli import cli
from grader.lab import class_settings
from grader.lab.class_settings import ClassSettings, SettingsDamaged


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> folders.ClassFolder:
    return folders.init(tmp_path_factory.mktemp("desk") / "circuits 101")


def test_every_notebook_is_an_assignment_with_its_solutions(made: folders.ClassFolder) -> None:
    assert made.notebooks() == list(exercises.NOTEBOOKS)
    for name in made.notebooks():
        notebook = nbformat.read(made.root / f"source/{name}/{name}.ipynb", as_version=4)
        assert any("### BEGIN SOLUTION" in cell.source for cell in notebook.cells)


def test_the_plugin_is_switched_on_in_this_folder_alone(made: folders.ClassFolder) -> None:
    config = PyFileConfigLoader(folders.CONFIG, str(made.root)).load_config()
    assert config.CourseDirectory.course_id == "circuits-101"
    assert config.CourseDirectory.root == str(made.root)
    steps = config.Autograde.autograde_preprocessors
    assert not any(step.endswith(".Execute") or "SaveAutoGrades" in step for step in steps)
    here = Path(folders.__file__).resolve().parents[3]
    assert not list(here.glob("etc/jupyter/**/nbgrader_config*"))


def test_what_the_configuration_names_is_there(made: folders.ClassFolder) -> None:
    from traitlets.utils.importstring import import_item

    config = PyFileConfigLoader(folders.CONFIG, str(made.root)).load_config().Autograde
    for step in (*config.sanitize_preprocessors, *config.autograde_preprocessors):
        assert isinstance(import_item(step), type)


def test_nbgraders_own_steps_are_all_kept_in_order(made: folders.ClassFolder) -> None:
    from nbgrader.converters import Autograde

    config = PyFileConfigLoader(folders.CONFIG, str(made.root)).load_config().Autograde
    stands_for = {"JudgeNotebook": "Execute", "SaveGrades": "SaveAutoGrades"}
    for name, trait in (
        ("sanitize_preprocessors", Autograde.sanitize_preprocessors),
        ("autograde_preprocessors", Autograde.autograde_preprocessors),
    ):
        ours = [step.rpartition(".")[2] for step in config[name]]
        theirs = [step.__name__ for step in trait.default_args[0]]
        assert [stands_for.get(step, step) for step in ours if step != "MendNotebook"] == theirs


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_only_the_teacher_reads_the_secret(made: folders.ClassFolder) -> None:
    assert stat.S_IMODE(os.stat(made.secret).st_mode) == 0o600


def test_the_secret_is_in_no_other_file(made: folders.ClassFolder) -> None:
    secret = made.secret.read_bytes().strip()
    others = [p for p in made.root.rglob("*") if p.is_file() and p != made.secret]
    assert len(others) == 2 + 2 * len(exercises.NOTEBOOKS)
    assert [path for path in others if secret in path.read_bytes()] == []


def test_two_classes_have_two_secrets(made: folders.ClassFolder, tmp_path: Path) -> None:
    other = folders.init(tmp_path / "other")
    assert len(other.secret.read_text()) == 65
    assert other.secret.read_text() != made.secret.read_text()


@pytest.mark.parametrize(
    "there", [folders.CONFIG, folders.SECRET, "source/03-one-layer/03-one-layer.ipynb"]
)
def test_nothing_that_exists_is_written_over(there: str, tmp_path: Path) -> None:
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).write_text("the teacher's own", encoding="utf-8")
    done = CliRunner().invoke(cli, ["class", "init", str(tmp_path)])
    assert done.exit_code == 2
    assert there in done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / there]
    assert (tmp_path / there).read_text(encoding="utf-8") == "the teacher's own"


def test_a_teachers_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "syllabus.md").write_text("week 1", encoding="utf-8")
    folders.init(tmp_path, "mine")
    assert (tmp_path / "syllabus.md").read_text(encoding="utf-8") == "week 1"


def test_a_name_that_nbgrader_cant_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(folders.FolderUnusable, match="letters, digits"):
        folders.init(tmp_path, "circuits 101/b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_class_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(folders.FolderUnusable, match="grader class init"):
        folders.opened(tmp_path)


def test_settings_are_released_with_every_assignment(tmp_path: Path) -> None:
    made = folders.init(tmp_path, "c", ClassSettings(hints=False, solutions=False))
    for name in made.notebooks():
        told = class_settings.read(made.root / "source" / name / class_settings.FILE)
        assert told == ClassSettings("c", False, False, ("own-models",))
    changed = folders.change_settings(made, {"hints": True})
    assert changed == ClassSettings("c", True, False, ("own-models",))
    assert (
        class_settings.read(made.root / "source/08-mystery-models" / class_settings.FILE) == changed
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "hints": "no"}'])
def test_damaged_settings_are_a_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / class_settings.FILE).write_text(text, encoding="utf-8")
    with pytest.raises(SettingsDamaged, match="Fetch the assignment again"):
        class_settings.read(tmp_path / class_settings.FILE)


def test_without_settings_everything_opens(tmp_path: Path) -> None:
    assert class_settings.read(tmp_path / class_settings.FILE) == ClassSettings()


@pytest.mark.parametrize("kind", ["formgrade", "feedback"])
def test_nbgraders_pages_ask_no_other_machine_for_mathjax(
    kind: str, made: folders.ClassFolder
) -> None:
    from nbconvert.exporters import HTMLExporter

    config = PyFileConfigLoader(folders.CONFIG, str(made.root)).load_config()
    exporter = HTMLExporter(config=config, template_name=kind)
    macro = exporter.environment.get_template("mathjax.html.j2").module.mathjax()
    assert "https:" not in str(macro)
