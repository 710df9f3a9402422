"""What comes back over a connection is hostile: whatever it is, it is an answer or a WireError."""

from __future__ import annotations

import dataclasses
import io
import socket
import struct
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.judge.remote import RemotePupil, _read_ran, _read_reply
from grader.judge.remote_connection import Connection, Piped
from grader.judge.remote_failures import Gone, Interrupted
from grader.judge.sandbox_child import Timed
from grader.pupil.reply import ENDING, Ask, Outcome, Reply, Series
from grader.pupil.runs import CellRun
from grader.pupil.wire import WireError, foreign, receive

ID = "0123456789abcdef"


def fields(value: Any) -> dict[str, Any]:
    """As they come out of a frame, where an outcome is a string like any other."""
    named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {n: str(v) if isinstance(v, Outcome) else v for n, v in named.items()}


REPLY = fields(Reply(Outcome.ANSWERED, 1.5, mutated=(0,), touched_rng=("torch",)))
RAN = fields(CellRun(3, seconds=0.5))

# Values that a frame can carry and that compare, hash or convert in ways of their own.
ODD: list[Any] = [
    None, True, -1, 2**200, float("nan"), float("inf"), 1j, "", "x" * 5, [], ["answered"], (), (None,),
    {}, {1: 2}, set(), np.zeros(3), np.array("answered"), np.float64(1.0), torch.zeros(2),
    torch.tensor(True), torch.empty(2, device="meta"), foreign("generator"),
]  # fmt: skip


def test_a_good_reply_is_read() -> None:
    assert _read_reply({"id": ID, "reply": REPLY}, ID, 1).value == 1.5
    assert _read_ran({"ran": [RAN]}, [3, 4]) == [CellRun(3, seconds=0.5)]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", [name for name in REPLY if name != "value"])
def test_no_field_of_a_reply_takes_what_it_is_not(name: str, odd: Any) -> None:
    """Either it is refused, or it is of the right type all the same."""
    try:
        reply = _read_reply({"id": ID, "reply": {**REPLY, name: odd}}, ID, 1)
    except WireError:
        return
    assert type(getattr(reply, name)) in (type(REPLY[name]), int, Outcome)


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("name", list(RAN))
def test_no_field_of_a_cells_report_takes_what_it_is_not(name: str, odd: Any) -> None:
    try:
        (ran,) = _read_ran({"ran": [{**RAN, name: odd}]}, [3])
    except WireError:
        return
    assert type(getattr(ran, name)) is type(RAN[name])


@pytest.mark.parametrize("told", [[], [RAN, RAN], [{**RAN, "number": 4}], (RAN,), RAN])
def test_cells_are_reported_in_order_and_no_more_than_were_run(told: Any) -> None:
    with pytest.raises(WireError):
        _read_ran({"ran": told}, [3])


@pytest.mark.parametrize("odd", [*ODD, {"reply": REPLY}, {"id": ID}], ids=repr)
def test_what_is_no_reply_at_all_is_refused(odd: Any) -> None:
    for answer in (odd, {"id": odd, "reply": REPLY}, {"id": ID, "reply": odd}, {"ran": odd}):
        with pytest.raises(WireError):
            _read_reply(answer, ID, 1)
    for answer in (odd, {"ran": odd}, {"ran": [odd]}):
        with pytest.raises(WireError):
            _read_ran(answer, [3])


@pytest.mark.parametrize(
    ("name", "value"),
    [("mutated", (1,)), ("mutated", (True,)), ("touched_rng", ("cuda",)), ("seconds", -1.0),
     ("largest_mib", float("nan")), ("outcome", "GRADER_ERROR"), ("outcome", "ANSWERED")],
)  # fmt: skip
def test_claims_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(WireError, match="malformed"):
        _read_reply({"id": ID, "reply": {**REPLY, name: value}}, ID, 1)


def test_long_texts_are_cut() -> None:
    reply = _read_reply({"id": ID, "reply": {**REPLY, "printed": "x" * 100_000}}, ID, 1)
    assert len(reply.printed) == 3_000


@given(st.binary(max_size=200))
def test_bytes_are_a_frame_or_an_error(data: bytes) -> None:
    for stream in (data, struct.pack(">Q", len(data)) + data):
        with pytest.raises(WireError):
            _read_reply(receive(io.BytesIO(stream)), ID, 1)


class Scripted(Connection):
    """A process that breaks off as the script says: a reply's value, or what is raised."""

    def __init__(self, script: list[Any]) -> None:
        self.script, self.killed = script, False
        self.sent: list[int] = []

    def ask(self, question: dict[str, Any], wall: float) -> Any:
        if question["do"] == "run":
            return {
                "ran": [fields(CellRun(number, seconds=0.1)) for number, _ in question["cells"]]
            }
        self.asked = [one["id"] for call in question["calls"] for one in call["asks"]]
        self.sent.append(len(self.asked))
        return self.hear(wall)

    def hear(self, wall: float) -> Any:
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        reply = step if isinstance(step, Reply) else Reply(Outcome.ANSWERED, step)
        return {"id": self.asked.pop(0), "reply": fields(reply)}

    def kill(self) -> None:
        self.killed = True

    def _converse(self, body: bytes, wall: float) -> Any:
        raise AssertionError("not asked")

    def _ended(self) -> Gone | Interrupted:
        raise AssertionError("not asked")


def test_the_first_breakdown_is_forgotten_and_the_second_is_a_verdict() -> None:
    script: list[Any] = [1, Interrupted("down"), 2, Interrupted("down"), 3]
    made: list[Scripted] = []

    def connect() -> Scripted:
        made.append(Scripted(script))
        return made[-1]

    with RemotePupil([(1, "x = 1")], connect) as pupil:
        assert [pupil.call(name, (), 1.0).value for name in ("a", "b")] == [1, 2]
        assert pupil.call("c", (), 1.0).outcome is Outcome.CRASHED
        assert pupil.call("d", (), 1.0).value == 3
    assert len(made) == 3
    assert all(one.killed for one in made)


