"""What a learner needs works where Linux's own modules and calls are not there.

Each test runs a new Python in which ``grader`` can import no module that only Unix or Linux has, and
which lacks the system calls that Windows lacks. The other packages keep theirs: they have their own
ways on each system.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import grader

# Beside a stranger's code, on Linux only. Nothing of a learner's may import one of them.
LINUX_ONLY = {
    f"grader.pupil.{name}"
    for name in ("forkserver", "kernel", "lockdown", "scratch", "syscalls", "trial")
}

WITHOUT_LINUX = """
import builtins, os, signal, sys

UNIX = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "syslog", "_posixshmem"}
LINUX = {"pyseccomp", "seccomp", "landlock", "py_landlock", "prctl", "sandlock"}
true_import = builtins.__import__

def importing(name, globals=None, *more, **named):
    who, what = (globals or {}).get("__name__", ""), name.partition(".")[0]
    if what in LINUX or (what in UNIX and (who == "__main__" or who.startswith("grader"))):
        raise ModuleNotFoundError(f"No module named {what!r} (blocked; {who} imports it)")
    return true_import(name, globals, *more, **named)

builtins.__import__ = importing
"""

# Taken away only after the imports: torch and Jupyter look for them when they are imported.
WITHOUT_UNIX_CALLS = """
for name in ("setitimer", "getitimer", "SIGALRM", "ITIMER_REAL", "SIGHUP", "SIGXCPU", "pthread_kill"):
    if hasattr(signal, name): delattr(signal, name)
for name in ("fork", "geteuid", "getuid", "killpg", "setsid", "getpgid", "sched_setaffinity"):
    if hasattr(os, name): delattr(os, name)
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_LINUX + code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(grader.__file__).parent.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def learners_modules() -> list[str]:
    """Every module of the package but the ways that only Linux's sandbox takes."""
    package = Path(grader.__file__).parent
    paths = [path.relative_to(package.parent) for path in package.rglob("*.py")]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return sorted(set(names) - LINUX_ONLY - {n for n in names if n.endswith("__main__")})


def test_the_walk_finds_the_rooms() -> None:
    rooms = {name.split(".")[1] for name in learners_modules() if "." in name}
    assert rooms >= {"circuits", "classroom", "cli", "exercises", "judge", "lab", "models", "pupil"}


def test_everything_imports_without_linux() -> None:
    code = "import importlib\nfor name in sys.argv[1:]: importlib.import_module(name)\nprint('all')"
    assert run(code, *learners_modules()).splitlines()[-1] == "all"


def test_the_block_blocks() -> None:
    """The test of the test: what grader must not do is stopped, what others do is not."""
    blocked = "exec('import fcntl', {'__name__': 'grader.somewhere'})"
    with pytest.raises(AssertionError, match=r"blocked; grader\.somewhere imports it"):
        run(blocked)
    with pytest.raises(AssertionError, match="blocked"):
        run("import pyseccomp")
    run("exec('import tempfile', {'__name__': 'other'})")


def test_answers_are_judged_without_unix_calls() -> None:
    code = (
        "from grader.lab.proof import judge_samples\n"
        "from grader.lab import progress, checking\n"
        "import grader.judge.judge\n" + WITHOUT_UNIX_CALLS + "print(judge_samples())"
    )
    assert "Proof(ok=True" in run(code)


def test_progress_is_kept_without_unix_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADER_DATA", str(tmp_path))
    code = (
        "from grader.judge.verdict import Status, Verdict\n"
        "from grader.lab import progress\n"
        + WITHOUT_UNIX_CALLS
        + "progress.record(Verdict('a', Status.PASS, 1.0, 1.0, '', seed=1))\n"
        "print(progress.best('a'))"
    )
    assert run(code) == "1.0\n"


def test_text_is_read_and_written_with_an_encoding() -> None:
    """Without one, Windows takes another encoding than UTF-8. Recipes are for who remakes models."""
    without = [
        f"{path.name}:{call.lineno}"
        for path in Path(grader.__file__).parent.rglob("*.py")
        if "recipes" not in path.parts
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and _opens_text(call)
        if "encoding" not in {keyword.arg for keyword in call.keywords}
    ]
    assert without == []


def _opens_text(call: ast.Call) -> bool:
    """Path.read_text and write_text, the built-in open in a text mode, a subprocess read as text."""
    if isinstance(call.func, ast.Name):
        mode = "".join(map(ast.unparse, call.args[1:2]))
        unbuffered = "buffering" in {keyword.arg for keyword in call.keywords}  # binary only
        of_linux = "/proc" in ast.unparse(call)
        return call.func.id == "open" and not ("b" in mode or unbuffered or of_linux)
    name = getattr(call.func, "attr", "")
    return name in ("read_text", "write_text") or any(k.arg == "text" for k in call.keywords)
