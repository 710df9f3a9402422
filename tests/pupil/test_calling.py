"""One call of a learner's function: what comes back, and that the process stays as it was."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch

from grader.pupil.calling import InProcess, call
from grader.pupil.reply import Outcome
from grader.transformer import Transformer

NAN = float("nan")
needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signal here")


def ask(function, *args, wall=5.0, **options):
    return call(function, args, wall, **options)


def test_an_answer_comes_back_as_it_is() -> None:
    x = torch.randn(2, 3)
    reply = ask(lambda a: (a.T, [1, {"b": a}]), x)
    assert reply.outcome is Outcome.ANSWERED
    assert torch.equal(reply.value[0], x.T)
    assert torch.equal(reply.value[1][1]["b"], x)
    assert (reply.mutated, reply.touched_rng, reply.printed, reply.error) == ((), (), "", "")


def test_nan_in_and_out_is_no_mutation() -> None:
    reply = ask(lambda a, b: a + b, torch.tensor([NAN, 1.0]), np.array([NAN, 2.0]))
    assert reply.outcome is Outcome.ANSWERED
    assert reply.mutated == ()


def writes_zero(x):
    x[0] = 0


MODEL = Transformer.random(n_layers=1, n_heads=2, d_model=3, d_head=4, d_vocab=5, n_ctx=6)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        (writes_zero, torch.ones(3)),
        (writes_zero, torch.full((3,), NAN)),
        (lambda x: x.view(-1)[0].fill_(NAN), torch.ones(2, 2, dtype=torch.float64)),
        (lambda x: x.detach().mul_(2), torch.ones(3, requires_grad=True)),
        (lambda x: x.numpy().fill(2), torch.ones(3)),
        (lambda x: x.data.fill_(2), torch.ones(3)),
        (lambda x: x.resize_(1), torch.ones(3)),
        (lambda x: x.mul_(2j), torch.ones(3, dtype=torch.complex64)),
        (lambda x: x.logical_not_(), torch.ones(3, dtype=torch.bool)),
        (lambda x: x.neg_(), torch.ones(3, dtype=torch.bfloat16)),
        (lambda x: x.T.fill_(2), torch.ones(3, 2).T),
        (writes_zero, np.ones(3)),
        (lambda x: x[1][0].fill_(9), [1, (torch.zeros(2), "a")]),
        (lambda x: x.append(1), [1]),
        (lambda x: x.pop("a"), {"a": 1, "b": torch.ones(1)}),
        (lambda x: x["b"].zero_(), {"a": 1, "b": torch.ones(1)}),
        (lambda x: x.add(4), {1, 2}),
        (lambda x: x.W_K.mul_(2), MODEL),
        (lambda x: setattr(x, "W_E", x.W_E + 1), MODEL),
    ],
)
def test_a_changed_argument_is_seen_and_ours_is_whole(change, argument) -> None:
    before = repr(argument.weights() if isinstance(argument, Transformer) else argument)
    reply = ask(lambda first, second: change(second), torch.ones(1), argument)
    assert reply.outcome is Outcome.ANSWERED, reply.error
    assert reply.mutated == (1,)
    after = repr(argument.weights() if isinstance(argument, Transformer) else argument)
    assert after == before


def test_unchanged_arguments_of_every_kind_are_not_accused() -> None:
    expanded = torch.ones(3, 1).expand(3, 4)
    arguments = (
        expanded, torch.randn(4, 3).T, torch.tensor(1.0), torch.zeros(0, 3), MODEL, {"a": [NAN, 1j]},
        torch.ones(2, requires_grad=True), None, "text", (1, 2.5), torch.eye(2).to_sparse(), len,
    )  # fmt: skip
    assert ask(lambda *all_: None, *arguments).mutated == ()


def test_arguments_keep_requires_grad() -> None:
    weight = torch.ones(2, requires_grad=True)
    reply = ask(lambda w: torch.autograd.grad((w * 3).sum(), w)[0], weight)
    assert torch.equal(reply.value, torch.full((2,), 3.0))
    assert weight.grad is None


def test_the_callers_no_grad_is_not_the_learners() -> None:
    with torch.no_grad():
        reply = ask(lambda w: (w * 2).requires_grad, torch.ones(1, requires_grad=True))
        assert not torch.is_grad_enabled()
    assert reply.value is True


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda: torch.randn(1), "torch"),
        (lambda: torch.manual_seed(5), "torch"),
        (lambda: np.random.rand(), "numpy"),
        (lambda: np.random.seed(1), "numpy"),
        (lambda: random.random(), "random"),
    ],
)
def test_global_generators_are_watched_and_restored(use, name) -> None:
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    reply = ask(use)
    assert reply.touched_rng == (name,)
    after = (float(torch.rand(())), float(np.random.rand()), random.random())
    torch.manual_seed(1)
    np.random.seed(2)
    random.seed(3)
    assert after == (float(torch.rand(())), float(np.random.rand()), random.random())


def test_a_normal_that_numpy_had_kept_is_a_draw() -> None:
    np.random.seed(2)
    np.random.randn()  # draws two, and keeps one
    expected = np.random.get_state(legacy=False)["gauss"]
    assert ask(lambda: np.random.randn()).touched_rng == ("numpy",)
    assert np.random.randn() == expected


def test_another_kind_of_generator_in_numpy_is_watched_too() -> None:
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        assert ask(lambda: None).touched_rng == ()
        assert ask(lambda: np.random.rand()).touched_rng == ("numpy",)
    finally:
        np.random.set_bit_generator(usual)


def test_a_generator_of_ones_own_is_no_global_one() -> None:
    reply = ask(lambda: torch.randn(2, generator=torch.Generator().manual_seed(0)))
    assert reply.touched_rng == ()


def test_settings_of_torch_are_put_back() -> None:
    def careless():
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)

    ask(careless)
    assert torch.get_default_dtype() is torch.float32
    assert torch.is_grad_enabled()


def test_what_is_printed_is_kept_and_nothing_else_sees_it(capfd) -> None:
    def chatty():
        print("out")
        print("err", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        os.write(2, b"deep")

    reply = ask(chatty)
    for words in ("out", "err", "UserWarning: careful", "deep"):
        assert words in reply.printed
    assert capfd.readouterr() == ("", "")


def test_a_megabyte_is_cut_and_said() -> None:
    reply = ask(lambda: print("x" * 1_000_000))
    assert len(reply.printed) < 2_200
    assert "1,000,001 characters were printed" in reply.printed
    deep = ask(lambda: os.write(2, b"y" * 1_000_000))
    assert len(deep.printed) < 2_200
    assert "1,000,000 characters" in deep.printed


def test_the_real_stderr_stays_empty() -> None:
    program = """
