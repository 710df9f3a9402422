"""The pupil's side of the conversation: frames in, frames out, over two streams that it is given.

==================================================  =========================================
judge                                               pupil
==================================================  =========================================
                                                    {"ready": True}
{"do": "place", "files": {name: bytes}}             {"placed": True}
{"do": "run", "number", "source", "wall"}           {"ran": a CellRun's fields}
{"do": "call", "id", "name", "args", "wall",        {"id": the same, "reply": a Reply's fields}
"watch_memory"}
the end of the stream                               ends
==================================================  =========================================

Where the streams come from (a pipe, a socket after a fork) is the caller's affair.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from grader.pupil.frames import one_line
from grader.pupil.reply import Outcome, Reply
from grader.pupil.shell import Notebook
from grader.pupil.wire import CAP, Closed, WireError, receive, send

QUESTIONS_CAP = 16 * CAP  # the judge's own frames may carry a shipped model's weights


def serve(questions: BinaryIO, answers: BinaryIO, notebook: Notebook) -> None:
    """Answer until the judge closes the stream."""
    send(answers, {"ready": True})
    while True:
        try:
            question = receive(questions, QUESTIONS_CAP)
        except Closed:
            return
        if question["do"] == "run":
            ran = notebook.run(question["number"], question["source"], question["wall"])
            send(answers, {"ran": dataclasses.asdict(ran)})
        elif question["do"] == "place":
            _place(question["files"])
            send(answers, {"placed": True})
        else:
            _answer(answers, question, notebook)


def _place(files: Mapping[str, Any]) -> None:
    """Put files that belong to the notebook beside it; bytes come as a numpy array of them."""
    for name, content in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.tobytes())


def _answer(answers: BinaryIO, question: dict[str, Any], notebook: Notebook) -> None:
    try:
        reply = notebook.call(
            question["name"], question["args"], question["wall"], question["watch_memory"]
        )
    except KeyboardInterrupt:  # nobody is at a keyboard: the learner's code raised it
        reply = Reply(Outcome.CRASHED, error="KeyboardInterrupt")
    try:
        send(answers, {"id": question["id"], "reply": _fields(reply)})
    except WireError as error:
        send(answers, {"id": question["id"], "reply": _fields(_unsendable(reply, str(error)))})
    except (Exception, RecursionError) as error:  # an answer whose own attributes raise
        send(answers, {"id": question["id"], "reply": _fields(_unsendable(reply, one_line(error)))})


def _unsendable(reply: Reply, why: str) -> Reply:
    return dataclasses.replace(
        reply, outcome=Outcome.CRASHED, value=None, error=f"The answer can't be handed in. {why}"
    )


def _fields(reply: Reply) -> dict[str, Any]:
    """Without ``dataclasses.asdict``, which would copy the answer."""
    return {field.name: getattr(reply, field.name) for field in dataclasses.fields(reply)}
