"""Is a rendered site whole? Every link inside it leads somewhere, and it fetches nothing from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself; a link that a reader follows is another matter.
_FETCHED = {
    "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src",
    "embed": "src", "object": "data", "input": "src",
}  # fmt: skip
_FETCHING_LINKS = {
    "stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "prefetch",
    "manifest",
}  # fmt: skip
_IN_STYLES = re.compile(r"""url\(\s*['"]?([^'")\s]+)|@import\s+['"]([^'"]+)""")


@dataclass(frozen=True)
class Found:
    """problems: a sentence each; links: followed inside the site; outside: addresses that pages name."""

    pages: int
    links: int
    outside: tuple[str, ...]
    problems: tuple[str, ...]


class _Page(HTMLParser):
    """A page's anchors, its links, and what it makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if (
            tag == "link"
            and found.get("href")
            and set(found.get("rel", "").split()) & _FETCHING_LINKS
        ):
            self.fetched.append(found["href"])
        if found.get(_FETCHED.get(tag, ""), ""):
            self.fetched.append(found[_FETCHED[tag]])
        self.fetched += [
            place.split()[0] for place in found.get("srcset", "").split(",") if place.split()
        ]
        self.fetched += _in_styles(found.get("style", ""))

    handle_startendtag = handle_starttag


def examine(site: Path) -> Found:
    """Follow every link of every page of the site, and look at all that pages and styles fetch."""
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in files}
    problems: list[str] = []
    outside: set[str] = set()
    links = 0
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside.add(link)
                continue
            links += 1
            problems += [f"{name}: the link {link} {what}" for what in _broken(path, parts, pages)]
        problems += [f"{name}: {what}" for what in _fetches(path, page.fetched)]
    for path in sorted(site.rglob("*.css")):
        fetched = _in_styles(path.read_text(encoding="utf-8"))
        name = path.relative_to(site).as_posix()
        problems += [f"{name}: fetches {place}" for place in fetched if _elsewhere(place)]
    return Found(len(pages), links, tuple(sorted(outside)), tuple(dict.fromkeys(problems)))


def _broken(path: Path, parts: object, pages: dict[Path, _Page]) -> Iterator[str]:
    place, fragment = unquote(parts.path), unquote(parts.fragment)  # type: ignore[attr-defined]
    target = (path.parent / place).resolve() if place else path
    if not target.exists():
        yield "leads nowhere"
    elif fragment and target in pages and fragment not in pages[target].anchors:
        yield f"names no place of {target.name}"


def _fetches(path: Path, fetched: list[str]) -> Iterator[str]:
    for place in fetched:
        if _elsewhere(place):
            yield f"fetches {place}, which is not on this site"
        elif not place.startswith("data:"):
            file = unquote(urlsplit(place).path)
            if not (path.parent / file).is_file():
                yield f"fetches {place}, which is missing"


def _elsewhere(place: str) -> bool:
    return place.startswith("//") or urlsplit(place).scheme in ("http", "https", "ftp", "ws", "wss")


def _in_styles(text: str) -> list[str]:
    return [one or other for one, other in _IN_STYLES.findall(text)]
