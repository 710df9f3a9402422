"""Zips and folders from strangers: what leads outside is refused, and the rest is read."""

from __future__ import annotations

import io
import os
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from books import laid_out, zipped

from grader.classroom.grading import files, zips
from grader.classroom.grading.files import Tree
from grader.classroom.grading.names import folder_names, natural


def walk(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Everything below a path that could be read, and what was refused."""
    refused: list[str] = []
    read: dict[str, bytes] = {}
    with Tree(refused.append) as tree:
        for file in tree.below(path):
            try:
                read["/".join(file.parts)] = file.load()
            except zips.Refused as error:
                refused.append(str(error))
    return read, refused


def saved(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "class.zip"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "name",
    [
        "../up.ipynb", "a/../../up.ipynb", "/etc/up.ipynb", "C:/up.ipynb", "C:\\up.ipynb",
        "..\\..\\up.ipynb", "\\\\host\\share\\up.ipynb", "a/..",
    ],
)  # fmt: skip
def test_a_name_that_leads_out_is_refused_and_the_others_are_read(
    tmp_path: Path, name: str
) -> None:
    read, refused = walk(saved(tmp_path, zipped({name: b"1", "fine.ipynb": b"2"})))
    assert read == {"fine.ipynb": b"2"}
    assert len(refused) == 1
    assert "leads out of the zip" in refused[0]
    assert not (tmp_path.parent / "up.ipynb").exists()


def member(name: str, mode: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, "/etc/passwd")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("mode", "why"),
    [(stat.S_IFLNK | 0o777, "is a link"), (stat.S_IFIFO | 0o600, "no plain file")],
)
def test_links_and_devices_in_a_zip_are_refused(tmp_path: Path, mode: int, why: str) -> None:
    read, refused = walk(saved(tmp_path, member("x.ipynb", mode)))
    assert read == {}
    assert why in refused[0]


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes as Unix has them")
def test_links_and_pipes_in_a_folder_are_refused(tmp_path: Path) -> None:
    laid_out(tmp_path, {"secret.ipynb": b"s", "in/fine.ipynb": b"f"})
    (tmp_path / "in/link.ipynb").symlink_to(tmp_path / "secret.ipynb")
    (tmp_path / "in/folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "in/pipe.ipynb")
    read, refused = walk(tmp_path / "in")
    assert read == {"fine.ipynb": b"f"}
    assert sorted(text.rpartition(" is ")[2][:4] for text in refused) == ["a li", "a li", "no p"]


@pytest.mark.skipif(sys.platform == "win32", reason="links as Unix has them")
def test_a_file_that_becomes_a_link_after_we_looked_is_not_followed(tmp_path: Path) -> None:
    laid_out(tmp_path, {"secret": b"s", "in/x.ipynb": b"f"})
    with Tree(print) as tree:
        (file,) = tree.below(tmp_path / "in")
        (tmp_path / "in/x.ipynb").unlink()
        (tmp_path / "in/x.ipynb").symlink_to(tmp_path / "secret")
        with pytest.raises(zips.Refused, match="can't be read"):
            file.load()


@pytest.mark.skipif(sys.platform == "win32", reason="links as Unix has them")
def test_a_link_that_the_teacher_names_is_meant(tmp_path: Path) -> None:
    laid_out(tmp_path, {"x.ipynb": b"f"})
    (tmp_path / "latest.ipynb").symlink_to(tmp_path / "x.ipynb")
    assert walk(tmp_path / "latest.ipynb") == ({"latest.ipynb": b"f"}, [])


def test_a_bomb_costs_no_more_than_the_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 2**20)
    monkeypatch.setattr(files.File.load, "__defaults__", (2**20,))
    data = zipped({"bomb.ipynb": b"0" * (50 * 2**20), "fine.ipynb": b"1"})
    assert len(data) < 10**5
    read, refused = walk(saved(tmp_path, data))
    assert read == {"fine.ipynb": b"1"}
    assert "larger than 1 MiB" in refused[0]


def test_a_size_that_the_zip_claims_is_not_believed(tmp_path: Path) -> None:
    data = zipped({"x.ipynb": b"12345678"}).replace((8).to_bytes(4, "little"), b"\x01\0\0\0")
    read, refused = walk(saved(tmp_path, data))
    assert read in ({}, {"x.ipynb": b"1"})
    assert bool(refused) == (read == {})


def test_other_packings_passwords_and_damage_are_refused(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("bz.ipynb", b"0" * 1000)
    assert "packed in a way" in walk(saved(tmp_path, stream.getvalue()))[1][0]
    locked = bytearray(zipped({"x.ipynb": b"1"}))
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    assert "password" in walk(saved(tmp_path, bytes(locked)))[1][0]
    broken = bytearray(zipped({"x.ipynb": b"1" * 10_000}))
    broken[45] ^= 0xFF
    assert "damaged" in walk(saved(tmp_path, bytes(broken)))[1][0]
    assert "no zip that can be opened" in walk(saved(tmp_path, b"PK nothing"))[1][0]


def test_zips_in_zips_are_folders_to_a_depth(tmp_path: Path) -> None:
    data = zipped({"x.ipynb": b"1"})
    for name in ("c.zip", "b.zip", "a.zip"):
        data = zipped({name: data, "y.ipynb": b"2"})
    read, refused = walk(saved(tmp_path, data))
    assert read == {"y.ipynb": b"2", "a.zip/y.ipynb": b"2", "a.zip/b.zip/y.ipynb": b"2"}
    assert "in a zip in a zip in a zip" in refused[0]


def test_one_broken_zip_in_a_zip_does_not_stop_the_others(tmp_path: Path) -> None:
    data = zipped({"a.zip": b"no zip", "b.zip": zipped({"x.ipynb": b"1"})})
    read, refused = walk(saved(tmp_path, data))
    assert read == {"b.zip/x.ipynb": b"1"}
    assert "a.zip" in refused[0]


def test_two_members_of_one_name_are_both_there(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped([("x.ipynb", b"1"), ("x.ipynb", b"2")])
    with Tree(print) as tree:
        found = [(file.copy, file.load()) for file in tree.below(saved(tmp_path, data))]
    assert found == [(0, b"1"), (1, b"2")]


def test_names_in_utf8_are_read_whether_or_not_the_zip_says_so(tmp_path: Path) -> None:
    data = zipped({"Žofie 漢.ipynb": b"1"})
    unsaid = bytearray(data)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        unsaid[unsaid.index(mark) + at + 1] &= ~0x08
    assert set(walk(saved(tmp_path, bytes(unsaid)))[0]) == {"Žofie 漢.ipynb"}
    assert set(walk(saved(tmp_path, data))[0]) == {"Žofie 漢.ipynb"}
    old = data.replace("Žofie 漢".encode(), b"J\x81rgen 123")  # cp437's ü
    old = bytearray(old)
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        old[old.index(mark) + at + 1] &= ~0x08
    assert set(walk(saved(tmp_path, bytes(old)))[0]) == {"Jürgen 123.ipynb"}


def test_what_systems_leave_behind_is_nobodys(tmp_path: Path) -> None:
    names = ["__MACOSX/._x.ipynb", ".ipynb_checkpoints/x.ipynb", "a/.DS_Store", "~$x.ipynb"]
    assert walk(saved(tmp_path, zipped(dict.fromkeys(names, b"1")))) == ({}, [])
    assert walk(laid_out(tmp_path / "in", dict.fromkeys(names, b"1"))) == ({}, [])


def test_too_many_files_end_the_walk_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 3)
    read, refused = walk(saved(tmp_path, zipped({f"{n}.ipynb": b"1" for n in range(9)})))
    assert len(read) == 3
    assert "more than 3 files" in refused[0]
    assert len(refused) == 1


def test_folder_names_are_safe_and_no_two_alike() -> None:
    odd = [
        "alice", "Alice", "../../etc", "a/b", "a\\b", "a:b", "", ".", "..", "CON", "nul.txt",
        "é", "e\u0301", "x" * 300, "x" * 301, "漢字" * 100, "ends ", "ends.", "a\nb", "123 [abc]",
        "jane@example.org", "=cmd()", "*?<>|",
    ]  # fmt: skip
    names = folder_names(odd)
    assert names["jane@example.org"] == "jane@example.org"
    assert len({name.casefold() for name in names.values()}) == len(odd)
    for name in names.values():
        assert 0 < len(name.encode()) <= 120
        assert not set(name) & set('/\\:*?"<>|\n\0')
        assert name.strip(" .") == name
        assert name.upper() not in {"CON", "NUL.TXT"}
    assert folder_names(odd) == folder_names(odd[::-1])


def test_natural_order() -> None:
    names = ["hw 10.ipynb", "hw (2).ipynb", "hw 2.ipynb", "hw.ipynb", "hw (1).ipynb"]
    ordered = sorted(names, key=natural)
    assert ordered.index("hw 2.ipynb") < ordered.index("hw 10.ipynb")
    assert ordered.index("hw (1).ipynb") < ordered.index("hw (2).ipynb")
    sorted(["1", "a", "", "9" * 40], key=natural)
