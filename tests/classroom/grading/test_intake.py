"""Hand-ins as LMSs and people lay them out: whose each file is, and nothing lost in silence."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest
from books import NOTEBOOK, OTHER, RIGHT, WRONG, book, laid_out, zipped

from grader.classroom.grading.handed_in import HandedIn
from grader.classroom.grading.intake import Intake, NothingHandedIn, take_in

ONE, TWO = book(RIGHT), book(WRONG)
ZERO = "01-zero-layer"


class Shelf(dict[str, bytes]):
    def keep(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self[digest] = data
        return digest


def taken(*paths: Path, assignment: str = "") -> tuple[Intake, Shelf]:
    shelf = Shelf()
    return take_in(paths, shelf.keep, assignment), shelf


def who(intake: Intake) -> list[tuple[str, str]]:
    return [(one.learner, one.assignment) for one in intake.submissions]


def export(tmp_path: Path, members: dict[str, bytes], name: str = "class.zip") -> Path:
    path = tmp_path / name
    path.write_bytes(zipped(members))
    return path


def only(intake: Intake) -> HandedIn:
    (one,) = intake.submissions
    return one


def test_nbgraders_course_folder_counts_only_what_was_submitted(tmp_path: Path) -> None:
    file = f"{NOTEBOOK}/{NOTEBOOK}.ipynb"
    laid_out(
        tmp_path,
        {
            f"source/{file}": ONE, f"release/{file}": ONE, f"autograded/ann/{file}": ONE,
            f"submitted/ann/{file}": ONE, f"submitted/ann/{NOTEBOOK}/timestamp.txt": b"2026",
            f"submitted/ann/{NOTEBOOK}/data/x.txt": b"x", f"submitted/123 [abc]/{file}": TWO,
            "submitted/dom\\bob/week 3/hw.ipynb": OTHER,
        },
    )  # fmt: skip
    for given in (tmp_path, tmp_path / "submitted"):
        intake, shelf = taken(given)
        assert who(intake) == [("123 [abc]", NOTEBOOK), ("ann", NOTEBOOK), ("dom\\bob", ZERO)]
        ann = intake.submissions[1]
        assert {name: shelf[digest] for name, digest in ann.companions.items()} == {
            "data/x.txt": b"x"
        }
        assert intake.remarks == ()
    assert who(taken(tmp_path / "submitted/ann")[0]) == [("ann", NOTEBOOK)]
    assert who(taken(tmp_path / f"submitted/ann/{file}")[0]) == [("ann", NOTEBOOK)]
    assert who(taken(tmp_path, assignment="week 3")[0]) == [("dom\\bob", ZERO)]
    assert who(taken(tmp_path, assignment=ZERO)[0]) == [("dom\\bob", ZERO)]
    assert len(taken(tmp_path, assignment=NOTEBOOK)[0].submissions) == 2


def test_a_notebook_beside_submitted_is_left_out_and_said_so(tmp_path: Path) -> None:
    laid_out(
        tmp_path,
        {f"submitted/ann/{NOTEBOOK}/x.ipynb": ONE, f"source/{NOTEBOOK}/x.ipynb": ONE, "bob.ipynb": TWO},
    )  # fmt: skip
    intake, _ = taken(tmp_path)
    assert who(intake) == [("ann", NOTEBOOK)]
    (remark,) = intake.remarks
    assert "bob.ipynb" in remark
    assert "source" not in remark
    both, _ = taken(tmp_path / "submitted", tmp_path / "bob.ipynb")
    assert [learner for learner, _ in who(both)] == ["ann", "bob"]
    assert not both.remarks


def test_moodles_zip(tmp_path: Path) -> None:
    members = {
        "Jane Doe_12345_assignsubmission_file_/hw.ipynb": ONE,
        "Jane Doe_67890_assignsubmission_file_/hw.ipynb": TWO,
        "Jürgen Groß_1_assignsubmission_file/my.zip": zipped({"hw/x.ipynb": ONE, "hw/d.csv": b"1"}),
        "Ana_2_assignsubmission_onlinetext_/onlinetext.html": b"<p>hello",
        "O'Brien, P_3_assignsubmission_file_hw.ipynb": TWO,
    }
    intake, _ = taken(export(tmp_path, members))
    assert who(intake) == [
        ("Ana_2", "no notebook"), ("Jane Doe_12345", NOTEBOOK), ("Jane Doe_67890", NOTEBOOK),
        ("Jürgen Groß_1", NOTEBOOK), ("O'Brien, P_3", NOTEBOOK),
    ]  # fmt: skip
    assert intake.submissions[0].trouble == (
        "No notebook (.ipynb) was handed in, only onlinetext.html."
    )
    assert set(intake.submissions[3].companions) == {"d.csv"}
    wanted, _ = taken(export(tmp_path, members), assignment=NOTEBOOK)
    assert {one.assignment for one in wanted.submissions} == {NOTEBOOK}


def test_canvas_zip_with_late_and_repeated_uploads(tmp_path: Path) -> None:
    members = {
        "doejane_12345_900_hw-1.ipynb": TWO,
        "doejane_12345_800_hw.ipynb": ONE,
        "doejane_12345_901_notes.txt": b"n",
        "roebob_LATE_77_650_hw.ipynb": ONE,
        "kimlee_78_651_hw.zip": zipped({"a/hw.ipynb": ONE}),
    }
    intake, shelf = taken(export(tmp_path, members))
    assert who(intake) == [
        ("doejane_12345", NOTEBOOK), ("kimlee_78", NOTEBOOK), ("roebob_77", NOTEBOOK),
    ]  # fmt: skip
    jane, _, bob = intake.submissions
    assert shelf[jane.notebook] == TWO
    assert set(jane.companions) == {"notes.txt"}
    assert "2 versions of 00-residual-stream were handed in; the latest counts" in jane.notes[0]
    assert (jane.late, bob.late) == (False, True)
    assert any("doejane_12345: 2 versions" in remark for remark in intake.versions)
    assert intake.remarks == ()


def test_gradescopes_export_names_people_and_groups(tmp_path: Path) -> None:
    metadata = """
