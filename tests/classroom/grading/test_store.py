"""The store: one transaction a change, one valid result a submission, nothing half written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from books import NOTEBOOK
from sqlalchemy import event

from grader.classroom.grading.handed_in import HandedIn
from grader.classroom.grading.store import NAME, Store, StoreError


def handed_in(store: Store, learner: str = "ann", data: bytes = b"1", **more: object) -> HandedIn:
    fields = {"assignment": NOTEBOOK, "where": f"{learner}.ipynb", "notebook": store.keep(data)}
    return HandedIn(learner=learner, **{**fields, **more})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as store:
        yield store


def test_what_was_handed_in_comes_back_byte_for_byte(store: Store, tmp_path: Path) -> None:
    one = handed_in(store, data=b"\0\xff" * 1000, notes=("a", "b"), late=True)
    (number,) = store.register([one])
    with Store(tmp_path) as again:
        assert again.submission(number) == one
        assert again.load(one.notebook) == b"\0\xff" * 1000


def test_many_large_files_are_written_before_memory_fills(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.classroom.grading.store._FLUSH", 10)
    digest = store.keep(b"a large file")
    assert store.load(digest) == b"a large file"


def test_the_same_content_is_the_same_submission(store: Store) -> None:
    first = store.register([handed_in(store), handed_in(store, "bob")])
    assert store.register([handed_in(store), handed_in(store, "bob")]) == first


def test_a_result_is_recorded_once(store: Store) -> None:
    (number,) = store.register([handed_in(store)])
    assert store.to_grade([number]) == [number]
    assert store.record(number, {"points": 1}, settled=True)
    assert not store.record(number, {"points": 2}, settled=True)
    assert store.to_grade([number]) == []
    assert [row.outcome for row in store.rows()] == [{"points": 1}]
    assert store.count_results() == 1


def test_the_database_itself_refuses_a_second_valid_result(store: Store, tmp_path: Path) -> None:
    (number,) = store.register([handed_in(store)])
    store.record(number, {}, settled=True)
    with sqlite3.connect(tmp_path / NAME) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(
            "INSERT INTO results (submission, valid, settled, graded_at, outcome) "
            f"VALUES ({number}, 1, 1, '', '')"
        )
    connection.close()


def test_a_failed_graders_result_is_replaced_by_the_next(store: Store) -> None:
    (number,) = store.register([handed_in(store)])
    store.record(number, {"n": 1}, settled=False)
    assert store.to_grade([number]) == [number]
    assert store.record(number, {"n": 2}, settled=True)
    assert [row.outcome for row in store.rows()] == [{"n": 2}]
    assert store.count_results() == 2


def test_a_changed_file_is_another_submission_and_the_older_result_stays(store: Store) -> None:
    (old,) = store.register([handed_in(store, data=b"1")])
    store.record(old, {"n": 1}, settled=True)
    (new,) = store.register([handed_in(store, data=b"2")])
    assert store.to_grade([new]) == [new]
    assert [(row.id, row.outcome) for row in store.rows()] == [(new, None)]
    assert store.register([handed_in(store, data=b"1")]) == [old]
    assert [(row.id, row.outcome) for row in store.rows()] == [(old, {"n": 1})]


def test_grading_again_keeps_the_older_result_too(store: Store) -> None:
    (number,) = store.register([handed_in(store)])
    store.record(number, {"n": 1}, settled=True)
    store.register([handed_in(store)], again=True)
    assert store.to_grade([number]) == [number]
    store.record(number, {"n": 2}, settled=True)
    assert [row.outcome for row in store.rows()] == [{"n": 2}]
    assert store.count_results() == 2


def test_what_could_not_be_read_gives_way_to_what_can(store: Store) -> None:
    broken = handed_in(store, notebook="", assignment="hw", where="ann/hw.ipynb", trouble="no")
    store.register([broken])
    whole = handed_in(store, where="ann/hw.ipynb")
    other = handed_in(store, where="ann/hw.ipynb", assignment="01-zero-layer")
    store.register([whole])
    store.register([other])
    assert store.names() == [("ann", NOTEBOOK), ("ann", "01-zero-layer")]


def test_a_registration_that_fails_leaves_nothing(store: Store) -> None:
    def broken() -> Iterator[HandedIn]:
        yield handed_in(store)
        raise ValueError("in the middle")

    with pytest.raises(ValueError, match="in the middle"):
        store.register(broken())
    assert list(store.rows()) == []


def test_a_full_disk_is_said_and_nothing_is_half_written(store: Store) -> None:
    ids = store.register([handed_in(store), handed_in(store, "bob")])
    store.record(ids[0], {"n": 1}, settled=True)
    with store._engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

    def no_more_room(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def room(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")

    event.listen(store._engine, "begin", no_more_room)  # SQLite then answers as on a full disk
    with pytest.raises(StoreError, match="make room on the disk"):
        store.record(ids[1], {"text": "x" * 10**6}, settled=True)
    event.remove(store._engine, "begin", no_more_room)
    event.listen(store._engine, "begin", room)
    assert store.to_grade(ids) == [ids[1]]
    assert store.record(ids[1], {"text": "x" * 10**6}, settled=True)


def test_what_is_no_store_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match="Put it aside"), Store(tmp_path):
        pass


def test_another_format_is_refused(tmp_path: Path) -> None:
    with Store(tmp_path):
        pass
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute("UPDATE about SET value = '99'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="format 99"), Store(tmp_path):
        pass


def test_the_journal_is_the_one_that_survives_a_kill(store: Store) -> None:
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
