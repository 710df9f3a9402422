"""``python -m grader.pupil.trial DESCRIPTOR``: shut this process in as a notebook's would be, and say so.

Beside the fork-server that takes seconds to warm, this takes a moment: it shows what a system allows.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from grader.pupil import lockdown, scratch
from grader.pupil.confinement import Confinement, Request

_LIMITS = Request(slot=0, memory_mib=1024, cpu_seconds=60)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    confinement = Confinement.from_json(control.recv(2**18))
    lockdown.prepare()
    own_mounts = confinement.own_mounts and scratch.can_mount(confinement)
    scratch.require_apart(confinement, own_mounts)
    if own_mounts:
        scratch.mount_own(confinement)
    lockdown.lock_down(confinement, _LIMITS, scratch.folder(confinement, _LIMITS, own_mounts))
    control.send(json.dumps({"ready": True, "own_mounts": own_mounts}).encode())
    os._exit(0)


if __name__ == "__main__":
    main()