submission_11:
  :submitters:
  - :name: Ann
    :sid: '1'
    :email: ann@example.org
  - :name: Bob
    :email: bob@example.org
  :score: 3.0
submission_12:
  :submitters:
  - :name: Carl
"""
    members = {
        "assignment_5_export/submission_metadata.yml": metadata.encode(),
        "assignment_5_export/submission_11/hw.ipynb": ONE,
        "assignment_5_export/submission_12/hw.ipynb": TWO,
        "assignment_5_export/submission_13/hw.pdf": b"%PDF",
    }
    intake, _ = taken(export(tmp_path, members))
    assert who(intake) == [
        ("ann@example.org", NOTEBOOK), ("bob@example.org", NOTEBOOK), ("Carl", NOTEBOOK),
        ("submission_13", "no notebook"),
    ]  # fmt: skip
    members["assignment_5_export/submission_metadata.yml"] = b"!!python/object:os.system [1"
    assert ("submission_11", NOTEBOOK) in who(taken(export(tmp_path, members))[0])


def test_plain_folders(tmp_path: Path) -> None:
    flat = {"ann.ipynb": ONE, "bob.ipynb": TWO, "README.txt": b"x"}
    by_learner = {"ann/hw.ipynb": ONE, "bob/x/hw.ipynb": TWO, "bob/x/data.txt": b"d"}
    by_notebook = {f"{NOTEBOOK}/ann.ipynb": ONE, f"{ZERO}/ann.ipynb": OTHER}
    named = {f"ann_{NOTEBOOK}.ipynb": ONE, f"{NOTEBOOK}-bob.ipynb": TWO}
    both = [("ann", NOTEBOOK), ("bob", NOTEBOOK)]
    for number, (files, expected) in enumerate(
        [
            (flat, both),
            (by_learner, both),
            (by_notebook, [("ann", NOTEBOOK), ("ann", ZERO)]),
            (named, both),
            ({f"hw1/{name}": data for name, data in flat.items()}, both),
            ({f"ann/{NOTEBOOK}.ipynb": ONE, f"ann/{ZERO}.ipynb": OTHER},
             [("ann", NOTEBOOK), ("ann", ZERO)]),
            ({f"ann/{NOTEBOOK}/{NOTEBOOK}.ipynb": ONE}, [("ann", NOTEBOOK)]),
            ({"ann.zip": zipped({"hw.ipynb": ONE}), "bob.zip": zipped({"d/hw.ipynb": TWO})}, both),
        ]
    ):  # fmt: skip
        folder = laid_out(tmp_path / f"case {number}", files)
        assert who(taken(folder)[0]) == expected, number
        assert who(taken(export(tmp_path, files, f"case-{number}.zip"))[0]) == expected, number


def test_a_single_notebook_and_a_learners_own_folder(tmp_path: Path) -> None:
    laid_out(tmp_path, {"ann/hw.ipynb": ONE, f"bob/{NOTEBOOK}.ipynb": ONE})
    assert who(taken(tmp_path / "ann/hw.ipynb")[0]) == [("hw", NOTEBOOK)]
    assert who(taken(tmp_path / f"bob/{NOTEBOOK}.ipynb")[0]) == [("bob", NOTEBOOK)]
    assert who(taken(tmp_path / "bob")[0]) == [("bob", NOTEBOOK)]
    laid_out(tmp_path, {f"eve/{NOTEBOOK} (1).ipynb": TWO, f"eve/{NOTEBOOK}.ipynb": ONE})
    assert who(taken(tmp_path / "eve")[0]) == [("eve", NOTEBOOK)]


def test_of_versions_the_latest_counts(tmp_path: Path) -> None:
    laid_out(tmp_path, {"ann/a.ipynb": ONE, "ann/b.ipynb": TWO, "bob/a.ipynb": ONE})
    os.utime(tmp_path / "ann/a.ipynb", (2e9, 2e9))
    os.utime(tmp_path / "ann/b.ipynb", (1e9, 1e9))
    intake, shelf = taken(tmp_path)
    assert shelf[intake.submissions[0].notebook] == ONE
    assert "a.ipynb" in intake.submissions[0].notes[0]


def test_namesakes_are_both_kept_and_told(tmp_path: Path) -> None:
    laid_out(tmp_path, {"a/ann.ipynb": ONE, "b/ann.ipynb": TWO, "b/ann (2).ipynb": ONE})
    intake, shelf = taken(tmp_path / "a", tmp_path / "b")
    assert who(intake) == [("ann", NOTEBOOK), ("ann (2)", NOTEBOOK), ("ann (3)", NOTEBOOK)]
    assert [shelf[one.notebook] for one in intake.submissions] == [ONE, ONE, TWO]
    assert "are called ann" in intake.remarks[0]
    with pytest.warns(UserWarning, match="Duplicate name"):
        (tmp_path / "twice.zip").write_bytes(zipped([("ann.ipynb", ONE), ("ann.ipynb", TWO)]))
    assert who(taken(tmp_path / "twice.zip")[0]) == [("ann", NOTEBOOK), ("ann (2)", NOTEBOOK)]


def test_one_file_given_twice_is_one_hand_in(tmp_path: Path) -> None:
    laid_out(tmp_path, {"ann.ipynb": ONE, "copy/ann.ipynb": ONE})
    intake, _ = taken(tmp_path / "ann.ipynb", tmp_path / "ann.ipynb", tmp_path / "copy")
    assert who(intake) == [("ann", NOTEBOOK)]
    assert intake.remarks == ()


def test_the_wrong_notebook_gets_a_sentence(tmp_path: Path) -> None:
    laid_out(tmp_path, {"ann.ipynb": ONE, "bob.ipynb": OTHER})
    intake, _ = taken(tmp_path, assignment=NOTEBOOK)
    assert who(intake) == [("ann", NOTEBOOK), ("bob", NOTEBOOK)]
    assert intake.submissions[1].trouble == (
        "bob.ipynb is 01-zero-layer, and 00-residual-stream was to be handed in."
    )
    laid_out(tmp_path / "sub/submitted", {f"eve/{NOTEBOOK}/x.ipynb": OTHER})
    assert "was to be handed in" in only(taken(tmp_path / "sub")[0]).trouble


def test_an_unreadable_file_beside_a_good_one_is_only_remarked(tmp_path: Path) -> None:
    laid_out(tmp_path, {"ann/a.ipynb": b"{", "ann/b.ipynb": ONE, "bob/a.ipynb": b"{"})
    intake, _ = taken(tmp_path)
    assert [one.trouble[:7] for one in intake.submissions] == ["", "a.ipynb"]
    assert any("ann: a.ipynb is not a notebook" in remark for remark in intake.remarks)


@pytest.mark.parametrize("name", ["hw.ipynb.txt", "hw.ipynb.json", "hw.json", "hw", "hw.IPYNB"])
def test_a_notebook_by_another_name_is_found(tmp_path: Path, name: str) -> None:
    laid_out(tmp_path, {f"ann/{name}": ONE, "bob/hw.ipynb": TWO})
    intake, _ = taken(tmp_path)
    assert who(intake) == [("ann", NOTEBOOK), ("bob", NOTEBOOK)]


def test_what_is_too_large_or_too_much_is_left_out_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.classroom.grading.intake.LARGEST_COMPANIONS", 10)
    laid_out(tmp_path, {"ann/a.ipynb": ONE, "ann/big.bin": b"x" * 11, "ann/small.txt": b"x"})
    laid_out(tmp_path, {"bob/a.ipynb": TWO})
    ann = taken(tmp_path)[0].submissions[0]
    assert set(ann.companions) == {"small.txt"}
    assert "big.bin" in ann.notes[0]


def test_companions_that_could_not_lie_together_are_left_out(tmp_path: Path) -> None:
    members = {
        "Ann_1_assignsubmission_file_/hw.ipynb": ONE,
        "Ann_1_assignsubmission_file_/a": b"a file",
        "Ann_1_assignsubmission_file_/a/b": b"below the file",
        f"Ann_1_assignsubmission_file_/{'x' * 201}": b"too long a name",
    }
    one = only(taken(export(tmp_path, members))[0])
    assert set(one.companions) == {"a"}
    assert "Left out" in one.notes[0]


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes")
def test_a_name_that_is_no_text_is_written_out(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff\xfe.ipynb"
    Path(os.fsdecode(path)).write_bytes(ONE)
    one = only(taken(tmp_path)[0])
    assert one.learner == "\\udcff\\udcfe"
    one.learner.encode()


@pytest.mark.parametrize(
    "learner",
    ["ann lee", "dom\\ann", "漢字 さん", "a@b.org", "[x]", "=1+1", "a'b\"c", "-", "<b>", "a\nb"],
)
@pytest.mark.skipif(sys.platform == "win32", reason="names that Windows refuses")
def test_odd_ids_come_through_unchanged(tmp_path: Path, learner: str) -> None:
    laid_out(tmp_path, {f"submitted/{learner}/{NOTEBOOK}/x.ipynb": ONE})
    assert only(taken(tmp_path)[0]).learner == learner


def test_nothing_to_grade_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(NothingHandedIn, match="nothing to grade"):
        taken(tmp_path)
    laid_out(tmp_path, {"ann.ipynb": ONE})
    with pytest.raises(NothingHandedIn, match="01-zero-layer, 02"):
        taken(tmp_path, assignment="zero")
    (tmp_path / "x.zip").write_bytes(b"no")
    with pytest.raises(NothingHandedIn, match="no zip that can be opened"):
        taken(tmp_path / "x.zip")
    with pytest.raises(OSError, match="nowhere"):
        taken(tmp_path / "nowhere")


def test_the_digest_is_of_all_that_is_graded() -> None:
    one = HandedIn("ann", NOTEBOOK, "x", notebook="1", companions={"a": "2"})
    same = HandedIn("bob", NOTEBOOK, "y", notebook="1", companions={"a": "2"}, notes=("n",))
    assert one.digest == same.digest
    assert one.digest != HandedIn("ann", NOTEBOOK, "x", notebook="1").digest
    assert one.digest != HandedIn("ann", NOTEBOOK, "x", notebook="2", companions={"a": "2"}).digest
