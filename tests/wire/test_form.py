"""Form-encoded parameters as a tree: what is decoded, what is refused, and that everything is bounded."""

from __future__ import annotations

import re
from urllib.parse import quote, quote_plus, unquote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.query import PARAMETERS_MAX, Branch, decode_parameter, read_form
from penstock.wire.service import Fault
from support.cpu import cost
from support.rows import every_row


def at(tree: Branch, *names: str) -> str | None:
    for name in names:
        tree = tree.below[name]
    return tree.value


def test_the_parts_of_a_name_are_levels_of_the_tree() -> None:
    tree = read_form(b"Action=A&Tag.2.Key=colour&Tag.2.Value=deep+blue&Tag.1.Key=&&flag&=x")
    assert at(tree, "Action") == "A"
    assert at(tree, "Tag", "2", "Key") == "colour"
    assert at(tree, "Tag", "2", "Value") == "deep blue"
    assert at(tree, "Tag", "1", "Key") == ""
    assert at(tree, "flag") == ""
    assert at(tree, "Tag") is None


def test_the_first_of_two_values_counts_and_the_url_comes_before_the_body() -> None:
    assert at(read_form(b"a=1&a=2", b"a=3&b=4"), "a") == "1"
    assert at(read_form(b"a=1", b"b=4"), "b") == "4"


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.sampled_from(["", "=&/.+-_,;: ~*\r\n"])
)
def test_escapes_are_decoded_as_urllib_does(text: str, safe: str) -> None:
    for encoded in (quote(text, safe=safe), quote(text, safe=safe).lower(), quote_plus(text)):
        assert decode_parameter(encoded.encode()) == unquote_plus(encoded)


@given(st.lists(st.tuples(st.from_regex("[a-z]{1,5}", fullmatch=True), st.text()), unique_by=lambda p: p[0]))
def test_encoded_pairs_are_decoded(pairs: list[tuple[str, str]]) -> None:
    try:
        encoded = urlencode(pairs).encode()
    except UnicodeEncodeError:
        return
    tree = read_form(encoded)
    assert {name: branch.value for name, branch in tree.below.items()} == dict(pairs)


def test_a_surrogate_is_let_through_for_its_field_to_check() -> None:
    assert decode_parameter(b"%ED%A0%80") == "\ud800"


@every_row("text", [b"%", b"%4", b"%zz", b"a%4gb", b"%%41", b"%\n41", b"\xff", b"%C3", b"%C0%80"])
def test_what_cannot_be_decoded_is_malformed(text: bytes) -> None:
    for form in (b"a=" + text, text + b"=a"):
        with pytest.raises(Fault) as caught:
            at(read_form(form), "a")
        assert caught.value.code == "MalformedInput"


@given(st.text("%\r\n4aG=_+é", max_size=12))
def test_only_two_hexadecimal_digits_are_an_escape(text: str) -> None:
    given = text.encode()
    is_broken = re.search(rb"%(?![0-9A-Fa-f]{2})", given) is not None
    try:
        plain = decode_parameter(given)
    except Fault as fault:
        assert is_broken == ("escape" in fault.message)
    else:
        assert not is_broken
        assert plain == unquote_plus(text)


def test_a_value_that_is_not_read_is_not_decoded() -> None:
    tree = read_form(b"Action=A&Waste=%&" + b"%41" * 1000 + b"=a name that long is no field's")
    assert at(tree, "Action") == "A"
    assert set(tree.below) == {"Action", "Waste"}
    with pytest.raises(Fault):
        at(tree, "Waste")


def test_the_number_of_parameters_is_bounded() -> None:
    most = b"&".join(b"a=1" for _ in range(PARAMETERS_MAX))
    assert at(read_form(most), "a") == "1"
    for sources in ((most + b"&a=1",), (most, b"&"), (b"&" * 8_000_000,)):
        with pytest.raises(Fault) as caught:
            read_form(*sources)
        assert caught.value.code == "MalformedInput"


def test_levels_are_made_only_where_a_field_asks_for_them() -> None:
    tree = read_form(b".".join([b"a"] * 100) + b"=1")
    below = tree.below["a"]
    assert below.deeper == [(".".join(["a"] * 99), b"1")]
    assert list(below.below) == ["a"] and not below.deeper


def test_the_largest_body_is_decoded_quickly() -> None:
    assert len(decode_parameter(b"a%20" * 2_000_000)) == 4_000_000
    assert cost(lambda: decode_parameter(b"a%20" * 2_000_000)) < 1000


@pytest.mark.parametrize("surrogate", [b"\xed\xa0\x80", b"%ED%A0%80"])
def test_a_value_of_encoded_surrogates_costs_little_more_than_text(surrogate: bytes) -> None:
    value = surrogate * (8 * 1024 * 1024 // len(surrogate))

    def refused() -> None:
        with pytest.raises(Fault):
            decode_parameter(value)

    assert cost(refused) < 200


def test_a_few_surrogates_are_let_through() -> None:
    assert decode_parameter(b"%ED%A0%80" * 100) == "\ud800" * 100