import os, sys, warnings, torch
from grader.pupil.calling import call
def loud(x):
    os.write(2, b"A"); sys.__stderr__.write("B"); sys.__stderr__.flush(); warnings.warn("C")
    os.system("echo D >&2"); sys.stderr.write("E"); raise ValueError("F")
reply = call(loud, (torch.ones(1),), 5.0)
print(sorted(set(reply.printed) & set("ABCDE")), reply.error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert done.stdout == "['A', 'B', 'C', 'D', 'E'] ValueError: F\n"


def test_figures_opened_inside_are_closed_and_others_stay() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    mine = pyplot.figure()
    ask(lambda: pyplot.subplots())
    assert pyplot.get_fignums() == [mine.number]
    pyplot.close(mine)


def exercise(x):
    raise NotImplementedError


def test_a_stub_is_not_attempted() -> None:
    reply = ask(exercise, 1)
    assert (reply.outcome, reply.error) == (Outcome.NOT_ATTEMPTED, "")


def test_a_stub_that_the_answer_needs_is_named() -> None:
    reply = ask(lambda x: exercise(x), 1)
    assert reply.outcome is Outcome.NOT_ATTEMPTED
    assert "exercise" in reply.error


def test_torchs_own_not_implemented_is_an_attempt() -> None:
    def unsupported(x):
        return x.to("meta").item()  # torch: NotImplementedError or RuntimeError, by version

    def by_hand(x):
        return torch.utils.data.IterableDataset().__iter__()  # raised in a library's Python

    for function in (unsupported, by_hand):
        assert ask(function, torch.ones(1)).outcome is Outcome.CRASHED


def test_a_crash_shows_the_learners_frames_only() -> None:
    def helper(x):
        return torch.nn.functional.softmax(x, dim=7)

    reply = ask(lambda x: helper(x), torch.ones(2))
    assert reply.outcome is Outcome.CRASHED
    assert reply.error.startswith("IndexError: Dimension out of range")
    assert "torch.nn.functional.softmax(x, dim=7)" in reply.traceback
    assert "in helper" in reply.traceback
    files = [line.split(",")[0] for line in reply.traceback.splitlines() if ", line " in line]
    assert files == ["test_calling.py", "test_calling.py"]


def test_a_deep_recursion_is_told_in_a_few_lines() -> None:
    def deeper(x):
        return deeper(x)

    reply = ask(deeper, 1)
    assert reply.error.startswith("RecursionError")
    assert len(reply.traceback.splitlines()) < 40


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raising(error):
    def answer():
        raise error

    return answer


@pytest.mark.parametrize(
    "error", [SystemExit(3), GeneratorExit(), Unspeakable(), BaseException("x"), ValueError("a\nb")]
)
def test_whatever_is_raised_is_a_crash(error) -> None:
    reply = ask(raising(error))
    assert reply.outcome is Outcome.CRASHED
    assert reply.error.startswith(type(error).__name__)
    assert "\n" not in reply.error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        np._core._exceptions._ArrayMemoryError((9,), np.dtype("f8")),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        torch.OutOfMemoryError("CUDA out of memory."),
    ],
)
def test_running_out_of_memory_is_told_apart(error) -> None:
    assert ask(raising(error)).outcome is Outcome.OUT_OF_MEMORY


