"""``grader doctor`` on the sandbox: each layer as it was found, the lock as it was tried."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from grader.classroom import sandbox_layers
from grader.judge import layers
from grader.judge.layers import Layers

NO_LINUX = Layers(linux=False, bubblewrap=None, landlock=0, seccomp=False)
BARE_LINUX = dataclasses.replace(NO_LINUX, linux=True)


def found(monkeypatch: pytest.MonkeyPatch, here: Layers) -> list[sandbox_layers.Layer]:
    monkeypatch.setattr(Layers, "found", lambda: here)
    return list(sandbox_layers.found())


def test_another_system_gets_one_note_with_the_ways_out(monkeypatch) -> None:
    ((state, _, remedy),) = found(monkeypatch, NO_LINUX)
    assert state == "note"
    assert "Linux container" in remedy
    assert "WSL2" in remedy


def test_each_layer_that_is_missing_says_how_to_get_it(monkeypatch) -> None:
    rows = found(monkeypatch, BARE_LINUX)
    told = "\n".join(text + remedy for state, text, remedy in rows if state == "note")
    for words in (
        "bubblewrap is not installed", "apt-get install bubblewrap", "Landlock is not in this kernel",
        "apt-get install libseccomp2", "--isolation full refuses", "--isolation container refuses",
    ):  # fmt: skip
        assert words in told


def test_switches_that_deny_namespaces_are_named(monkeypatch) -> None:
    switch = "/proc/sys/user/max_user_namespaces"
    monkeypatch.setattr(layers, "line", lambda path: "0" if path == switch else "")
    (row,) = (r for r in found(monkeypatch, BARE_LINUX) if "namespaces" in r[1])
    assert row[0] == "note"
    assert switch in row[1]


@pytest.mark.parametrize(
    ("switch", "value", "word"),
    [
        ("apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("max_user_namespaces", "0", "administrator"),
        ("nothing", "0", "--isolation container"),
    ],
)
def test_a_denied_namespace_has_a_remedy_by_its_cause(monkeypatch, switch, value, word) -> None:
    monkeypatch.setattr(layers, "line", lambda path: value if path.endswith(switch) else "")
    assert word in layers.remedy("bwrap: setting up uid map: Permission denied")
    assert layers.remedy("bwrap: execvp python: No such file or directory") == ""
    assert layers.remedy("ModuleNotFoundError: no namespace package") == ""


def test_a_program_that_cannot_run_is_no_bubblewrap(monkeypatch) -> None:
    rows = found(monkeypatch, dataclasses.replace(BARE_LINUX, bubblewrap=Path(os.devnull)))
    assert any("can't be run" in text for state, text, _ in rows if state == "note")


@pytest.mark.needs_sandbox
def test_where_all_is_there_the_lock_was_tried() -> None:
    rows = list(sandbox_layers.found())
    assert any("a process was locked in" in text for state, text, _ in rows if state == "ok")
