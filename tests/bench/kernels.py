"""A Jupyter kernel as a learner's notebook has one, with a home of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

REPOSITORY = Path(__file__).parents[2]


class CellFailed(Exception):
    """A cell raised; the message is the kernel's traceback."""


def surroundings(home: Path) -> dict[str, str]:
    """The environment of a kernel where the course is installed; what it keeps lies below ``home``."""
    return os.environ | {
        "PYTHONPATH": str(REPOSITORY),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        **{
            name: str(home / name.lower())
            for name in ("GRADER_DATA", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")
        },
    }


@contextlib.contextmanager
def kernel(home: Path) -> Iterator[BlockingKernelClient]:
    """A client whose kernel is ready; killed when the block ends, however it ends."""
    manager = KernelManager()
    # Jupyter's remarks about TCP go to stderr; what a cell prints there does not.
    manager.start_kernel(env=surroundings(home), cwd=str(home), stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=120)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str, timeout: float = 300.0) -> str:
    """Run a cell until the kernel has answered → what it printed. Raises CellFailed."""
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            printed.append(content["text"])

    reply = client.execute_interactive(code, timeout=timeout, output_hook=hear)
    if reply["content"]["status"] != "ok":
        raise CellFailed("\n".join(reply["content"].get("traceback", ["the kernel is gone"])))
    return "".join(printed)