def test_torch_refusing_an_absurd_size_is_out_of_memory() -> None:
    assert ask(lambda: torch.empty(2**46)).outcome is Outcome.OUT_OF_MEMORY


def test_the_person_at_the_keyboard_goes_through_and_all_is_restored() -> None:
    state = torch.get_rng_state()

    def interrupted():
        torch.rand(1)
        raise KeyboardInterrupt

    out = sys.stdout
    with pytest.raises(KeyboardInterrupt):
        ask(interrupted)
    assert sys.stdout is out
    assert torch.equal(torch.get_rng_state(), state)


def loop():
    while True:
        pass


def loop_in_c():
    while True:
        time.sleep(30)


def loop_that_catches_all():
    while True:
        try:  # noqa: SIM105
            time.sleep(30)
        except:  # noqa: E722
            pass


def loop_that_prints():
    while True:
        print("again")


def loop_with_suppress():
    import contextlib

    while True:
        with contextlib.suppress(BaseException):
            time.sleep(30)


def answer_in_spite_of_it():
    try:
        loop()
    finally:
        return 1  # noqa: B012


@needs_timer
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize(
    "endless",
    [
        loop,
        loop_in_c,
        loop_that_catches_all,
        loop_that_prints,
        loop_with_suppress,
        answer_in_spite_of_it,
    ],
)
def test_a_loop_is_stopped_and_the_next_call_is_free_of_it(endless) -> None:
    reply = ask(endless, wall=0.1)
    assert reply.outcome is Outcome.TIMEOUT
    assert "0.1 s" in reply.error
    assert sys.gettrace() is None or "coverage" in repr(sys.gettrace())
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert sys.exc_info() == (None, None, None)
    assert ask(lambda: 5).value == 5


@needs_timer
def test_a_timer_that_was_running_goes_on() -> None:
    rang = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 60)
        ask(lambda: 1)
        assert 50 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def test_in_a_thread_it_works_without_a_timer() -> None:
    replies = []
    worker = threading.Thread(target=lambda: replies.append(ask(lambda: 3)))
    worker.start()
    worker.join()
    assert replies[0].value == 3


def test_a_thread_of_the_learners_does_not_disturb() -> None:
    def threaded():
        results = []
        workers = [threading.Thread(target=results.append, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return sorted(results)

    assert ask(threaded).value == [0, 1, 2, 3]


def test_calls_are_independent() -> None:
    x = torch.ones(2)
    first, second = ask(lambda a: a.mul_(2), x), ask(lambda a: a.mul_(2), x)
    assert torch.equal(first.value, second.value)


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        (lambda a: (a @ a.T).sum(), 4.0, 4.1),  # (1024, 8) @ (8, 1024) in float32
        (lambda a: torch.einsum("ik,jk->ij", a, a).trace(), 4.0, 4.1),
        (lambda a: torch.outer(a[:, 0], a[:, 1]).requires_grad_().sum().backward(), 4.0, 4.1),
        (lambda a: (a.T @ a).sum() + a.T.reshape(-1)[0], 0.03, 0.2),
        (lambda a: np.zeros((1024, 1024)).sum(), 8.0, 8.2),
        (lambda a: a[None].expand(1000, 1024, 8)[0, 0, 0], 0.0, 0.1),
    ],
)
def test_the_largest_allocation_is_seen(function, least, most) -> None:
    reply = ask(function, torch.ones(1024, 8), watch_memory=True)
    assert reply.outcome is Outcome.ANSWERED, reply.error
    assert least <= reply.largest_mib <= most


def test_in_process_pupil_asks_by_name() -> None:
    pupil = InProcess({"double": lambda x: 2 * x})
    assert pupil.call("double", (3,), 1.0).value == 6
    missing = pupil.call("triple", (3,), 1.0)
    assert missing.outcome is Outcome.NOT_ATTEMPTED
    assert missing.error == "No function named triple was found."
