"""JupyterLab really serves the folder to who has the token, and ends with everything it started."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from grader.lab import server

_SERVE = """
import pathlib, sys
from grader.lab import server
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


def get(address: str, path: str, token: str) -> tuple[int, str]:
    request = urllib.request.Request(
        f"{address}/{path}", headers={"Authorization": f"token {token}"} if token else {}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def lines_of(process: subprocess.Popen[str]) -> queue.Queue[str]:
    """What the process prints, line by line, read beside the test so that no wait lasts forever."""
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    stdout = process.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    return lines


@pytest.mark.skipif(sys.platform == "win32", reason="a test can't press Ctrl-C there")
def test_it_serves_the_folder_with_a_token_and_ends_on_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-c", _SERVE, str(folder)]
    environment = os.environ | {"JUPYTER_CONFIG_DIR": str(folder / "config")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            lines, said = lines_of(process), ""
            while "Ctrl-C" not in said:
                said += lines.get(timeout=90)
            found = re.search(r"(http://127\.0\.0\.1:(\d+))/lab(\S*)\?token=(\w+)", said)
            assert found, said
            address, port, page, token = found.groups()
            assert page == "/tree/00-first/00-first.ipynb"
            assert json.loads(get(address, "api/status", token)[1])["kernels"] == 0
            assert '"hello.txt"' in get(address, "api/contents/", token)[1]
            assert get(address, "api/contents/", "")[0] == 403
            status, lab = get(address, "lab", token)
            assert status == 200
            assert re.search(r'"news": *{"disabled": *true}', lab), "it would ask the internet"
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
        said = "".join(lines.get(timeout=5) for _ in range(2))
        assert f"saved in {folder}" in said
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", int(port)))


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
