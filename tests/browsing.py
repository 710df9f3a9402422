"""JupyterLab in a real Chromium, driven as a person would: by its pages, its keys, its cells.

Whatever goes wrong behind the picture is kept: errors on the console, requests to other machines.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from served import Lab, until_left

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENOUGH = 240.0  # seconds: a busy machine is no failure
SIZES = {"wide": (1280, 900), "narrow": (800, 900)}


def found() -> str | None:
    """The browser's path."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, which asks nobody for anything."""
    from playwright.sync_api import sync_playwright

    quiet = ["--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        quiet.append("--no-sandbox")  # Chromium's own needs an ordinary user
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=quiet)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def course(folder: Path, home: Path) -> Iterator[Lab]:
    """``grader start FOLDER --no-browser``, until the block ends. ``home`` keeps all settings."""
    settings = home / "jupyter"
    settings.mkdir(parents=True, exist_ok=True)
    # The only thing that a test needs beyond a learner: JupyterLab's commands, by name.
    (settings / "jupyter_lab_config.json").write_text('{"LabApp": {"expose_app_in_browser": true}}')
    environment = os.environ | {
        "GRADER_DATA": str(home / "data"), "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(settings), "JUPYTER_DATA_DIR": str(home / "share"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline", "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "grader", "start", str(folder), "--no-browser"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", env=environment,
    )  # fmt: skip
    with until_left(process) as lab:
        yield lab


