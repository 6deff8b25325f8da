"""Generated tests draw the same examples in every run, whatever else was imported."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn() -> list[str]:
    texts: list[str] = []

    @settings(max_examples=300)
    @given(text=st.text())
    def draw(text: str) -> None:
        texts.append(text)

    draw()
    return texts


def test_draws_do_not_depend_on_loaded_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    names = [f"name {number}" for number in range(50)]
    (tmp_path / "module_with_constants.py").write_text(f"NAMES = {names!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("module_with_constants")
    assert drawn() == before
