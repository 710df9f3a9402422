"""The course as a site to read: ``grader build --site``, static pages for any browser, without a network.

Sphinx with MyST-NB renders the learners' notebooks; the pictures on the pages are those of the demo
cells, made by running the instructor's notebooks (`site_pages`). Formulas become MathML, which
browsers draw themselves (`site_math`), and the search has its index beside it, so the pages work from
``file://`` too. When all is rendered, every link is followed and every page searched for what it would
fetch from elsewhere (`site_links`); a site that fails this is not put in place.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import grader
from grader import resources
from grader.classroom import site_links, site_pages

_MARK = ".buildinfo"  # which Sphinx leaves in what it made


class SiteError(RuntimeError):
    """The site can't be made; the message says what is wrong and what to do."""


@dataclass(frozen=True)
class SiteReport:
    """out: the folder; pages: how many; links: those followed inside; outside: addresses named."""

    out: Path
    pages: int
    links: int
    outside: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "out": str(self.out), "outside": list(self.outside)}


def build_site(
    out: Path, notebooks: Sequence[str] | None = None, say: Callable[[str], None] = lambda _: None
) -> SiteReport:
    """Render the notebooks named (all, if None) into the folder ``out``, replacing an earlier site.

    say: told what is done next. Takes some minutes: every instructor's notebook is run.
    Raises SiteError, resources.CourseNotFound.
    """
    out = Path(out).expanduser().resolve()
    _refuse(out)
    names = resources.notebooks()
    unknown = [name for name in notebooks or () if name not in names]
    if unknown:
        raise SiteError(f"There is no notebook {unknown[0]}; there are {', '.join(names)}.")
    chosen = [name for name in names if notebooks is None or name in notebooks]
    with tempfile.TemporaryDirectory(prefix="grader-site-") as folder:
        source, rendered = Path(folder) / "source", Path(folder) / "site"
        for name in chosen:
            say(f"running {name}")
            _write_page(source, name, chosen)
        (source / "index.md").write_text(site_pages.index(source, chosen), encoding="utf-8")
        for file, text in _FILES.items():
            (source / file).write_text(text, encoding="utf-8")
        say("rendering")
        _render(source, rendered)
        say("following links")
        found = site_links.examine(rendered)
        if found.problems:
            raise SiteError("The rendered site is not whole:\n" + "\n".join(found.problems))
        _put_in_place(rendered, out)
    return SiteReport(out, found.pages, found.links, found.outside)


def _refuse(out: Path) -> None:
    missing = [m for m in ("sphinx", "myst_nb", "sphinx_book_theme") if not _there(m)]
    if missing:
        raise SiteError(
            f"The site is rendered with {', '.join(missing)}, not installed here: "
            "pip install 'transformer-circuits-course[site]'."
        )
    if out.exists() and not (out / _MARK).is_file() and (out.is_file() or any(out.iterdir())):
        raise SiteError(f"{out} is there and is no earlier site; name an empty folder with --out.")


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _write_page(source: Path, name: str, among: Sequence[str]) -> None:
    try:
        page = site_pages.page(name, among)
    except site_pages.NotRun as error:
        raise SiteError(str(error)) from None
    target = source / name / f"{name}.ipynb"
    target.parent.mkdir(parents=True)
    target.write_text(page, encoding="utf-8")


def _render(source: Path, rendered: Path) -> None:
    """Run Sphinx in a process of its own: what it changes in docutils stays there."""
    package = str(Path(grader.__file__).resolve().parents[1])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going",
            "-d", str(rendered.with_name("doctrees")), str(source), str(rendered),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True, text=True, encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr or done.stdout).replace(str(source) + os.sep, "").strip()
        raise SiteError(f"Sphinx could not render the course:\n{said}")


def _put_in_place(rendered: Path, out: Path) -> None:
    if out.exists():
        shutil.rmtree(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(rendered, out)


_CONFIGURATION = """
project = "Transformer circuits"
author = ""
html_title = project
html_favicon = "icon.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
language = "en"
extensions = ["myst_nb", "grader.classroom.site_math"]
html_math_renderer = "mathml"
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "footer_content_items": [],
    "announcement": "For reading. To write the answers and have them judged, run <code>grader start</code>.",
}
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_copyright = False
# A search that quotes the pages found would have to fetch them, which file:// forbids.
html_show_search_summary = False
"""

_STYLE = """
math { font-size: 1.12em; }
article img { height: auto; }  /* where the page is narrower than a picture, its shape stays */
div.math { display: block; overflow-x: auto; margin: 1em 0; text-align: center; }
.bd-header-announcement code { color: inherit; background: none; border: none; font-weight: bold; }
.bd-header { display: none; }
/* The theme lays what cells show as HTML on a light ground in the dark, too. */
html[data-theme=dark] .bd-content div.cell_output .text_html a { color: #0b4f9c; }
"""

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M3 1v14M3 4h7v4M3 12h10V9" '
    'fill="none" stroke="#0072b2" stroke-width="2"/></svg>\n'
)

_FILES = {"conf.py": _CONFIGURATION, "site.css": _STYLE, "icon.svg": _ICON}
