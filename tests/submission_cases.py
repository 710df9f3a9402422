"""The notebooks of ``tests/submissions/``: a file each, a header that says what is tried, cells below."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "submissions"
ANSWERED_WRONG = "def causal_pattern(scores):\n    return scores * 0"


@dataclass(frozen=True)
class Submission:
    """``header``: family, tries, witness, and where they matter: control, long, only, needs, elsewhere."""

    name: str
    header: dict[str, str]
    cells: tuple[str, ...]

    @property
    def long(self) -> bool:
        return "long" in self.header

    def runs_at(self, isolation: str) -> bool:
        return self.header.get("only", isolation) == isolation

    def numbered(self, world: str) -> list[tuple[int, str]]:
        """The cells to run: first what the attacker knows of the world, last a wrong answer."""
        answered = any("causal_pattern" in cell for cell in self.cells)
        cells = [world, *self.cells, *([] if answered else [ANSWERED_WRONG])]
        return list(enumerate(cells, start=1))


def read(path: Path) -> Submission:
    top, *cells = re.split(r"^# %%\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    header = dict(re.findall(r"^# (\w+): (.+)$", top, flags=re.MULTILINE))
    return Submission(path.stem, header, tuple(cells))


def every(kind: str) -> list[Submission]:
    return [read(path) for path in sorted((FOLDER / kind).glob("*.py"))]
