"""The site to read: pictures of demo cells and no solution, whole links, a search, nothing from outside."""

from __future__ import annotations

import contextlib
import functools
import html
import http.server
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browsing
import nbformat
import pytest
from click.testing import CliRunner
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from grader import resources
from grader.classroom import site, site_links, site_math, site_pages, sources
from grader.cli import cli
from grader.lab import progress_page

COURSE = resources.notebooks()


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


# Links


def problems(folder: Path, **files: str) -> tuple[str, ...]:
    named = {name.replace("_html", ".html").replace("_css", ".css"): t for name, t in files.items()}
    return site_links.examine(written(folder, **named)).problems


@pytest.mark.parametrize(
    "link",
    [
        "b.html",
        "b.html#there",
        "#here",
        "#",
        "sub/c.html?q=1",
        "https://example.org/x#y",
        "mailto:a@b.c",
    ],
)
def test_links_that_lead_somewhere_are_let_through(tmp_path: Path, link: str) -> None:
    page = f"<p id='here'><a href='{link}'>x</a></p>"
    other = {"b_html": "<a name='there'></a>", "sub__c_html": "<a href='../a.html'>up</a>"}
    assert problems(tmp_path, a_html=page, **other) == ()


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("c.html", "leads nowhere"),
        ("b.html#nowhere", "names no place of b.html"),
        ("#nowhere", "names no place of a.html"),
        ("../a.ipynb", "leads nowhere"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(tmp_path: Path, link: str, what: str) -> None:
    found = problems(tmp_path, a_html=f"<a href='{link}'>x</a>", b_html="<p id='there'></p>")
    assert found == (f"a.html: the link {link} {what}",)


@pytest.mark.parametrize(
    "fetching",
    [
        "<script src='https://cdn.example.org/x.js'></script>",
        "<script src='//cdn.example.org/x.js'></script>",
        "<link rel='stylesheet' href='https://fonts.example.org/x.css'>",
        "<link rel='preconnect' href='https://fonts.example.org'/>",
        "<img src='http://example.org/x.png'>",
        "<img srcset='https://example.org/x.png 2x' src='data:image/png;base64,AA=='>",
        "<iframe src='https://example.org'></iframe>",
        "<p style='background:url(https://example.org/x.png)'></p>",
        "<img src='missing.png'>",
    ],
)
def test_what_a_page_would_fetch_from_elsewhere_or_in_vain_is_named(
    tmp_path: Path, fetching: str
) -> None:
    assert len(problems(tmp_path, a_html=fetching)) == 1


def test_styles_that_fetch_from_elsewhere_are_named(tmp_path: Path) -> None:
    style = "@import 'https://x.org/a.css'; p {background: url(//x.org/b.png)} i {src: url(c.woff)}"
    assert len(problems(tmp_path, a_css=style)) == 2


# Formulas


def formulas() -> list[tuple[str, bool]]:
    """Every formula of the course, and whether it stands by itself."""
    reader = MarkdownIt("commonmark").enable("table").use(dollarmath_plugin)

    def inside(tokens: list[Any]) -> Iterator[Any]:
        for token in tokens:
            yield token
            yield from inside(token.children or [])

    cells = [
        cell
        for name in COURSE
        for cell in nbformat.read(resources.released(name), as_version=4).cells
        if cell.cell_type == "markdown"
    ]
    return [
        (token.content, token.type == "math_block")
        for cell in cells
        for token in inside(reader.parse(cell.source))
        if token.type.startswith("math")
    ]


def test_every_formula_of_the_course_becomes_mathml() -> None:
    found = formulas()
    assert len(found) > 200
    for formula, block in found:
        assert site_math.mathml(formula, block=block).startswith("<math")


def test_other_spellings_are_understood_and_unknown_commands_are_not_passed_over() -> None:
    from docutils.utils.math import MathError

    assert "…" in site_math.mathml(r"a, \dots, b", block=False)
    site_math.mathml(r"\Big(x\big)", block=True)
    with pytest.raises(MathError):
        site_math.mathml(r"\nosuchcommand", block=False)


# Pages


def instructor() -> Any:
    """A notebook that was run: one cell of each kind."""
    picture = {"image/png": "AA==", "text/plain": "<Picture: A; B>"}
    table = {
        "text/html": "<a href='../01-b/01-b.ipynb#cell-id=x'>b</a> <a href=\"../02-c/02-c.ipynb\">c</a>"
    }
    own_map = {"text/html": f"<div class='{progress_page.MARK}' role='navigation'></div>"}
    live = picture | {"application/vnd.jupyter.widget-view+json": {"model_id": "m"}}
    size = {"image/png": {"width": 300, "height": 200}}
    locked = {"nbgrader": {"locked": True, "grade": False}}
    graded = {"nbgrader": {"locked": True, "grade": True}}
    outputs = [
        new_output("stream", name="stdout", text="said\n"),
        new_output("stream", name="stderr", text="noise\n"),
        new_output("execute_result", data=live, metadata=size, execution_count=3),
        new_output("display_data", data=table),
        new_output("display_data", data=own_map),
    ]
    return new_notebook(
        cells=[
            new_code_cell(
                "answer", id="f", outputs=[new_output("stream", name="stdout", text="s")]
            ),
            new_code_cell("check(f)", id="check_f", metadata=graded, outputs=outputs[:1]),
            new_code_cell("draw(f)", id="demo_00", metadata=locked, outputs=outputs),
        ]
    )


@pytest.fixture
def toy_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    released = new_notebook(
        cells=[
            new_markdown_cell("# Toy\nSee [b](../01-b/01-b.ipynb) and [c](../02-c/02-c.ipynb)."),
            new_code_cell("def f(): ...", id="f"),
            new_code_cell("check(f)", id="check_f"),
            new_code_cell("draw(f)", id="demo_00", metadata={"nbgrader": {"locked": True}}),
        ]
    )
    path = tmp_path / "toy.ipynb"
    nbformat.write(released, path)
    monkeypatch.setattr(resources, "released", lambda name: path)
    monkeypatch.setattr(site_pages, "_run", lambda name: instructor())
    return nbformat.reads(site_pages.page("00-toy", ["00-toy", "01-b"]), as_version=4)


def test_a_page_has_the_learners_cells_and_the_outputs_of_demo_cells_alone(toy_page: Any) -> None:
    assert [cell.source for cell in toy_page.cells[1:]] == ["def f(): ...", "check(f)", "draw(f)"]
    _, answer, check, demo = toy_page.cells
    assert answer.outputs == check.outputs == []
    said, drawn, _ = demo.outputs
    assert (said.name, said.text) == ("stdout", "said\n")
    assert set(drawn.data) == {"image/png", "text/plain"}
    assert demo.execution_count is None


def test_a_picture_has_its_title_for_those_who_cannot_see_it_and_its_width(toy_page: Any) -> None:
    assert toy_page.cells[-1].metadata.mystnb.image == {"alt": "Picture: A; B", "width": "300px"}


def test_a_link_to_a_notebook_that_the_site_lacks_becomes_words(toy_page: Any) -> None:
    assert toy_page.cells[0].source.endswith("See [b](../01-b/01-b.ipynb) and c.")


def test_links_in_what_a_cell_shows_lead_to_pages_and_progress_is_left_out(toy_page: Any) -> None:
    shown = [output.data.get("text/html") for output in toy_page.cells[-1].outputs[1:]]
    assert shown == [None, '<a href="../01-b/01-b.html">b</a> <a >c</a>']


def test_demo_cells_of_the_course_have_the_same_source_and_id_in_both_notebooks() -> None:
    """What a demo cell shows is taken from the instructor's notebook by the cell's id."""
    for name in COURSE:
        solved, released = (
            {cell.id: cell for cell in nbformat.read(path, as_version=4).cells}
            for path in (resources.solved(name), resources.released(name))
        )
        demos = {key for key, cell in solved.items() if site_pages.is_demo(cell)}
        assert demos
        for key in demos:
            assert released[key].source == solved[key].source
            assert sources.BEGIN not in solved[key].source


# What can't be done


def test_a_folder_with_something_else_in_it_is_never_replaced(tmp_path: Path) -> None:
    written(tmp_path, mine="x")
    with pytest.raises(site.SiteError, match="is no earlier site"):
        site.build_site(tmp_path)
    assert (tmp_path / "mine").read_text() == "x"


def test_a_missing_renderer_and_an_unknown_notebook_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(site.SiteError, match=r"There is no notebook 77-x; there are 00-"):
        site.build_site(tmp_path / "out", ["77-x"])
    monkeypatch.setattr(site, "_there", lambda module: module != "myst_nb")
    with pytest.raises(site.SiteError, match=r"with myst_nb, not installed.*course\[site\]"):
        site.build_site(tmp_path / "out")


def test_the_command_hands_over_the_folder_and_tells_what_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(out: Path, say: Any) -> site.SiteReport:
        return site.SiteReport(out, 12, 345, ("https://x.org",))

    monkeypatch.setattr(site, "build_site", built)
    run = functools.partial(CliRunner().invoke, cli)
    made = run(["build", "--site", "--out", str(tmp_path)])
    assert (made.exit_code, f"12 pages in {tmp_path}, 345 links followed" in made.output) == (
        0,
        True,
    )
    told = json.loads(run(["build", "--site", "--json"]).output)
    assert told == {"out": "course-site", "pages": 12, "links": 345, "outside": ["https://x.org"]}
    assert run(["build", "--out", "x"]).exit_code == 2
    assert run(["build", "--site", "--check"]).exit_code == 2


# The whole course, rendered


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> site.SiteReport:
    return site.build_site(tmp_path_factory.mktemp("site") / "out")


def page_of(report: site.SiteReport, name: str) -> str:
    return (report.out / name / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_every_notebook_is_a_page_and_only_papers_and_packages_are_linked(
    rendered: site.SiteReport,
) -> None:
    front = (rendered.out / "index.html").read_text(encoding="utf-8")
    for name in COURSE:
        assert f'href="{name}/{name}.html"' in front
        assert "<math" in page_of(rendered, name) or name == "08-mystery-models"
    assert rendered.links > 500
    assert all(address.startswith("https://") for address in rendered.outside)


@pytest.mark.long
@pytest.mark.parametrize("name", COURSE)
def test_demo_cells_show_their_pictures_and_other_cells_nothing(
    rendered: site.SiteReport, name: str
) -> None:
    page = page_of(rendered, name)
    demos = sum(
        map(site_pages.is_demo, nbformat.read(resources.released(name), as_version=4).cells)
    )
    pictures = re.findall(
        r'<img alt="(Picture: [^"]*)" [^>]*src="\.\./_images/[0-9a-f]+\.png"', page
    )
    assert len(pictures) >= 0.4 * demos
    assert page.count('<div class="cell_output') <= demos
    assert "NotImplementedError" in page  # the stubs are there
    assert "Traceback" not in page


@pytest.mark.long
@pytest.mark.parametrize("name", COURSE)
def test_no_line_of_a_solution_is_on_the_pages(rendered: site.SiteReport, name: str) -> None:
    source = sources.read(resources.solutions_dir() / f"{name}.py")
    told = html.unescape(re.sub(r"<[^>]+>", "", page_of(rendered, name)))
    released = nbformat.read(resources.released(name), as_version=4)
    given = "\n".join(cell.source for cell in released.cells)
    lines = [
        line.strip()
        for cell in (*source.of_kind("answer"), *source.of_kind(sources.QUESTION))
        for line in sources.solution_text(cell).splitlines()
    ]
    telling = {line for line in lines if len(line) >= sources.TELLING and line not in given}
    assert telling
    assert [line for line in telling if line in told] == []


_IN_SHAPE = (
    "image => Math.abs(image.clientWidth * image.naturalHeight"
    " / (image.clientHeight * image.naturalWidth) - 1) < 0.03"
)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder behind Python's own static server → its address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.long
@pytest.mark.needs_browser
@pytest.mark.parametrize("way", ["file", "http"])
def test_a_browser_reads_and_searches_it_and_asks_nobody_else(
    rendered: site.SiteReport, tmp_path: Path, way: str
) -> None:
    wrong: list[str] = []
    serving = (
        served(rendered.out) if way == "http" else contextlib.nullcontext(rendered.out.as_uri())
    )
    with serving as base, browsing.chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                wrong.append(asked.url) if not asked.url.startswith((base, "data:")) else None
            ),
        )
        for name in COURSE:
            page.goto(f"{base}/{name}/{name}.html")
            page.wait_for_function(
                "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
            )
            assert page.evaluate("document.documentElement.scrollWidth") <= 1280
            assert page.evaluate(f"[...document.images].every({_IN_SHAPE})")
        page.screenshot(path=tmp_path / "page.png")
        page.goto(f"{base}/index.html")
        page.keyboard.press("Control+k")
        page.keyboard.type("induction")
        page.keyboard.press("Enter")
        results = page.locator("#search-results li a")
        results.first.wait_for(timeout=60_000)
        found = results.evaluate_all("links => links.map(link => link.getAttribute('href'))")
        assert any("05-induction-heads.html" in address for address in found)
        results.first.click()
        page.wait_for_selector("article h1")
    assert wrong == []