def series(name: str, *args: Any) -> Series:
    return Series(name, [Ask((one,)) for one in args], 1.0)


def values(replies: Iterable[Reply]) -> list[Any]:
    return [reply.value for reply in replies]


def test_what_was_lost_with_the_process_is_asked_again_one_by_one() -> None:
    script: list[Any] = [
        1,
        Gone(Outcome.CRASHED, "at any of them"),
        2,
        Gone(Outcome.CRASHED, "this"),
    ]
    made: list[Scripted] = []

    def connect() -> Scripted:
        made.append(Scripted(script))
        return made[-1]

    with RemotePupil([], connect) as pupil:
        replies = pupil.replies(series("a", 1, 2, 3, 4))
    assert values(replies) == [1, 2, None]
    assert [reply.error for reply in replies] == ["", "", "this"]
    assert [one.sent for one in made] == [[4], [1, 1]]


def test_what_came_ahead_of_a_loss_is_kept_and_nothing_else() -> None:
    script: list[Any] = [1, 2, Reply(Outcome.NOT_ATTEMPTED), 3, Gone(Outcome.CRASHED, "lost"), 4, 5]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        many = [series("a", 1, 2), series("b", 1), series("c", 1, 2), series("d", 1)]
        came = pupil.ahead(many)
        assert [name for name, replies in came.items()] == ["a", "b"]
        assert values(came["a"]) == [1, 2]
        assert len(came["b"]) == 1
        assert values(pupil.replies(many[2])) == [4, 5]  # of nobody's fault until it is asked alone


@pytest.mark.parametrize("error", [Gone(Outcome.CRASHED, ""), WireError(""), Interrupted("")])
def test_where_nothing_comes_ahead_all_is_asked_in_turn(error: Exception) -> None:
    script: list[Any] = [error, 7]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        assert pupil.ahead([series("a", 1), series("b", 1)]) == {}
        assert values(pupil.replies(series("a", 1))) == [7]


def test_silence_ahead_is_the_awaited_functions_and_not_waited_for_again() -> None:
    script: list[Any] = [1, Gone(Outcome.TIMEOUT, "silent"), 2]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        many = [series("a", 1), series("b", 1), series("c", 1)]
        assert list(pupil.ahead(many)) == ["a"]
        assert [reply.outcome for reply in pupil.replies(many[1])] == [Outcome.TIMEOUT]
        assert values(pupil.replies(many[2])) == [2]


def test_silence_is_not_waited_for_twice() -> None:
    script: list[Any] = [1, Gone(Outcome.TIMEOUT, "silent")]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        replies = pupil.replies(series("a", 1, 2, 3))
    assert [reply.outcome for reply in replies] == [Outcome.ANSWERED, Outcome.TIMEOUT]


def test_after_a_breakdown_the_rest_is_asked_again() -> None:
    script: list[Any] = [1, Interrupted("down"), 2, 3]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        assert values(pupil.replies(series("a", 1, 2, 3))) == [1, 2, 3]


@pytest.mark.parametrize("outcome", ENDING)
def test_nothing_is_read_after_a_reply_that_ends_it(outcome: Outcome) -> None:
    script: list[Any] = [1, Reply(outcome), 5]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        assert len(pupil.replies(series("a", 1, 2, 3))) == 2
        assert values(pupil.replies(series("b", 1))) == [5]


def test_a_lost_answer_is_not_asked_again() -> None:
    script: list[Any] = [Gone(Outcome.OUT_OF_MEMORY, "gone"), 5]
    with RemotePupil([], lambda: Scripted(script)) as pupil:
        assert pupil.call("a", (), 1.0).outcome is Outcome.OUT_OF_MEMORY
        assert pupil.call("a", (), 1.0).outcome is Outcome.OUT_OF_MEMORY
        assert pupil.call("b", (), 1.0).value == 5


class Paired(Piped):
    """Over a socket whose other end the test holds."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair()
        self._socket = ours
        super().__init__(ours.makefile("wb", buffering=0), ours.makefile("rb", buffering=0))

    def kill(self) -> None:
        self.other.close()
        self._join()
        for one in (self._questions, self._answers, self._socket):
            one.close()

    def _ended(self) -> Gone:
        return Gone(Outcome.CRASHED, "ended")


def _read_all(timed: Timed, count: int) -> None:
    for _ in range(count):
        assert timed.read(1) == b"\0"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="it needs a pair of sockets")
def test_a_trickle_of_bytes_does_not_move_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        timed, over = Timed(ours), threading.Event()

        def trickle() -> None:
            while not over.wait(0.02):
                theirs.send(b"\0")

        sender = threading.Thread(target=trickle)
        sender.start()
        timed.deadline = time.monotonic() + 0.3
        try:
            with pytest.raises(TimeoutError):
                _read_all(timed, 1_000)  # twenty seconds of bytes
        finally:
            over.set()
            sender.join()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="it needs a pair of sockets")
@pytest.mark.parametrize(
    ("sent", "error"),
    [(b"", Gone), (b"\xff" * 8, WireError), (struct.pack(">Q", 4) + b"abcd", WireError)],
)
def test_silence_and_nonsense_end_in_time(sent: bytes, error: type[Exception]) -> None:
    connection = Paired()
    connection.other.sendall(sent)
    with pytest.raises(error):
        connection.ask({"do": "call"}, 0.2)
    connection.kill()
