"""JupyterLab on the learner's folder: started, waited for, shown, and ended with everything it started.

The learner's own Jupyter settings stay in force. Only what this course needs is set: the folder, the
port, and that nothing asks the internet for news.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

HOST = "127.0.0.1"
_FIRST_PORT = 8888
_READY_SECONDS = 180.0
_STOP_SECONDS = 15.0


class CannotOpen(Exception):
    """JupyterLab does not come up; the message says why and what to do."""


def serve(
    folder: Path,
    say: Callable[[str], None],
    *,
    port: int | None = None,
    browser: bool = True,
    page: str = "",
) -> None:
    """Serve ``folder`` until the learner ends it with Ctrl-C or the server stops.

    say: gets the address and what to do, a line at a time
    page: the notebook to open first, relative to the folder ("" for JupyterLab's own choice)
    Raises CannotOpen.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise CannotOpen(
            f"JupyterLab is not installed here. Install it with: {sys.executable} -m pip install jupyterlab"
        )
    port = _free_port() if port is None else _checked(port)
    token = secrets.token_hex(24)
    log = folder / ".transformer-circuits" / "jupyter.log"
    with log.open("wb") as output, _ends_with_us():
        server = subprocess.Popen(
            _command(folder, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(token, _quiet(folder)),
            # A Ctrl-C in the terminal is ours alone: the server would stop to ask if it is meant.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        try:
            with_token = _wait_until_ready(server, port, token, log)
            address = f"http://{HOST}:{port}/lab" + (f"/tree/{page}" if page else "")
            address += f"?token={token}" if with_token else ""
            say(f"Your course is open at\n\n    {address}\n")
            if not with_token:
                say("Jupyter asks for the password or token of your own Jupyter configuration.")
            if browser and not _open(address):
                say("No web browser could be opened here; open that address in one.")
            say("Leave this running while you work; Ctrl-C here ends it.")
            status = server.wait()
            if status != 0:
                raise CannotOpen(f"JupyterLab ended with status {status}. {_told(log)}")
        except KeyboardInterrupt:
            say("\nEnding JupyterLab. Your work is saved in " + str(folder))
        finally:
            _stop(server, port, token)


def _command(folder: Path, port: int) -> list[str]:
    settings = {
        "ServerApp.root_dir": str(folder),
        "ServerApp.ip": HOST,
        "ServerApp.port": str(port),
        "ServerApp.port_retries": "0",
        "ServerApp.open_browser": "False",
        "LabApp.news_url": "None",
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        settings["ServerApp.allow_root"] = "True"  # containers; else JupyterLab refuses to start
    return [sys.executable, "-P", "-m", "jupyterlab", *(f"--{k}={v}" for k, v in settings.items())]


def _quiet(folder: Path) -> Path:
    """Settings beside the learner's own: without them JupyterLab opens by asking about its news."""
    settings = folder / ".transformer-circuits" / "jupyter"
    page = settings / "labconfig" / "page_config.json"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(
        '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}',
        encoding="utf-8",
    )
    return settings


def _environment(token: str, settings: Path) -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    more = [str(settings), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return os.environ | {
        "JUPYTER_CONFIG_PATH": os.pathsep.join(more),
        "JUPYTER_TOKEN": token,  # in the environment: a command line can be read by every user
        "JUPYTER_PREFER_ENV_PATH": "1",  # a kernel of that name in the home folder is another Python
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),  # `!grader status` works
    }


@contextmanager
def _ends_with_us() -> Iterator[None]:
    """A closed terminal and a polite kill end the server as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _checked(port: int) -> int:
    try:
        with socket.socket() as probe:
            if sys.platform != "win32":  # there it would allow a port that is in use
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError as error:
        raise CannotOpen(
            f"Port {port} can't be used ({error.strerror or error}). "
            "Name another with --port, or leave --port out and a free one is found."
        ) from None
    return port


def _free_port() -> int:
    for port in range(_FIRST_PORT, _FIRST_PORT + 100):
        try:
            return _checked(port)
        except CannotOpen:
            continue
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, token: str, log: Path) -> bool:
    """Wait for the first answer → whether our token opens it. Raises CannotOpen."""
    give_up = time.monotonic() + _READY_SECONDS
    while time.monotonic() < give_up:
        if server.poll() is not None:
            raise CannotOpen(f"JupyterLab ended before it was ready. {_told(log)}")
        try:
            _request("api/status", port, token)
            return True
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                return False
        except OSError:
            pass
        time.sleep(0.1)
    raise CannotOpen(f"JupyterLab gave no answer in {_READY_SECONDS:.0f} s. {_told(log)}")


def _request(path: str, port: int, token: str, data: bytes | None = None) -> None:
    """Ask the server, never through a proxy. Raises OSError (HTTPError is one)."""
    request = urllib.request.Request(
        f"http://{HOST}:{port}/{path}", data, {"Authorization": f"token {token}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=5):
        pass


def _open(address: str) -> bool:
    """Whether a browser took the address; a Linux without a screen has none worth starting."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False


def _stop(server: subprocess.Popen[bytes], port: int, token: str) -> None:
    """End the server and, through it, its kernels; by force only if it does not listen."""
    if server.poll() is not None:
        return
    try:
        _request("api/shutdown", port, token, b"")
    except OSError:
        server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _told(log: Path) -> str:
    """The log's last words, for a message."""
    lines = [
        line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line
    ]
    last = lines[-1].strip() if lines else "It said nothing."
    return f"Its last words: {last} (all of them: {log})"
