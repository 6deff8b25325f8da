"""Parameters of any size are cut to fit, and no value can be hidden behind another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.audit.encode import encode, fit

TEXTS = st.text(st.characters(), max_size=50) | st.builds(
    lambda text, times: text * times, st.text(min_size=1), st.integers(1, 3000)
)
PARAMETERS = st.fixed_dictionaries(
    {
        "queueUrl": TEXTS,
        "maxResults": st.integers(-(2**63), 2**63 - 1),
        "attributes": st.dictionaries(TEXTS, TEXTS | st.none(), max_size=40),
        "aWSAccountIds": st.lists(TEXTS, max_size=40),
    }
)


def size(value: Any) -> int:
    return len(encode(value))


def fitted(parameters: dict[str, Any], most: int) -> Any:
    shown, full_size = fit(parameters, most)
    assert (full_size is None) == (shown is parameters)
    return shown


@given(PARAMETERS, st.sampled_from([2048, 5000, 160 * 1024]))
def test_the_result_fits_and_every_parameter_is_there(parameters: dict[str, Any], most: int) -> None:
    shown = fitted(parameters, most)
    assert size(shown) <= most
    assert shown.keys() == parameters.keys() and shown["maxResults"] == parameters["maxResults"]


@pytest.mark.parametrize("padding", ["x", '"', "\n", "ä", "\U00010330", "\ud800"])
def test_the_longest_text_is_cut_and_the_room_is_used(padding: str) -> None:
    shown = fitted({"attributes": {"Policy": "p" * 500, "RedrivePolicy": padding * 50_000}}, 2048)
    attributes = shown["attributes"]
    assert attributes["Policy"] == "p" * 500
    assert attributes["RedrivePolicy"].endswith("…") and 2020 <= size(shown) <= 2048


def test_long_texts_share_what_short_ones_leave() -> None:
    shown = fitted({"a": "a" * 9000, "b": "b" * 9000, "c": "short"}, 2048)
    assert shown["c"] == "short" and len(shown["a"]) == len(shown["b"]) > 1000


def test_members_beyond_the_limit_are_counted() -> None:
    shown = fitted(
        {"names": [f"n{i}" for i in range(5000)], "tags": {f"k{i}": "v" for i in range(5000)}}, 2048
    )
    assert shown["names"][:2] == ["n0", "n1"] and shown["names"][-1] == f"… {5000 - 16} more"
    assert shown["tags"]["k0"] == "v" and shown["tags"]["…"] == f"{5000 - 16} more"


def test_a_thousand_accounts_are_all_shown() -> None:
    accounts = [f"{i:012}" for i in range(999)]
    shown = fitted({"aWSAccountIds": [*accounts, "x" * 200_000]}, 160 * 1024)
    assert shown["aWSAccountIds"][:-1] == accounts


@pytest.mark.parametrize(
    "parameters",
    [
        {"Policy": "\u0085" * 1_000_000},
        {f"a{i}": "\u0085" * 2000 for i in range(1900)},
        {"Label": "\x7f" * 3_000_000},
    ],
    ids=["one text", "many texts", "delete"],
)
def test_text_that_is_cut_anyway_is_not_escaped_first(
    parameters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Escaping takes time for each character, and a request has room for millions."""
    escaped: list[int] = []

    def counted(value: Any) -> bytes:
        text = encode(value)
        escaped.append(len(text))
        return text

    monkeypatch.setattr("penstock.server.audit.encode.encode", counted)
    fitted(parameters, 2048)
    assert sum(escaped) < 100 * 2048
