"""From the source archive to an open course: built, installed in a new environment, used.

The environment gets the wheel and its real dependencies, as `pip install .` of the README does; it
knows nothing of this checkout.
"""

from __future__ import annotations

import email
import json
import os
import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from served import announced, lines_of

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel that was built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return out


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    [path] = archives.glob("*.whl")
    return path


class Installed:
    """The wheel in an environment of its own, used from a folder that knows no checkout."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.scripts = home / "env" / ("Scripts" if sys.platform == "win32" else "bin")
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("PYTHON", "JUPYTER", "VIRTUAL"))
        }
        self.environment = kept | {"HOME": str(home), "GRADER_DATA": str(home / "data")}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.scripts / command[0]), *command[1:]],
            capture_output=True, encoding="utf-8", check=False, cwd=self.home, env=self.environment,
        )  # fmt: skip

    def ask(self, expression: str) -> str:
        done = self.run("python", "-c", f"from grader import resources; print({expression})")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("new")
    venv.create(home / "env", with_pip=True)
    made = Installed(home)
    pip = [str(made.scripts / "python"), "-m", "pip", "install", "-q", str(wheel)]
    done = subprocess.run(pip, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return made


def test_the_wheel_carries_the_course_and_its_solutions_and_nothing_of_jupyters(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = email.message_from_bytes(archive.read(metadata))
    for path in sorted((ROOT / "course").glob("*/*.ipynb")):
        assert f"grader/_shipped/course/{path.relative_to(ROOT / 'course').as_posix()}" in names
        assert f"grader/_shipped/solutions/{path.stem}/{path.name}" in names
        assert f"grader/_shipped/solutions/{path.stem}.py" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"grader"}
    assert not [name for name in names if "etc/jupyter" in name or "nbgrader_config" in name]
    assert described["Requires-Python"] == ">=3.11"


def test_the_source_archive_has_what_a_wheel_is_built_from(archives: Path) -> None:
    [path] = archives.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "grader/cli/__init__.py",
        "tests/test_wheel.py",
    } <= names
    assert any(name.startswith("course/") for name in names)
    assert not any(name.startswith((".venv", "transformer-circuits/")) for name in names)


def test_nothing_is_installed_outside_the_package(installed: Installed) -> None:
    done = installed.run("python", "-m", "pip", "show", "-f", "transformer-circuits-course")
    files = [line.strip() for line in done.stdout.partition("Files:\n")[2].splitlines()]
    outside = [name for name in files if name.startswith("..")]
    assert len(outside) == 1
    assert Path(outside[0]).stem == "grader"


def test_the_course_is_found_inside_the_package(installed: Installed) -> None:
    course = Path(installed.ask("resources.course_dir()"))
    assert course.parent.name == "_shipped"
    assert course.is_relative_to(installed.home)
    released = sorted(path.parent.name for path in (ROOT / "course").glob("*/*.ipynb"))
    assert installed.ask("' '.join(resources.notebooks())").split() == released


def test_the_doctor_finds_everything(installed: Installed) -> None:
    done = installed.run("grader", "doctor", "--json")
    told = json.loads(done.stdout)
    assert [f for f in told["findings"] if f["state"] == "missing"] == []
    assert done.returncode == 0
    topics = {finding["topic"] for finding in told["findings"]}
    assert {"torch", "jupyterlab", "nbgrader", "judge"} <= topics


def _hears_ctrl_c() -> None:
    """A shell that starts the tests in the background makes all of them ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="a test can't press Ctrl-C there")
def test_start_opens_the_course(installed: Installed) -> None:
    command = [str(installed.scripts / "grader"), "start", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        cwd=installed.home, env=installed.environment,
        preexec_fn=_hears_ctrl_c,
    ) as process:  # fmt: skip
        try:
            lines = lines_of(process)
            lab = announced(lines)
            first = installed.ask("resources.notebooks()[0]")
            assert lab.page == f"/tree/{first}/{first}.ipynb"
            status, body = lab.get(f"api/contents/{first}/{first}.ipynb")
            assert status == 200
            assert (
                json.loads(body)["content"]["metadata"]["transformer_circuits"]["notebook"] == first
            )
            kernels = json.loads(lab.get("api/kernelspecs")[1])["kernelspecs"]
            assert "python3" in kernels
        finally:
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(60) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def test_every_solution_gets_full_points_and_every_handed_out_notebook_none(
    installed: Installed,
) -> None:
    for folder, status in (("solutions", 0), ("course", 1)):
        shipped = Path(installed.ask(f"resources.{folder}_dir()"))
        for path in sorted(shipped.glob("*/*.ipynb")):
            done = installed.run("grader", "check", str(path), "--json")
            assert done.returncode == status, done.stdout + done.stderr
            told = json.loads(done.stdout)
            assert told["points"] == (told["max_points"] if folder == "solutions" else 0)
            wanted = "PASS" if folder == "solutions" else "NOT_ATTEMPTED"
            assert {verdict["status"] for verdict in told["verdicts"]} == {wanted}
