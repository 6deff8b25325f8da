"""Watched files: taken up once, whole, and never lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth import secret_files as module
from penstock.auth.secret_files import FileWatch


def states(monkeypatch: pytest.MonkeyPatch, *seen: str) -> FileWatch:
    """A watch whose looks find these states, one after another; the first is settled."""
    left = iter(seen)
    monkeypatch.setattr(module, "stamp", lambda _: next(left))
    watch = FileWatch(Path("file"))
    watch.mark_read()
    return watch


def test_a_change_is_reported_when_two_looks_found_the_same_state(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = states(monkeypatch, *"aabccc")
    assert [watch.has_changed() for _ in range(5)] == [False, False, False, True, True]


def test_a_state_that_was_read_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = states(monkeypatch, *"abbb")
    assert [watch.has_changed() for _ in range(2)] == [False, True]
    watch.mark_read()
    assert not watch.has_changed()


def test_an_unread_state_is_a_change_even_if_it_is_the_former_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = states(monkeypatch, *"abbbaa")
    assert [watch.has_changed() for _ in range(2)] == [False, True]
    watch.mark_unread()
    assert watch.has_changed()
    assert [watch.has_changed() for _ in range(2)] == [False, True]


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.booleans()))
def test_whatever_happens_a_reader_ends_with_the_last_state(seen: list[str], failures: list[bool]) -> None:
    """Reads fail now and then; once they do not, and the file rests, what it says has been read."""
    with pytest.MonkeyPatch.context() as patch:
        watch = states(patch, *seen, *seen[-1] * (len(failures) + 3))
        has, fails = seen[0], iter(failures)
        for now in [*seen[1:], *seen[-1] * (len(failures) + 3)]:
            if not watch.has_changed():
                continue
            if next(fails, False):
                watch.mark_unread()
            else:
                watch.mark_read()
                has = now
        assert has == seen[-1]


def test_any_file_and_its_permissions_are_watched(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    watch = FileWatch(one, other)
    watch.mark_read()
    changes: list[Callable[[], None]] = [other.touch, lambda: one.chmod(0o640), other.unlink]
    for change in changes:
        change()
        assert [watch.has_changed() for _ in range(2)] == [False, True]
        watch.mark_read()
        assert not watch.has_changed()
