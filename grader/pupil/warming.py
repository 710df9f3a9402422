"""All that is slow to import or to use for the first time, done once before the first fork."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os

from grader.pupil import huge_pages, memory
from grader.pupil.shell import Notebook

OFTEN_IMPORTED = ("einops", "ipywidgets")

FIRST_CELLS = (
    "import torch, matplotlib.pyplot as plt\n%matplotlib inline\nplt.figure()\nplt.show()",
    "from grader import check, models\nmodels.load(models.names()[0])",
    "1 / 0",  # what a failing cell needs to be told
)


def warm() -> Notebook:
    """The shell for a notebook, with everything that notebooks use in memory. Raises RuntimeError.

    A thread besides this one would not survive a fork, and what it held would stay locked in the child.
    """
    _torch()
    _matplotlib()
    for name in OFTEN_IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    memory.warm_up()
    notebook = Notebook()
    list(notebook.run([(0, cell) for cell in FIRST_CELLS], 60.0))
    gc.collect()
    gc.freeze()  # so that a child's collector doesn't write to, and so copy, what all share
    huge_pages.collapse()
    alone()
    return notebook


def alone() -> None:
    """Raises RuntimeError where a second thread runs."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"{threads} threads run where one was expected.")


def _torch() -> None:
    import torch

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])  # its first use imports for a second
    weight.sum().backward()
    optimizer.step()


def _matplotlib() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    axes.plot([0, 1], label="x")
    axes.legend()
    figure.savefig(io.BytesIO())
    plt.close(figure)
