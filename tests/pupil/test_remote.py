"""A notebook in a process of its own: what its cells may do, and what happens where it goes wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
import torch

from grader.judge import remote_process
from grader.judge.remote import ProcessPupil, PupilNotStarted
from grader.pupil import limits
from grader.pupil.reply import Ask, Outcome, Series
from grader.pupil.wire import Foreign, pack
from grader.transformer import Transformer

CELLS = [
    "from grader import check, hint, solution, progress\nimport torch, os, sys, threading",
    "from grader.transformer import Transformer\nfrom grader import models",
    "from grader.lab import pictures\nimport grader.lab.pictures as p\nfrom grader.lab.widgets.deep import z\n"
    "pictures.heat(torch.eye(2)).show()\nwith p.frame() as f: f[0]\nhint(check); progress()",
    "import grader.circuits",
    "from grader.exercises import registry",
    "from grader.models.recipes import live\nassert 'not shown' in repr(live.train_induction(0, 2))",
    "1 / 0",
    "x = (",
    "input('name? ')",
    "exit()",
    "sys.exit(2)",
    "raise KeyboardInterrupt",
    "%matplotlib inline\n%time y = 1\n!touch made-by-shell\n%pip install nothing\n"
    "import matplotlib.pyplot as plt\nplt.plot([1]); plt.show()",
    "%%bash\ntouch made-by-shell",
    "files = !touch made-by-shell\nassert list(files) == []",
    "import asyncio\nvalue = await asyncio.sleep(0, 7)",
    "print('x' * 1_000_000)",
    "os.write(1, b'junk'); os.write(2, b'junk'); sys.__stdout__.write('junk'); sys.__stdout__.flush()",
    "%%nonsense\nx",
    "open('beside.py', 'w').write('answer = 42')\nimport beside",
    "import time\ndef chatter():\n    while True:\n        os.write(1, b'x'); print('y'); time.sleep(0.01)\n"
    "threading.Thread(target=chatter, daemon=True).start()",
    """
def double(x):
    print("doubling")
    return 2 * x
