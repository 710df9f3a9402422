"""What people and programs get to read: right, whole, and safe whatever learners wrote."""

from __future__ import annotations

import csv
import html.parser
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from books import NOTEBOOK, verdict

from grader.classroom.grading import reports
from grader.classroom.grading.handed_in import HandedIn
from grader.classroom.grading.one import Outcome
from grader.classroom.grading.store import Store
from grader.judge.verdict import Status
from grader.pupil.runs import CellRun

EVIL = "=cmd|' /C calc'!A0 <script>alert(1)</script> ]]> &amp; \x1b[31m\x00\ufffe\u202e\ud800"


def evil_outcome() -> Outcome:
    return Outcome(
        NOTEBOOK,
        EVIL,
        (
            verdict("residual_stream", Status.PASS, 2.0, message="Right."),
            verdict("virtual_weights", Status.CRASHED, message=EVIL, traceback=EVIL, printed=EVIL),
            verdict("component_logits", Status.PARTIAL, 1.0, where=EVIL, notes=(EVIL,)),
            verdict("read_write_overlap", Status.NOT_ATTEMPTED),
        ),
        cell_errors=(CellRun(3, error=EVIL, traceback=EVIL),),
        notes=(EVIL,),
    )


def written(tmp_path: Path, *pairs: tuple[HandedIn, Outcome | None]) -> Path:
    with Store(tmp_path) as store:
        for number, (_, outcome) in zip(
            store.register([one for one, _ in pairs]), pairs, strict=True
        ):
            if outcome is not None:
                store.record(number, outcome.as_json(), settled=outcome.settled)
        reports.write(store, tmp_path)
    return tmp_path