class Notebook:
    """One notebook open in JupyterLab.

    problems: what the browser complained of, and each request that left the machine
    """

    def __init__(self, browser: Browser, lab: Lab, page: str | None = None) -> None:
        self.page: Page = browser.new_page(viewport=_size("wide"))
        self.problems: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", self._asked)
        address = f"http://127.0.0.1:{lab.port}/lab{lab.page if page is None else page}"
        # "reset": else the notebooks that an earlier page had open would open again beside this one
        self.page.goto(f"{address}?reset&token={lab.token}", timeout=ENOUGH * 1000)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=ENOUGH * 1000)
        self.page.wait_for_function(f"{_CONTEXT}.sessionContext.isReady", timeout=ENOUGH * 1000)

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(f"console: {message.text[:300]}")

    def _asked(self, request: Any) -> None:
        here = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        if not request.url.startswith(here):
            self.problems.append(f"request: {request.url[:300]}")

    def command(self, name: str, **arguments: Any) -> None:
        """One of JupyterLab's commands, until it is done."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments]
        )

    def run_all(self) -> None:
        """Run all cells, until the last has run or one has stopped them. Raises TimeoutError.

        JupyterLab's promise need not come true, and nothing ends a wait for it alone.
        """
        self.page.evaluate(
            "() => { window.ranAll = false; window.jupyterapp.commands"
            ".execute('notebook:run-all-cells').finally(() => { window.ranAll = true; }); }"
        )
        ran = "cell.model.type != 'code' || cell.model.executionCount"
        self.page.wait_for_function(
            f"() => window.ranAll || {_CELLS}.every(cell => {ran})",
            timeout=ENOUGH * 1000, polling=500,
        )  # fmt: skip

    def place(self, cell: str) -> int:
        """Which cell of the notebook has that id."""
        ids: list[str] = self.page.evaluate(f"{_CELLS}.map(cell => cell.model.id)")
        return ids.index(cell)

    def show(self, cell: str) -> Any:
        """Scroll to a cell → its element."""
        index = self.place(cell)
        self.page.evaluate(f"index => {_NOTEBOOK}.scrollToItem(index, 'smart')", index)
        self.page.evaluate(f"index => {{ {_NOTEBOOK}.activeCellIndex = index; }}", index)
        element = self.page.locator(".jp-Cell.jp-mod-active")
        element.wait_for(timeout=ENOUGH * 1000)
        element.scroll_into_view_if_needed()
        return element

    def type_into(self, cell: str, source: str) -> None:
        """Replace what is written in a cell, at the keyboard."""
        self.show(cell).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source)

    def run(self, cell: str) -> str:
        """Run one cell by its keys → the text of its outputs, as read on the page."""
        element = self.show(cell)
        element.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.wait_until_idle()
        return str(element.locator(".jp-OutputArea").inner_text())

    def add_below(self, cell: str, source: str) -> str:
        """A new cell below ``cell`` with that source, run → the text of its outputs."""
        self.show(cell)
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("b")
        added: str = self.page.evaluate(f"{_NOTEBOOK}.activeCell.model.id")
        self.type_into(added, source)
        return self.run(added)

    def wait_until_idle(self) -> None:
        """Until no cell waits or runs and all that was sent has been drawn."""
        deadline = time.monotonic() + ENOUGH
        while self.page.evaluate(
            f"{_CELLS}.some(cell => cell.promptNode && cell.promptNode.textContent.includes('*'))"
            f" || {_CONTEXT}.sessionContext.session.kernel.status !== 'idle'"
        ):
            assert time.monotonic() < deadline, "the notebook is still running"
            time.sleep(0.3)
        self.page.wait_for_function(
            "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
        )

    def outputs(self, cell: str | None = None) -> list[dict[str, Any]]:
        """The outputs of one cell, or of all."""
        chosen = "true" if cell is None else f"cell.model.id == {json.dumps(cell)}"
        code = f"{_CELLS}.filter(cell => cell.model.type == 'code' && {chosen})"
        text = self.page.evaluate(
            f"JSON.stringify({code}.flatMap(cell => cell.model.outputs.toJSON()))"
        )
        outputs: list[dict[str, Any]] = json.loads(text)
        return outputs

    def result(self, cell: str) -> str:
        """What a cell's last expression is, as text: the form that nbgrader reads."""
        [text] = [
            output["data"]["text/plain"]
            for output in self.outputs(cell)
            if output["output_type"] == "execute_result"
        ]
        return str(text)

    def errors(self) -> list[str]:
        """The errors and the lines on stderr that stand in the notebook's outputs."""
        return [
            str(output.get("evalue") or output.get("text"))
            for output in self.outputs()
            if output["output_type"] == "error" or output.get("name") == "stderr"
        ]

    def end(self) -> None:
        """Shut the kernel down and close the page."""
        self.page.evaluate(f"{_CONTEXT}.sessionContext.shutdown()")
        self.page.close()

    def theme(self, name: str) -> None:
        self.command("apputils:change-theme", theme=f"JupyterLab {name}")
        light = "true" if name == "Light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def picture(self, path: Path, size: str = "wide") -> None:
        """A screenshot of what is visible, 1280 or 800 pixels wide."""
        self.page.set_viewport_size(_size(size))
        self.page.wait_for_timeout(500)  # JupyterLab lays itself out anew
        self.page.screenshot(path=path)

    def pictures(self, folder: Path) -> None:
        """The whole notebook, a screenshot a page of it."""
        folder.mkdir(exist_ok=True)
        self.page.set_viewport_size(_size("wide"))
        pages, seen = f"document.querySelector('{_SCROLLED}')", -1
        for number in range(100):
            self.page.evaluate(f"{pages}.scrollTop = {number * 760}")
            self.page.wait_for_timeout(300)
            place = self.page.evaluate(f"{pages}.scrollTop")
            if place == seen:
                return
            seen = place
            self.page.screenshot(path=folder / f"{number:02d}.png")


_SCROLLED = ".jp-WindowedPanel-outer"
_NOTEBOOK = "window.jupyterapp.shell.currentWidget.content"
_CONTEXT = "window.jupyterapp.shell.currentWidget.context"
_CELLS = f"{_NOTEBOOK}.widgets"


def _size(name: str) -> Any:
    width, height = SIZES[name]
    return {"width": width, "height": height}