points = check(double)
double = "overwritten by its own result"
""",
    "6 * 7",
    "assert _ == 42 and 42 in Out.values()",
    "def by_name(a, b): return {(0, 1): [a, b], 'v': value, 'b': beside.answer}",
    "def stub(x):\n    raise NotImplementedError",
    "def changes(x):\n    x[0] = 5\n    torch.rand(1)\n    return x",
    "def crashes(x):\n    return x @ x.unknown",
    "def quits(x): sys.exit(0)",
    "def interrupts(x): raise KeyboardInterrupt",
    "def asks(x): return input()",
    "def lazy(x): return (i for i in x)",
    "def huge(x): return torch.zeros(1).expand(2**40)",
    "def endless(x):\n    while True: pass",
    "class Evil:\n    def __getattr__(self, name): raise RuntimeError('no')\ndef evil(x): return Evil()",
    "def big(x): return torch.ones(3000, 1000)",
    "def made(model): return model.with_weights(W_E=model.W_E * 2)",
]


@pytest.fixture(scope="module")
def pupil(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "random.py").write_text("raise RuntimeError('a file beside the notebook')")
    cells = list(enumerate(CELLS, start=1))
    with ProcessPupil(cells, folder=folder, wall=120) as running:
        running.folder = folder
        yield running


def run_of(pupil, start: str):
    number = 1 + next(i for i, source in enumerate(CELLS) if source.startswith(start))
    return next(run for run in pupil.runs if run.number == number)


@pytest.mark.parametrize(
    "start",
    ["from grader import check", "from grader.transformer", "from grader.lab",
     "from grader.models.recipes", "exit()", "%matplotlib", "%%bash", "files = !",
     "import asyncio", "print(", "os.write", "open(", "import time", "\ndef double", "assert _"],
)  # fmt: skip
def test_cells_that_run_through(pupil, start) -> None:
    assert run_of(pupil, start).error == ""


@pytest.mark.parametrize(
    ("start", "error"),
    [
        ("import grader.circuits", "ImportError: grader.circuits isn't there"),
        ("from grader.exercises", "ImportError: grader.exercises isn't there"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("x = (", "SyntaxError: "),
        ("input(", "EOFError: input() has nobody to answer it"),
        ("sys.exit", "SystemExit: 2"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("%%nonsense", "UsageError: "),
    ],
)
def test_an_error_in_a_cell_is_remembered_and_the_next_runs(pupil, start, error) -> None:
    assert run_of(pupil, start).error.startswith(error)


def test_a_notebook_of_slow_cells_ends_all_the_same() -> None:
    cells = [(number, "import time; time.sleep(1.1)") for number in range(1, 41)]
    with ProcessPupil(cells, wall=1) as slow:
        errors = [run.error for run in slow.runs]
    assert len(errors) == len(cells)
    assert errors[0] == ""
    assert set(errors[3:]) == {"The cell was not run: those before it took too long."}


def test_a_cells_traceback_is_the_learners(pupil) -> None:
    run = run_of(pupil, "1 / 0")
    assert run.traceback.splitlines()[:2] == [
        f"Cell In[{run.number}], line 1, in <module>",
        "    1 / 0",
    ]


def test_output_of_a_cell_is_cut_and_shell_commands_dont_run(pupil) -> None:
    assert "1,000,001 characters were printed" in run_of(pupil, "print(").printed
    for start in ("%matplotlib", "%%bash", "files = !"):
        assert "not run while the notebook is graded" in run_of(pupil, start).printed
    assert not (pupil.folder / "made-by-shell").exists()


def test_check_noted_the_function_although_its_name_is_gone(pupil) -> None:
    reply = pupil.call("double", (torch.tensor([1.5, float("nan")]),), 5.0)
    assert reply.outcome is Outcome.ANSWERED
    assert reply.value[0] == 3.0
    assert "doubling" in reply.printed  # a thread of the notebook prints meanwhile


def test_values_cross_both_ways(pupil) -> None:
    reply = pupil.call("by_name", (torch.ones(2), {(1, 2)}), 5.0)
    assert reply.value["v"] == 7
    assert reply.value["b"] == 42
    assert reply.value[(0, 1)][1] == {(1, 2)}
    assert pupil.call("big", (1,), 10.0).value.shape == (3000, 1000)


def test_a_model_crosses_both_ways(pupil) -> None:
    model = Transformer.random(n_layers=1, n_heads=2, d_model=3, d_head=4, d_vocab=5, n_ctx=6)
    reply = pupil.call("made", (model,), 5.0)
    assert torch.equal(reply.value.W_E, 2 * model.W_E)


def test_claims_of_the_pupils_side_come_along(pupil) -> None:
    reply = pupil.call("changes", (torch.ones(2),), 5.0)
    assert (reply.mutated, reply.touched_rng) == ((0,), ("torch",))
    watched = pupil.call("double", (torch.ones(2**20),), 5.0, watch_memory=True)
    assert 4.0 <= watched.largest_mib < 5.0


@pytest.mark.parametrize(
    ("name", "outcome", "error"),
    [
        ("stub", Outcome.NOT_ATTEMPTED, ""),
        ("nowhere", Outcome.NOT_ATTEMPTED, "No function named nowhere was found."),
        ("points", Outcome.NOT_ATTEMPTED, "No function named points was found."),
        ("crashes", Outcome.CRASHED, "AttributeError: "),
        ("quits", Outcome.CRASHED, "SystemExit"),
        ("interrupts", Outcome.CRASHED, "KeyboardInterrupt"),
        ("asks", Outcome.CRASHED, "EOFError: input()"),
        ("huge", Outcome.CRASHED, "The answer can't be handed in."),
        ("evil", Outcome.CRASHED, "The answer can't be handed in."),
    ],
)
def test_what_goes_wrong_is_the_learners_verdict(pupil, name, outcome, error) -> None:
    reply = pupil.call(name, (torch.ones(2),), 5.0)
    assert reply.outcome is outcome
    assert reply.error.startswith(error)
    assert pupil.call("double", (2,), 5.0).value == 4


def test_a_crash_shows_the_learners_line(pupil) -> None:
    assert "return x @ x.unknown" in pupil.call("crashes", (torch.ones(2),), 5.0).traceback


def test_an_answer_of_a_type_that_cannot_cross_keeps_its_name(pupil) -> None:
    value = pupil.call("lazy", ([1],), 5.0).value
    assert isinstance(value, Foreign)
    assert type(value).__name__ == "generator"


@pytest.mark.skipif(os.name != "posix", reason="the timer inside is a signal")
def test_a_loop_is_stopped_inside_and_the_process_lives(pupil) -> None:
    assert pupil.call("endless", (1,), 0.2).outcome is Outcome.TIMEOUT
    assert pupil.call("double", (2,), 5.0).value == 4


def test_a_question_of_ours_that_cannot_be_sent_is_our_error(pupil) -> None:
    with pytest.raises(ValueError, match="can't be sent"):
        pupil.call("double", (10**400,), 5.0)


FORGE = """
import os
def protocol():
    return [fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 2 and
            os.readlink(f'/proc/self/fd/{fd}').startswith('pipe:')] if os.path.isdir('/proc') else []
def write_everywhere(data):
    for fd in protocol():
        try: os.write(fd, data)
        except OSError: pass
