"""The lines of signed headers: quickly made if they are tidy, and the same if they are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.sigv4.canonical import HeaderLines

names = st.lists(
    st.sampled_from([b"host", b"x-amz-date", b"x-amz-target", b"%b", b"a%%"]), min_size=1, unique=True
)
values = st.lists(
    st.sampled_from([b"a", b"b:c", b": ", b" ", b"\t", b"\n", b"\r\n ", b"\v", b"\f", b"%b", b"\xff"])
).map(b"".join)


@given(names, st.data())
def test_runs_of_white_space_become_one_space(names: list[bytes], data: st.DataObject) -> None:
    headers = {name: data.draw(values) for name in names}
    expected = b"".join(name + b":" + b" ".join(headers[name].split()) + b"\n" for name in names)
    assert HeaderLines(names).of({**headers, b"other": b"  x"}) == expected


def test_a_missing_header_is_an_error() -> None:
    with pytest.raises(KeyError):
        HeaderLines([b"host", b"x-amz-date"]).of({b"host": b"h"})
