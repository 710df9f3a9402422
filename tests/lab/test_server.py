"""JupyterLab really serves the folder to who has the token, and ends with everything it started."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from served import announced, lines_of

from grader.lab import server

_SERVE = """
import pathlib, signal, sys
from grader.lab import server
# A shell that starts the tests in the background makes all of them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    server.serve(pathlib.Path(sys.argv[1]), lambda text: print(text, flush=True), browser=False,
                 page="00-first/00-first.ipynb")
except server.CannotOpen as error:
    print("CANNOT", error, flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".transformer-circuits").mkdir()
    (tmp_path / "hello.txt").write_text("hello")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="a test can't press Ctrl-C there")
def test_it_serves_the_folder_with_a_token_and_ends_on_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-c", _SERVE, str(folder)]
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(folder / "config")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            lines = lines_of(process)
            lab = announced(lines)
            assert lab.page == "/tree/00-first/00-first.ipynb"
            assert json.loads(lab.get("api/status")[1])["kernels"] == 0
            assert '"hello.txt"' in lab.get("api/contents/")[1]
            assert lab.get("api/contents/", token="")[0] == 403
            status, page = lab.get("lab")
            assert status == 200
            assert re.search(r'"news": *{"disabled": *true}', page), "it would ask the internet"
            assert "@jupyterlab/apputils-extension:announcements" in page, "it would ask about news"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                assert process.wait(60) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        log = (folder / ".transformer-circuits" / "jupyter.log").read_text(encoding="utf-8")
        assert lab.token not in log, "others may be able to read the log"
        said = "".join(lines.get(timeout=5) for _ in range(2))
        assert f"saved in {folder}" in said
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", lab.port))


def test_a_port_in_use_is_said(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(server.CannotOpen, match=f"Port {port} can't be used.*--port"):
            server.serve(folder, print, port=port)


def test_a_missing_jupyterlab_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(server.CannotOpen, match="pip install jupyterlab"):
        server.serve(folder, print)


def test_a_server_that_dies_at_once_is_said_with_its_last_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = [sys.executable, "-c", "print('no such thing'); raise SystemExit(3)"]
    monkeypatch.setattr(server, "_command", lambda folder, port: dies)
    with pytest.raises(server.CannotOpen, match=r"before it was ready.*no such thing"):
        server.serve(folder, print)


def test_a_server_that_never_answers_is_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(server, "_command", lambda folder, port: sleeps)
    monkeypatch.setattr(server, "_READY_SECONDS", 0.3)
    with pytest.raises(server.CannotOpen, match="no answer"):
        server.serve(folder, print)


def test_a_linux_without_a_screen_opens_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(server.webbrowser, "open", lambda address: pytest.fail("opened"))
    assert not server._open("http://127.0.0.1/")
