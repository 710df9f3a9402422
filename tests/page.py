"""What stands in a widget's HTML, read back: rows of a table, titles that show on hovering."""

from __future__ import annotations

from html.parser import HTMLParser


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.titles: list[str] = []
        self.classes: list[str] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if known.get("title"):
            self.titles.append(str(known["title"]))
        self.classes += (known.get("class") or "").split()
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[-1][-1] += data


def _read(html: str) -> _Reader:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader


def rows(html: str) -> list[list[str]]:
    """Every row of the tables in a page, cell by cell, the heads included."""
    return [[cell.strip() for cell in row] for row in _read(html).rows]


def titles(html: str) -> list[str]:
    """What hovering says, in the page's order."""
    return _read(html).titles


def count_class(html: str, name: str) -> int:
    """How many elements are of a class."""
    return _read(html).classes.count(name)
