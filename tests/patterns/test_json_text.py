"""The JSON parser of attributes: it reads what any other reads."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.patterns import JsonTextError, parse_json
from penstock.patterns.compact import compact_json

_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | st.text(max_size=5)
)
_VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=3), each, max_size=3)
)


@given(_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_and_compacted(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert parse_json(text) == value
    compact, tokens = compact_json(text)
    assert json.loads(compact) == value
    assert len(compact) <= len(text)
    assert [compact[token.start : token.end] for token in tokens if token.kind in "{}[]"] == [
        token.kind for token in tokens if token.kind in "{}[]"
    ]


@given(st.text('{}[]",:0123456789.eE+-truefalsn\\ux \n', max_size=30) | st.text(max_size=20))
def test_any_text_is_read_as_another_parser_reads_it(text: str) -> None:
    try:
        value = parse_json(text)
    except JsonTextError as error:
        assert "line: " in error.reason
        assert not _is_json(text)
        return
    assert repr(value) == repr(json.loads(text))


def _is_json(text: str) -> bool:
    try:
        value = json.loads(text, parse_constant=lambda name: 1 / 0)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is none
    except (ValueError, ZeroDivisionError):
        return False
    return True
