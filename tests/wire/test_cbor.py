"""The CBOR codec: the examples of RFC 8949, what botocore writes, and that no bytes raise anything but a Fault."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.cbor import decode, encode
from penstock.wire.service import Fault
from support.cpu import cost
from support.rows import every_row


@every_row(
    ("data", "value"),
    [
        ("00", 0), ("17", 23), ("1818", 24), ("1903e8", 1000), ("1b000000e8d4a51000", 1_000_000_000_000),
        ("1bffffffffffffffff", 2**64 - 1), ("20", -1), ("3903e7", -1000), ("3bffffffffffffffff", -(2**64)),
        ("f90000", 0.0), ("f93c00", 1.0), ("fb3ff199999999999a", 1.1), ("fa47c35000", 100000.0), ("f97c00", math.inf),
        ("f4", False), ("f5", True), ("f6", None), ("f7", None), ("c11a514b67b0", 1363896240),
        ("c1fb41d452d9ec200000", 1363896240.5), ("40", b""), ("4401020304", b"\1\2\3\4"), ("60", ""),
        ("6449455446", "IETF"), ("62c3bc", "ü"), ("80", []), ("83010203", [1, 2, 3]),
        ("8301820203820405", [1, [2, 3], [4, 5]]),
        ("a0", {}), ("a26161016162820203", {"a": 1, "b": [2, 3]}), ("5f42010243030405ff", b"\1\2\3\4\5"),
        ("7f657374726561646d696e67ff", "streaming"), ("9fff", []), ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf61610161629f0203ffff", {"a": 1, "b": [2, 3]}),
    ],
)  # fmt: skip
def test_examples_of_the_standard(data: str, value: Any) -> None:
    assert decode(bytes.fromhex(data)) == value


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.binary(max_size=300)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    lambda inner: (
        st.lists(inner, max_size=30) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=5)
    ),
    max_leaves=20,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


@given(_values)
def test_what_is_encoded_is_decoded(value: Any) -> None:
    assert decode(encode(value)) == without_nulls(value)


def test_lists_and_maps_have_an_indefinite_length_as_those_of_aws() -> None:
    assert encode({"a": 1, "b": [2, [], {}], "c": None}).hex() == "bf61610161629f029fffbfffffff"
    assert encode(b"\1\2").hex() == "420102", "text and bytes say their length"


@every_row(
    "data",
    [
        "", "18", "1c", "1f", "3f", "df", "62ff", "62c3", "61ff", "ff", "81ff", "9f", "a1", "a101", "a10102",
        "bf6161ffff", "5f6161ff", "5f5f4101ffff", "f8ff", "f0", "0000", "9b7fffffffffffffff", "5b7fffffffffffffff",
        "bb7fffffffffffffff",
        "81" * 40 + "00", "c1" * 40 + "00", "9f" * 100_000,
    ],
)  # fmt: skip
def test_what_is_not_well_formed_is_refused(data: str) -> None:
    with pytest.raises(Fault) as caught:
        decode(bytes.fromhex(data))
    assert caught.value.shape == "SerializationException"


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_fault(data: bytes) -> None:
    try:
        decode(data)
    except Fault as fault:
        assert fault.shape == "SerializationException"


SURROGATES = b"\xed\xa0\x80" * 2_666_666


@pytest.mark.parametrize(
    "data",
    [
        b"\x9f" + b"\x00" * 8_000_000,
        b"\x5f" + b"\x40" * 8_000_000,
        b"\x7a" + len(SURROGATES).to_bytes(4, "big") + SURROGATES,
    ],
    ids=["numbers", "chunks", "surrogates"],
)
def test_a_large_body_of_small_items_is_refused_quickly(data: bytes) -> None:
    def refused() -> None:
        with pytest.raises(Fault):
            decode(data)

    assert cost(refused) < 200
