"""The sandbox's own ways: what it refuses, what it shows, and what becomes of a server that dies."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from witnesses import descendants

from grader.judge import sandbox_paths, sandbox_world
from grader.judge.layers import OTHER_SYSTEM, Layers
from grader.judge.remote import ProcessPupil, PupilNotStarted
from grader.judge.remote_process import how_it_ended
from grader.judge.sandbox import Isolation, Sandbox, SandboxUnavailable, trial
from grader.judge.sandbox_paths import Visible, without
from grader.pupil.reply import Outcome

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux locks notebooks in"
)
ALL = Layers(linux=True, bubblewrap=Path("bwrap"), landlock=7, seccomp=True)
CELLS = [(1, "def double(x):\n    return 2 * x"), (2, "import os, random, torch")]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(jobs=2) as running:
        yield running


@pytest.mark.parametrize(
    ("container", "without", "word"),
    [
        (False, {"bubblewrap": None}, "apt-get install bubblewrap"),
        (False, {"seccomp": False}, "apt-get install libseccomp2"),
        (True, {"seccomp": False}, "apt-get install libseccomp2"),
        (True, {"landlock": 0}, "Landlock"),
        (False, {"linux": False}, "On macOS, use a Linux container"),
        (True, {"linux": False}, "WSL2"),
    ],
)
def test_less_than_asked_for_is_refused_with_a_remedy(container, without, word) -> None:
    isolation = Isolation.CONTAINER if container else Isolation.FULL
    with pytest.raises(SandboxUnavailable, match=word) as refused:
        Sandbox(isolation, _layers=dataclasses.replace(ALL, **without))
    assert f"(isolation {isolation})" in str(refused.value)


def test_what_a_level_doesnt_need_it_may_lack() -> None:
    assert ALL.missing(container=False) == []
    assert dataclasses.replace(ALL, landlock=0).missing(container=False) == []
    assert dataclasses.replace(ALL, bubblewrap=None).missing(container=True) == []


def test_on_another_system_there_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert Layers.found().missing(container=False) == [OTHER_SYSTEM]


@linux
def test_a_bubblewrap_that_is_denied_says_what_to_do(tmp_path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    with pytest.raises(
        SandboxUnavailable, match=r"(?s)uid map.*(AppArmor|--isolation container|off)"
    ):
        Sandbox(_layers=dataclasses.replace(ALL, bubblewrap=program)).__enter__()


@linux
@pytest.mark.needs_sandbox
@pytest.mark.parametrize("isolation", [Isolation.FULL, Isolation.CONTAINER])
def test_a_filter_that_lets_everything_through_is_noticed(monkeypatch, isolation) -> None:
    from grader.pupil import syscalls

    allow = bytes.fromhex("060000000000ff7f")  # BPF: return SECCOMP_RET_ALLOW
    monkeypatch.setattr(syscalls, "program", lambda: allow)
    assert "The sandbox isn't shut: the process could start a process" in trial(isolation)


@linux
@pytest.mark.needs_sandbox
def test_nothing_that_keeps_notebooks_apart_is_refused() -> None:
    neither = dataclasses.replace(Layers.found(), nested=False, landlock=0)
    assert "Neither Landlock nor namespaces" in trial(Isolation.FULL, neither)


@linux
@pytest.mark.needs_sandbox
def test_files_lie_beside_the_notebook_and_nowhere_else(sandbox) -> None:
    cells = [*CELLS, (3, "import mine\ndef read():\n    return open('data/a.bin', 'rb').read().hex() + mine.WORD")]  # fmt: skip
    files = {"data/a.bin": b"\x00\xff", "mine.py": b"WORD = 'x'"}
    with sandbox.pupil(cells, files=files) as pupil:
        assert pupil.call("read", (), 5.0).value == "00ffx"
    for path in ("../a", "/a", "", "a/../../b"):
        with pytest.raises(ValueError, match="is no path of a file beside the notebook"):
            sandbox.pupil(cells, files={path: b""}).__enter__()


@linux
@pytest.mark.needs_sandbox
def test_more_pupils_than_places_wait_and_each_draws_its_own_numbers(sandbox) -> None:
    drawn = [*CELLS, (3, "import numpy\ndef draw():\n    return random.random(), numpy.random.rand(), torch.rand(1).item()")]  # fmt: skip
    seen: list[tuple[float, ...]] = []

    def one() -> None:
        with sandbox.pupil(drawn) as pupil:
            seen.append(pupil.call("draw", (), 10.0).value)

    threads = [threading.Thread(target=one) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 5
    assert all(len(set(numbers)) == 5 for numbers in zip(*seen, strict=True))


@linux
@pytest.mark.needs_sandbox
def test_memory_is_limited(sandbox) -> None:
    cells = [*CELLS, (3, "def greedy(n):\n    return torch.ones(n).sum()")]
    with sandbox.pupil(cells, memory_mib=300) as pupil:
        assert pupil.call("greedy", (10,), 5.0).value == 10
        assert pupil.call("greedy", (2**28,), 5.0).outcome is Outcome.OUT_OF_MEMORY


@linux
@pytest.mark.long
@pytest.mark.needs_sandbox
def test_a_server_that_dies_costs_nobody_anything_the_first_time(sandbox) -> None:
    with sandbox.pupil(CELLS) as pupil:
        assert pupil.call("double", (2,), 5.0).value == 4
        end(sandbox)
        assert pupil.call("double", (3,), 5.0).value == 6
        end(sandbox)
        reply = pupil.call("double", (4,), 5.0)
        assert reply.outcome is Outcome.CRASHED
        assert "It happened twice while this code ran" in reply.error
    with sandbox.pupil(CELLS) as pupil:
        assert pupil.call("double", (5,), 5.0).value == 10


@linux
@pytest.mark.long
@pytest.mark.needs_sandbox
def test_a_server_that_cannot_come_back_is_our_fault(sandbox, monkeypatch) -> None:
    end(sandbox)
    with monkeypatch.context() as patch:
        patch.setattr(sandbox, "_layers", dataclasses.replace(ALL, bubblewrap=Path(os.devnull)))
        with pytest.raises(PupilNotStarted, match="could not be started"):
            sandbox.pupil(CELLS).__enter__()
    with sandbox.pupil(CELLS) as pupil:
        assert pupil.call("double", (5,), 5.0).value == 10


def end(sandbox: Sandbox) -> None:
    """Kill bubblewrap, and wait until all that was in it is gone: on a busy machine that takes a while."""
    server = sandbox._server
    assert server is not None
    inside = descendants(server._process.pid)
    os.killpg(server._process.pid, signal.SIGKILL)
    assert server._ended.wait(60)
    assert gone(inside), "what was in the sandbox outlived bubblewrap by a minute"


def gone(processes: set[int], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{process}").exists() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_a_closed_sandbox_stays_closed(monkeypatch) -> None:
    monkeypatch.setattr(Layers, "found", lambda: ALL)
    closed = Sandbox()
    closed.close()
    with pytest.raises(PupilNotStarted, match="closed"):
        closed.pupil(CELLS).__enter__()


def test_without_isolation_a_notebook_is_spawned_with_its_files() -> None:
    with (
        Sandbox(Isolation.NONE) as sandbox,
        sandbox.pupil([(1, "def read(): return open('a').read()")], files={"a": b"b"}) as pupil,
    ):
        assert isinstance(pupil, ProcessPupil)
        assert pupil.call("read", (), 5.0).value == "b"


@linux
def test_used_up_processor_time_is_a_timeout() -> None:
    assert how_it_ended(-signal.SIGXCPU).outcome is Outcome.TIMEOUT


def tree(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_a_folder_is_taken_apart_around_what_is_hidden(tmp_path) -> None:
    tree(tmp_path, "a/b/grader/x", "a/b/torch/x", "a/b/six.py", "a/c/x", "d/x")
    hidden = [tmp_path / "a/b/grader"]
    allowed, apart = without(tmp_path, hidden)
    assert [str(p.relative_to(tmp_path)) for p in allowed] == [
        "a/b/six.py",
        "a/b/torch",
        "a/c",
        "d",
    ]
    assert [str(p.relative_to(tmp_path)) for p in apart] == [".", "a", "a/b"]
    assert without(tmp_path / "d", hidden) == ([tmp_path / "d"], [])
    assert without(hidden[0], hidden) == ([], [])


def test_of_grader_little_is_seen() -> None:
    pieces = {str(p.relative_to(sandbox_paths.PACKAGE)) for p in sandbox_paths.visible().pieces}
    assert {
        "__init__.py",
        "transformer.py",
        "pupil",
        "models/__init__.py",
        "models/weights",
    } <= pieces
    rooms = {piece.partition("/")[0] for piece in pieces}
    assert rooms == {"__init__.py", "transformer.py", "pupil", "models"}
    assert not {"models/recipes", "models/report.py", "models/__pycache__"} & pieces


@linux
@pytest.mark.needs_sandbox
def test_an_installed_grader_is_hidden_among_the_packages(tmp_path, monkeypatch) -> None:
    """As a wheel leaves it: the answers inside site-packages, beside what notebooks need."""
    packages = tmp_path / "site-packages"
    tree(packages, "grader/circuits/answers.py", "grader/_shipped/solutions/02.py", "torchy.py")
    monkeypatch.syspath_prepend(str(packages))
    seen = sandbox_paths.visible()
    assert packages / "grader" in seen.hidden
    world = sandbox_world.bubblewrap_arguments(found(), seen, 1)
    look = f"import os; print([n for _, d, f in os.walk({str(packages)!r}) for n in d + f])"
    done = subprocess.run(
        [*world, sys.executable, "-c", look], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "['grader', 'torchy.py']"
    readable, listable = seen.siblings()
    assert packages / "torchy.py" in readable
    assert packages in listable
    assert not any(path.is_relative_to(packages / "grader") for path in readable)


def found() -> Path:
    program = Layers.found().bubblewrap
    assert program is not None
    return program


def test_paths_that_lie_in_another_are_left_out(tmp_path) -> None:
    tree(tmp_path, "lib/python/x", "other/x")
    (tmp_path / "lib64").symlink_to("lib", target_is_directory=True)
    paths = [tmp_path / "lib/python", tmp_path / "lib", tmp_path / "lib64", tmp_path / "other"]
    assert set(sandbox_paths._outermost(paths)) == {paths[1], paths[2], paths[3]}
    assert Visible((), (), ()).siblings() == ([], [])


ORPHAN = """
import os, signal
from grader.judge.sandbox import Sandbox
sandbox = Sandbox().__enter__()
print(sandbox._server._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@linux
@pytest.mark.long
@pytest.mark.needs_sandbox
def test_a_judge_that_is_killed_takes_its_sandbox_along() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, encoding="utf-8")
    server = int(done.stdout)
    assert done.returncode == -signal.SIGKILL
    assert gone({server}), "the server outlived the judge by a minute"


STARTING = """
import sys
from pathlib import Path
from grader.judge import sandbox, sandbox_world
from grader.judge.layers import Layers

def start(*about, **more):
    print("torch" in sys.modules)
    raise sandbox.ServerFailed("as far as this goes")

sandbox_world.start = start
layers = Layers(linux=True, bubblewrap=Path("bwrap"), landlock=7, seccomp=True)
try:
    sandbox.Sandbox(_layers=layers).__enter__()
except sandbox.SandboxUnavailable:
    print("refused")
"""


def test_the_server_starts_before_the_judge_imports_torch() -> None:
    done = subprocess.run([sys.executable, "-c", STARTING], capture_output=True, encoding="utf-8")
    assert done.stdout.split() == ["False", "refused"], done.stderr
