"""What the sandbox around the peers' tools lets out of all that it must hold, tried from inside.

Runs before anything hostile does, as ``hostile_peer`` will, and writes one line of JSON: sentences.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

from hostile_peer import PROCESSES, become, processes  # beside this file in the sandbox


def main() -> None:
    become(json.load(sys.stdin)["user"])
    print(json.dumps({"let out": let_out()}), flush=True)


def let_out() -> list[str]:
    found = []
    if os.geteuid() == 0:
        found.append("a notebook would be root")
    for place in (sys.prefix, sys.base_prefix, "/", "/given"):
        with contextlib.suppress(OSError), open(Path(place) / "written", "w"):
            found.append(f"{place} can be written to")
    with contextlib.suppress(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=2).close()
        found.append("there is a network")
    if [name for _, name in socket.if_nameindex() if name != "lo"]:
        found.append("there is a network interface")
    if len(processes()) > 3:
        found.append("processes of others are seen")
    if forks() >= PROCESSES:
        found.append("the number of processes has no limit")
    return found


def forks() -> int:
    """How many processes could be started, all ended again."""
    started = []
    with contextlib.suppress(OSError):
        for _ in range(PROCESSES + 50):
            if (child := os.fork()) == 0:
                signal.pause()
            started.append(child)
    for child in started:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(started)


if __name__ == "__main__":
    main()
