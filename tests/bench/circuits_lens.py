"""TransformerLens in a process of its own, asked by JSON lines; and whether it and we agree."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from grader.transformer import Transformer
from tests.bench import peers

SCRIPT = Path(__file__).with_name("circuits_peer.py")
ALIKE = 1e-4


class Lens:
    """The worker of ``circuits_peer.py``; one request at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process, self.folder = process, folder

    def load(self, model: Transformer) -> None:
        """Give it these weights."""
        file = self.folder / "weights.safetensors"
        model.save(file)
        self._ask({"do": "load", "weights": str(file)})
        file.unlink()

    def seconds(self, do: str, arguments: dict[str, Any]) -> float:
        """Do it once; wall time, taken there."""
        return self._ask({"do": do, "arguments": arguments})

    def answer(self, do: str, arguments: dict[str, Any]) -> tuple[float, Tensor]:
        """Do it once; wall time, and what came."""
        file = self.folder / "answer.safetensors"
        took = self._ask({"do": do, "arguments": arguments, "answer": str(file)})
        came = load_file(file)["answer"]
        file.unlink()
        return took, came

    def _ask(self, request: dict[str, Any]) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            told = (self.folder / "stderr").read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"TransformerLens did not answer {request['do']!r}:\n{told}")
        return float(json.loads(line)["seconds"])


@contextmanager
def lens(threads: int) -> Iterator[Lens]:
    """A worker with that many threads; it ends with the block, and its files with it."""
    with tempfile.TemporaryDirectory(prefix="bench-circuits-") as name:
        folder = Path(name)
        with (folder / "stderr").open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [str(peers.program()), str(SCRIPT), str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            yield Lens(process, folder)
        finally:
            process.kill()
            process.communicate()


def check_alike(what: str, ours: Tensor, theirs: Tensor) -> None:
    """Raises ValueError where two answers differ by more than `ALIKE` of the largest number in them."""
    if ours.shape != theirs.shape:
        raise ValueError(f"{what}: ours is {tuple(ours.shape)} and theirs {tuple(theirs.shape)}")
    most = theirs.abs().max()
    off = (ours - theirs).abs().max()
    if not bool(off <= ALIKE * most):
        raise ValueError(f"{what}: the answers differ by {float(off / most):.1e} of the largest")
