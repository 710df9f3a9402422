"""Where this user's own data lie: progress, and the seed of their mystery models."""

from __future__ import annotations

import os
from pathlib import Path


def data_dir() -> Path:
    """``$GRADER_DATA``, else the folder where the system keeps such; it need not exist yet."""
    named = os.environ.get("GRADER_DATA")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_data_path("transformer-circuits-course", appauthor=False)
