"""A ceiling on this process's memory, where the system has one to set."""

from __future__ import annotations

import importlib


def memory(mib: int) -> bool:
    """Allow ``mib`` MiB beyond what the process has taken by now → whether the system can do that.

    Linux keeps to it; macOS takes the call and ignores it; Windows has no such call.
    """
    try:
        resource = importlib.import_module("resource")
        with open("/proc/self/statm") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        ceiling = taken + mib * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    except (ImportError, OSError, ValueError):
        return False
    return True
