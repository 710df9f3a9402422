"""The pupil's side of the conversation: frames in, frames out, over two streams that it is given.

==================================================  =========================================
judge                                               pupil
==================================================  =========================================
                                                    {"ready": True}
{"do": "place", "files": {name: bytes}}             {"placed": True}
{"do": "run", "cells": [(number, source)], "wall"}  {"ran": [a CellRun's fields]}, up to the cell
                                                    at which the time was over
{"do": "call", "calls": [{"name", "wall",           for each, up to the first that ends its call:
"asks": [{"id", "args", "watch_memory"}]}]}         {"id": the same, "reply": a Reply's fields}
the end of the stream                               ends
==================================================  =========================================

Many are asked at once, since each change between the two processes costs more than a small answer. An
answer is packed before the next question is put (the learner may use its memory again), and sent with
the others of its call, or with the next that took longer: so the judge can tell silence from work, and
whose it is. Where the streams come from (a pipe, a socket after a fork) is the caller's affair.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from grader.pupil.frames import one_line
from grader.pupil.reply import Ask, Outcome, Reply, Series
from grader.pupil.shell import Notebook
from grader.pupil.wire import CAP, MIB, Closed, WireError, receive, send

QUESTIONS_CAP = 16 * CAP  # the judge's own frames may carry a shipped model's weights
LONG = 0.05  # seconds; an answer that took them is sent at once


def serve(questions: BinaryIO, stream: BinaryIO, notebook: Notebook) -> None:
    """Answer over the stream until the judge closes it."""
    answers = cast(BinaryIO, io.BufferedWriter(cast(io.RawIOBase, stream), MIB))
    send(answers, {"ready": True})
    while True:
        answers.flush()
        try:
            question = receive(questions, QUESTIONS_CAP)
        except Closed:
            return
        if question["do"] == "run":
            ran = notebook.run(question["cells"], question["wall"])
            send(answers, {"ran": [dataclasses.asdict(run) for run in ran]})
        elif question["do"] == "place":
            _place(question["files"])
            send(answers, {"placed": True})
        else:
            for call in question["calls"]:
                _answer(answers, call, notebook)
                answers.flush()


def _place(files: Mapping[str, Any]) -> None:
    """Put files that belong to the notebook beside it; bytes come as a numpy array of them."""
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.tobytes())


def _answer(answers: BinaryIO, call: dict[str, Any], notebook: Notebook) -> None:
    asks = [Ask(one["args"], one["watch_memory"]) for one in call["asks"]]
    replies = notebook.replies(Series(call["name"], asks, call["wall"]))
    for one, reply in zip(call["asks"], replies, strict=False):
        _send_reply(answers, one["id"], reply)
        if reply.seconds > LONG:
            answers.flush()


def _send_reply(answers: BinaryIO, identity: str, reply: Reply) -> None:
    try:
        send(answers, {"id": identity, "reply": _fields(reply)})
    except WireError as error:
        send(answers, {"id": identity, "reply": _fields(_unsendable(reply, str(error)))})
    except (Exception, RecursionError) as error:  # an answer whose own attributes raise
        send(answers, {"id": identity, "reply": _fields(_unsendable(reply, one_line(error)))})


def _unsendable(reply: Reply, why: str) -> Reply:
    return dataclasses.replace(
        reply, outcome=Outcome.CRASHED, value=None, error=f"The answer can't be handed in. {why}"
    )


def _fields(reply: Reply) -> dict[str, Any]:
    """Those that say something; without ``dataclasses.asdict``, which would copy the answer."""
    return {n: v for n, v in vars(reply).items() if n not in _SILENT or v is not _SILENT[n]}


_SILENT = {field.name: field.default for field in dataclasses.fields(Reply)[1:]}
