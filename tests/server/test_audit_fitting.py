"""Whatever a caller sends as parameters, the trail tells as much of it as there is room for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.audit.fitting import fitted
from penstock.server.audit.spelling import spelled

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
    return len(msgspec.json.encode(value))


@given(PARAMETERS, st.sampled_from([2048, 5000, 160 * 1024]))
def test_it_fits_and_every_member_is_there(parameters: dict[str, Any], most: int) -> None:
    told = fitted(parameters, most)
    assert size(told) <= most
    assert told.keys() == parameters.keys() and told["maxResults"] == parameters["maxResults"]


@pytest.mark.parametrize("padding", ["x", '"', "\n", "ä", "\U00010330", "\ud800"])
def test_the_longest_gives_and_the_room_is_used(padding: str) -> None:
    told = fitted({"attributes": {"Policy": "p" * 500, "RedrivePolicy": padding * 50_000}}, 2048)
    shown = told["attributes"]["RedrivePolicy"]
    assert told["attributes"]["Policy"] == "p" * 500
    assert shown.endswith("…") and 2020 <= size(told) <= 2048


def test_the_long_ones_share_what_the_short_ones_leave() -> None:
    told = fitted({"a": "a" * 9000, "b": "b" * 9000, "c": "short"}, 2048)
    assert told["c"] == "short" and len(told["a"]) == len(told["b"]) > 1000


def test_what_is_too_many_is_counted() -> None:
    told = fitted(
        {"names": [f"n{i}" for i in range(5000)], "tags": {f"k{i}": "v" for i in range(5000)}}, 2048
    )
    assert told["names"][:2] == ["n0", "n1"] and told["names"][-1] == f"… {5000 - 16} more"
    assert told["tags"]["k0"] == "v" and told["tags"]["…"] == f"{5000 - 16} more"


def test_a_thousand_accounts_are_all_told() -> None:
    accounts = [f"{i:012}" for i in range(999)]
    told = fitted({"aWSAccountIds": [*accounts, "x" * 200_000]}, 160 * 1024)
    assert told["aWSAccountIds"][:-1] == accounts


@pytest.mark.parametrize(
    "parameters",
    [
        {"Policy": "\u0085" * 1_000_000},
        {f"a{i}": "\u0085" * 2000 for i in range(1900)},
        {"Label": "\x7f" * 3_000_000},
    ],
    ids=["one text", "many texts", "delete"],
)
def test_what_is_cut_anyway_is_not_measured(
    parameters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each character that has to be escaped takes time, and a request has room for millions."""
    spelt: list[int] = []

    def counted(value: Any) -> bytes:
        text = spelled(value)
        spelt.append(len(text))
        return text

    monkeypatch.setattr("penstock.server.audit.fitting.spelled", counted)
    fitted(parameters, 2048)
    assert sum(spelt) < 100 * 2048
