"""Lists in pages. A token names the last item of its page and the list it belongs to."""

from __future__ import annotations

import base64
from bisect import bisect_right

import msgspec

from penstock.names import QueueName
from penstock.services.sqs.limits import LIST_RESULTS_MAX
from penstock.wire.faults import invalid_parameter


class _Token(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    request: list[str]  # what selects the list; the size of a page may change from one to the next
    after: str


def check_max_results(max_results: int | None, token: str | None) -> None:
    if max_results is not None and not 1 <= max_results <= LIST_RESULTS_MAX:
        raise invalid_parameter(
            "Value for parameter MaxResults is invalid. "
            f"Reason: MaxResults must be an integer between 1 and {LIST_RESULTS_MAX}."
        )
    if token is not None and max_results is None:
        raise invalid_parameter("MaxResults is a mandatory parameter when you provide a value for NextToken.")


def page(
    names: list[QueueName], request: list[str], max_results: int | None, token: _Token | None
) -> tuple[list[QueueName], str | None]:
    """A page of sorted names, and the token of the next one if more remain and pages were asked for."""
    start = bisect_right(names, token.after, key=lambda name: name.name) if token else 0
    found = names[start : start + (max_results or LIST_RESULTS_MAX)]
    if max_results is None or start + len(found) >= len(names):
        return found, None
    return found, _write(_Token(request, found[-1].name))


def read_token(text: str) -> _Token | None:
    """The token that ``text`` is, or None."""
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=_Token)
    except (ValueError, RecursionError):
        return None


def _write(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()
