"""The batch's memory: what was handed in, byte for byte, and every verdict on it, in one SQLite file.

Every change is one transaction, so a process that is killed at any moment leaves a whole store behind.
A unique index allows one valid result a submission: nothing is graded twice. A submission is its
content: the same learner's changed file is another one, and the older one's results stay.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from grader.classroom.grading.handed_in import HandedIn

FORMAT = "1"
NAME = "grades.sqlite"
_FLUSH = 16 * 2**20  # bytes of files that are written in one transaction

_tables = sa.MetaData()
_about = sa.Table(
    "about",
    _tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_files = sa.Table(
    "files",
    _tables,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("packed", sa.LargeBinary, nullable=False),
)
_submissions = sa.Table(
    "submissions",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("learner", sa.Text, nullable=False),
    sa.Column("assignment", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("current", sa.Boolean, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("gradable", sa.Boolean, nullable=False),
    sa.Column("handed_in", sa.Text, nullable=False),  # a HandedIn, as JSON
    sa.UniqueConstraint("learner", "assignment", "digest"),
)
_results = sa.Table(
    "results",
    _tables,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("submission", sa.ForeignKey("submissions.id"), nullable=False),
    sa.Column("valid", sa.Boolean, nullable=False),  # the one that counts
    sa.Column("settled", sa.Boolean, nullable=False),  # False: the grader failed, try again
    sa.Column("graded_at", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),  # an Outcome, as JSON
    sa.Index("one_valid_result", "submission", unique=True, sqlite_where=sa.text("valid")),
)


class StoreError(RuntimeError):
    """The store can't be used, or can't be written any more; the message says why and what helps."""


@dataclass(frozen=True)
class Row:
    """A submission that counts, with the result that counts, if there is one."""

    id: int
    handed_in: HandedIn
    outcome: dict[str, Any] | None
    graded_at: str
    settled: bool


class Store:
    """``with Store(folder) as store:`` — for one process at a time, one thread in it.

    Raises StoreError, here and in every method.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._engine = sa.create_engine(f"sqlite:///{self.path}")
        event.listen(self._engine, "connect", _prepare)
        self._waiting: dict[str, bytes] = {}
        self._waiting_bytes = 0

    def __enter__(self) -> Store:
        with self._changing() as connection:
            _tables.create_all(connection)
            here = connection.scalar(sa.select(_about.c.value).where(_about.c.key == "format"))
            if here is None:
                connection.execute(_about.insert().values(key="format", value=FORMAT))
        if here not in (None, FORMAT):
            self._engine.dispose()
            raise StoreError(
                f"{self.path} was written by another version of the grader (format {here}, this one "
                f"writes {FORMAT}). Grade into another folder (--out), or install that version."
            )
        return self

    def __exit__(self, *failure: object) -> None:
        self._engine.dispose()

    def keep(self, data: bytes) -> str:
        """Put bytes away → their digest. They are there for good after ``register``."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self._waiting:
            self._waiting[digest] = zlib.compress(data, 6)
            self._waiting_bytes += len(self._waiting[digest])
        if self._waiting_bytes > _FLUSH:
            with self._changing() as connection:
                self._flush(connection)
        return digest

    def _flush(self, connection: sa.Connection) -> None:
        rows = [{"digest": digest, "packed": packed} for digest, packed in self._waiting.items()]
        if rows:
            connection.execute(_files.insert().prefix_with("OR IGNORE"), rows)
        self._waiting, self._waiting_bytes = {}, 0

    def load(self, digest: str) -> bytes:
        """The bytes that were kept under a digest."""
        with self._changing() as connection:
            packed = connection.scalar(sa.select(_files.c.packed).where(_files.c.digest == digest))
        if packed is None:
            raise StoreError(f"{self.path} is damaged: a file that was handed in is not in it.")
        return zlib.decompress(packed)

    def register(self, handed_in: Iterable[HandedIn], *, again: bool = False) -> list[int]:
        """Note what was handed in, all or nothing → the ids of the submissions.

        What was handed in before under the same names counts no more, nor does what couldn't be
        read of the same file. again: set their results aside, to be graded anew.
        """
        with self._changing() as connection:
            self._flush(connection)
            ids = [_register(connection, one) for one in handed_in]
            if again:
                for number in ids:
                    _set_aside(connection, number)
        return ids

    def to_grade(self, ids: Iterable[int]) -> list[int]:
        """Those of the submissions that have no result yet, or only one of a failed grader."""
        done = sa.select(_results.c.submission).where(_results.c.valid, _results.c.settled)
        with self._changing() as connection:
            settled = set(connection.scalars(done))
        return [number for number in ids if number not in settled]

    def submission(self, number: int) -> HandedIn:
        with self._changing() as connection:
            told = connection.scalar(
                sa.select(_submissions.c.handed_in).where(_submissions.c.id == number)
            )
        return _handed_in(str(told))

    def record(self, number: int, outcome: dict[str, Any], *, settled: bool) -> bool:
        """Keep a result → False, and nothing changed, where a settled one is there already."""
        with self._changing() as connection:
            valid = _results.c.valid & (_results.c.submission == number)
            if connection.scalar(sa.select(_results.c.settled).where(valid)):
                return False
            _set_aside(connection, number)
            connection.execute(
                _results.insert().values(
                    submission=number,
                    valid=True,
                    settled=settled,
                    graded_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                    outcome=json.dumps(outcome),
                )
            )
        return True

    def result(self, number: int) -> dict[str, Any] | None:
        """The settled result of a submission; None where there is none, or only a failed grader's."""
        counts = _results.c.valid & _results.c.settled & (_results.c.submission == number)
        with self._changing() as connection:
            told = connection.scalar(sa.select(_results.c.outcome).where(counts))
        return None if told is None else dict(json.loads(told))

    def rows(self) -> Iterator[Row]:
        """All submissions that count, by learner and assignment; read as they are asked for."""
        query = (
            sa.select(_submissions, _results)
            .join(_results, (_results.c.submission == _submissions.c.id) & _results.c.valid, isouter=True)
            .where(_submissions.c.current)
            .order_by(_submissions.c.learner, _submissions.c.assignment)
        )  # fmt: skip
        with self._changing() as connection:
            for row in connection.execution_options(yield_per=50).execute(query):
                told = row._mapping
                outcome = told[_results.c.outcome]
                yield Row(
                    id=told[_submissions.c.id],
                    handed_in=_handed_in(told[_submissions.c.handed_in]),
                    outcome=None if outcome is None else json.loads(outcome),
                    graded_at=told[_results.c.graded_at] or "",
                    settled=bool(told[_results.c.settled]),
                )

    def names(self) -> list[tuple[str, str]]:
        """(learner, assignment) of all submissions that count."""
        query = sa.select(_submissions.c.learner, _submissions.c.assignment)
        with self._changing() as connection:
            return [
                (row[0], row[1]) for row in connection.execute(query.where(_submissions.c.current))
            ]

    def count_results(self) -> int:
        """How many results were ever recorded, those set aside included."""
        with self._changing() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(_results)) or 0

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """One transaction, undone as a whole where anything fails."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.DatabaseError as error:
            raise StoreError(_explained(self.path, str(error.orig))) from None


def _prepare(connection: Any, record: object) -> None:
    cursor = connection.cursor()
    mode = cursor.execute("PRAGMA journal_mode=WAL").fetchone()
    cursor.execute("PRAGMA synchronous=FULL")  # a power cut loses nothing that was recorded
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()
    if mode != ("wal",):
        raise StoreError(
            "SQLite can't keep its journal there. Grade into a folder on a local disk."
        )


def _register(connection: sa.Connection, one: HandedIn) -> int:
    table = _submissions
    same = (table.c.learner == one.learner) & (table.c.assignment == one.assignment)
    # What couldn't be read then, and went by another name for it, may be readable now.
    mended = (table.c.learner == one.learner) & (table.c.source == one.where) & ~table.c.gradable
    connection.execute(table.update().where(same | mended).values(current=False))
    told = {
        "current": True, "source": one.where, "gradable": not one.trouble,
        "handed_in": _as_json(one),
    }  # fmt: skip
    known = connection.scalar(sa.select(table.c.id).where(same & (table.c.digest == one.digest)))
    if known is not None:
        connection.execute(table.update().where(table.c.id == known).values(**told))
        return int(known)
    added = connection.execute(
        table.insert().values(
            learner=one.learner, assignment=one.assignment, digest=one.digest, **told
        )
    )
    assert added.inserted_primary_key is not None
    return int(added.inserted_primary_key[0])


def _set_aside(connection: sa.Connection, number: int) -> None:
    valid = _results.c.valid & (_results.c.submission == number)
    connection.execute(_results.update().where(valid).values(valid=False))


def _as_json(one: HandedIn) -> str:
    return json.dumps({**vars(one), "notes": list(one.notes)})


def _handed_in(told: str) -> HandedIn:
    fields = json.loads(told)
    return HandedIn(**{**fields, "notes": tuple(fields["notes"])})


def _explained(path: Path, why: str) -> str:
    if "full" in why or "disk I/O" in why:
        return (
            f"{path} can't be written: {why}. Nothing is half written; make room on the disk and run "
            "the same command again, and it goes on where it stopped."
        )
    if "locked" in why:
        return (
            f"{path} is in use ({why}). Another program holds it, or it lies on a network disk: grade "
            "into a folder on a local one (--out)."
        )
    if "not a database" in why or "malformed" in why:
        return f"{path} is damaged ({why}). Put it aside, or grade into another folder (--out)."
    return f"{path} can't be used: {why}."