def table(out: Path) -> list[dict[str, str]]:
    with open(out / "grades.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Tags(html.parser.HTMLParser):
    """The tags and attributes of a page, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    learner = EVIL.encode("utf-8", "replace").decode().replace("\0", "")
    return written(
        tmp_path,
        (HandedIn(learner, NOTEBOOK, "x/=evil.ipynb", notes=("a <b>note</b>",)), evil_outcome()),
    )


def test_learners_text_is_no_formula_and_moves_no_cursor(out: Path) -> None:
    (line,) = table(out)
    assert line["learner"].startswith("'=cmd")
    raw = (out / "grades.csv").read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", raw)
    assert (line["points"], line["max"], line["percent"]) == ("3", "8", "37.5")
    assert (line["virtual_weights"], line["needs_review"]) == ("CRASHED", "")


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\n=1", "＝1+1", "|calc", "%1"]
)
def test_a_cell_of_a_table_is_never_computed(text: str) -> None:
    shown = reports.in_table(text)
    assert shown.startswith("'")
    assert "\n" not in shown
    assert "\t" not in shown


def test_an_ordinary_cell_stays_as_it_is() -> None:
    for text in ("Jane Doe", "jane@example.org", "3.5", "", "O'Brien", "漢字"):
        assert reports.in_table(text) == text


def test_the_page_runs_nothing_and_needs_nothing(out: Path) -> None:
    (path,) = out.glob("feedback/*/*/feedback.html")
    page = path.read_text(encoding="utf-8")
    tags = Tags(page)
    assert not {"script", "img", "link", "iframe", "object", "a", "b.note"} & tags.seen
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert not {"src", "href"} & tags.attributes
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page
    assert "http" not in page.replace("http-equiv", "")
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "a &lt;b&gt;note&lt;/b&gt;" in page


def test_the_page_shows_verdicts_hints_and_the_learners_own_traceback(out: Path) -> None:
    from grader import exercises

    (path,) = out.glob("feedback/*/*/feedback.html")
    page = path.read_text(encoding="utf-8")
    assert "3 of 8 points" in page
    assert "✔ PASS" in page
    assert "✘ CRASHED" in page
    failed, passed = exercises.find("virtual_weights"), exercises.find("residual_stream")
    assert failed is not None
    assert passed is not None
    assert all(hint.split(".")[0][:20] in page for hint in failed.hints)
    assert not any(hint[:30] in page for hint in passed.hints)
    assert "Code cell 3" in page


def test_junit_is_xml_and_counts(out: Path) -> None:
    suites = ElementTree.parse(out / "junit.xml").getroot()
    (suite,) = suites
    counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "4", "failures": "2", "errors": "0", "skipped": "1"}
    failure = suite.find("testcase[@name='virtual_weights']/failure")
    assert failure is not None
    assert failure.get("type") == "CRASHED"
    assert "<script>" in str(failure.text)


def test_results_are_gradescopes(out: Path) -> None:
    (path,) = out.glob("feedback/*/*/results.json")
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["score"] == 3.0
    assert [(t["score"], t["max_score"], t["status"]) for t in told["tests"]] == [
        (2.0, 2.0, "passed"), (0.0, 2.0, "failed"), (1.0, 2.0, "failed"), (0.0, 2.0, "failed"),
    ]  # fmt: skip
    assert {test["visibility"] for test in told["tests"]} == {"visible"}
    allowed = {
        "score", "max_score", "status", "name", "number", "output", "output_format", "tags",
        "visibility", "extra_data",
    }  # fmt: skip
    assert all(set(test) <= allowed for test in told["tests"])


def test_a_failed_grader_is_nobodys_zero(tmp_path: Path) -> None:
    failed = Outcome(
        NOTEBOOK,
        "2026.1",
        (verdict("residual_stream", Status.PASS, 2.0), verdict("virtual_weights", Status.GRADER_ERROR)),
    )  # fmt: skip
    broken = Outcome(NOTEBOOK, "", trouble="The grader itself failed: x", failed=True)
    out = written(
        tmp_path,
        (HandedIn("ann", NOTEBOOK, "a.ipynb", notebook="1"), failed),
        (HandedIn("bob", NOTEBOOK, "b.ipynb", notebook="2"), broken),
        (HandedIn("eve", "hw", "e.ipynb", trouble="no notebook"), Outcome("hw", "", trouble="It is empty.")),
        (HandedIn("ned", NOTEBOOK, "n.ipynb", notebook="3", late=True), None),
    )  # fmt: skip
    lines = {line["learner"]: line for line in table(out)}
    for line in lines.values():
        assert (line["points"], line["percent"], line["needs_review"]) == ("", "", "yes")
    assert lines["ann"]["virtual_weights"] == "GRADER_ERROR"
    assert lines["ann"]["max"] == "4"
    assert "It is empty." in lines["eve"]["remark"]
    assert lines["ned"]["remark"] == "late; not graded yet"
    told = json.loads((out / f"feedback/ann/{NOTEBOOK}/results.json").read_text(encoding="utf-8"))
    assert "score" not in told
    assert "score" not in told["tests"][1]
    assert told["tests"][0]["score"] == 2.0
    assert told["extra_data"]["needs_review"]
    suites = ElementTree.parse(out / "junit.xml").getroot()
    assert [suite.get("errors") for suite in suites] == ["1", "1", "1", "1"]
    page = (out / f"feedback/ann/{NOTEBOOK}/feedback.html").read_text(encoding="utf-8")
    assert "costs you nothing" in page


def test_learners_whose_names_look_alike_get_folders_of_their_own(tmp_path: Path) -> None:
    names = ["ann", "Ann", "a/n", "a\\n", "a:n", "..", "x" * 300]
    outcome = Outcome(NOTEBOOK, "", (verdict("virtual_weights", Status.PASS, 2.0),))
    pairs = [
        (HandedIn(n, NOTEBOOK, "a.ipynb", notebook=str(i)), outcome) for i, n in enumerate(names)
    ]
    out = written(tmp_path, *pairs)
    assert len(list((out / "feedback").iterdir())) == len(names)
    assert len(list(out.glob("feedback/*/*/feedback.html"))) == len(names)
    assert [path.name for path in tmp_path.parent.glob("*.html")] == []


def test_a_report_is_replaced_whole_or_not_at_all(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (out / "grades.csv").read_bytes()

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reports, "_for_learner", fails)
    with (
        Store(out) as store,
        pytest.raises(reports.ReportsNotWritten, match="No space left on device"),
    ):
        reports.write(store, out)
    assert (out / "grades.csv").read_bytes() == before
    assert list(out.glob(".*.tmp")) == []


def test_a_column_for_every_exercise_of_the_notebooks_that_came(out: Path) -> None:
    assert list(table(out)[0]) == [
        *reports.FIXED, "residual_stream", "component_logits", "virtual_weights",
        "rotate_residual_stream", "read_write_overlap",
    ]  # fmt: skip