"""
SABOTAGE = [
    "import os, signal, time, threading",
    "def fine(x): return x + 1",
    "os._exit(4)",
    "def dies(x): os._exit(0)",
    "def killed(x): os.kill(os.getpid(), signal.SIGKILL)",
    FORGE,
    "def garbage(x): write_everywhere(b'garbage' * 30)",
    "def forged(x): write_everywhere(FRAME)",
    f"import struct\nbody = {pack({'id': 999, 'reply': {}})!r}\nFRAME = struct.pack('>Q', len(body)) + body",
    "def hangs(x):\n    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n    while True: time.sleep(1)",
]


def test_a_process_that_dies_costs_one_exercise() -> None:
    with ProcessPupil(list(enumerate(SABOTAGE[:4], start=1))) as pupil:
        left_out = [run for run in pupil.runs if run.error]
        assert [run.number for run in left_out] == [3]
        assert "exit status 4" in left_out[0].error
        reply = pupil.call("dies", (1,), 5.0)
        assert reply.outcome is Outcome.CRASHED
        assert "exit status 0" in reply.error
        assert pupil.call("dies", (1,), 5.0) is reply  # it isn't asked again
        assert pupil.call("fine", (1,), 5.0).value == 2


IN_A_ROW = """
import os, time, torch, numpy as np
memory = torch.zeros(2)
def reuses(x):
    return memory.fill_(x)
def talks(x):
    print("said", x); os.write(2, b"deep %d" % x)
def draws(x):
    return np.random.rand() if x % 2 else torch.rand(1)
def large(x):
    return torch.full((200_000,), float(x))
def naps(x):
    time.sleep(1.0)
def dies(x):
    if x == 3: os._exit(5)
    return x
"""


def series(name: str, *numbers: int, wall: float = 20.0) -> Series:
    return Series(name, [Ask((number,)) for number in numbers], wall)


@pytest.fixture(scope="module")
def in_a_row() -> Iterator[ProcessPupil]:
    with ProcessPupil([(1, IN_A_ROW)]) as pupil:
        assert not pupil.runs[0].error
        yield pupil


def test_an_answer_is_kept_before_its_memory_is_used_again(in_a_row) -> None:
    replies = in_a_row.replies(series("reuses", 1, 2, 3))
    assert [float(reply.value.sum()) for reply in replies] == [2, 4, 6]


def test_each_reply_tells_of_its_own_call(in_a_row) -> None:
    replies = in_a_row.replies(series("talks", 1, 2))
    assert [reply.printed for reply in replies] == ["said 1\ndeep 1", "said 2\ndeep 2"]
    replies = in_a_row.replies(series("draws", 1, 2, 3, 1))
    touched = [reply.touched_rng for reply in replies]
    assert touched == [("numpy",), ("torch",), ("numpy",), ("numpy",)]


def test_many_large_answers_come_one_after_the_other(in_a_row) -> None:
    replies = in_a_row.replies(series("large", *range(8)))
    assert [float(reply.value[-1]) for reply in replies] == list(range(8))


def test_the_question_that_ends_the_process_is_found(in_a_row) -> None:
    replies = in_a_row.replies(series("dies", 1, 2, 3, 4))
    assert [reply.value for reply in replies] == [1, 2, None]
    assert "exit status 5" in replies[-1].error


def test_all_questions_share_their_seconds(in_a_row) -> None:
    replies = in_a_row.replies(series("naps", 1, 2, 3, wall=1.8))
    assert [reply.outcome for reply in replies] == [Outcome.ANSWERED, Outcome.TIMEOUT]


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it needs /proc and signals")
def test_a_process_that_dies_or_lies_costs_one_exercise_each(monkeypatch) -> None:
    monkeypatch.setattr("grader.judge.remote.GRACE", 1.0)
    with ProcessPupil(list(enumerate(SABOTAGE, start=1))) as pupil:
        seen = {
            name: pupil.call(name, (1,), 0.5).outcome
            for name in ("dies", "killed", "garbage", "hangs", "forged")
        }
        assert seen == {
            "dies": Outcome.CRASHED,
            "killed": Outcome.OUT_OF_MEMORY,
            "garbage": Outcome.CRASHED,
            "hangs": Outcome.TIMEOUT,
            "forged": Outcome.CRASHED,
        }
        assert pupil.call("fine", (1,), 5.0).value == 2


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux keeps to the limit")
def test_the_memory_limit_holds() -> None:
    cells = [(1, "import torch"), (2, "def greedy(x): return torch.ones(x).sum()")]
    with ProcessPupil(cells, memory_mib=300) as pupil:
        assert pupil.call("greedy", (10,), 5.0).value == 10
        assert pupil.call("greedy", (2**28,), 5.0).outcome is Outcome.OUT_OF_MEMORY


def test_a_failed_start_is_ours(monkeypatch) -> None:
    monkeypatch.setattr(remote_process.sys, "executable", os.path.join(os.sep, "no", "python"))
    with pytest.raises(PupilNotStarted, match="could not be started"):
        ProcessPupil([(1, "1")]).__enter__()


def test_a_start_that_ends_early_says_why(monkeypatch, tmp_path) -> None:
    package = tmp_path / "grader"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('half an installation')")
    monkeypatch.setattr(remote_process.grader, "__file__", str(package / "__init__.py"))
    with pytest.raises(PupilNotStarted, match="half an installation"):
        ProcessPupil([(1, "1")]).__enter__()


def test_without_the_systems_means_there_is_no_limit(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert limits.memory(100) is False
