"""Parameters that are too large for the trail, cut until they fit: nothing can be hidden behind padding.

Rule 1: what is short stays whole. The longest texts are cut, all to the same length, however many there are.
Rule 2: the first members of a list or a map stay, by name; of the rest there is a count.
Rule 3: whatever was cut says so, with an ellipsis.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from penstock.server.audit.spelling import plain, spelled

_CUT = "…"
# So much room there is for each member of a list or map: enough to tell its name and the beginning of its value.
_MEMBER_BYTES = 128


def fitted(parameters: Mapping[str, Any], bytes_max: int) -> Any:
    """At most so many bytes of JSON. The members of ``parameters`` are texts, numbers, and lists and maps of them."""
    kept = _thinned(parameters, bytes_max // _MEMBER_BYTES)
    # To measure exactly takes long, and a request may be large. No text is written shorter than it is in plain JSON,
    # so none can have more than its share by that.
    rough = _share([len(plain(text)) for text in _texts(kept)], bytes_max) + 1
    kept = _each_text(kept, lambda text: text[:rough])
    sizes = [_size(text) for text in _texts(kept)]
    share = _share(sizes, bytes_max - (_size(kept) - sum(sizes)))
    return _each_text(kept, lambda text: _cut(text, share))


def _thinned(value: Any, members_max: int) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()  # a lone surrogate is no UTF-8
    if not isinstance(value, Mapping | list):
        return value
    more = len(value) - members_max
    if isinstance(value, Mapping):
        kept = {
            _thinned(name, members_max): _thinned(item, members_max)
            for name, item in islice(value.items(), members_max)
        }
        return kept | {_CUT: f"{more} more"} if more > 0 else kept
    items = [_thinned(item, members_max) for item in value[:members_max]]
    return [*items, f"{_CUT} {more} more"] if more > 0 else items


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _share(sizes: list[int], budget: int) -> int:
    """How large a text may be so that all fit: what the short ones leave, the long ones share."""
    size = 0
    for sharing, size in zip(range(len(sizes), 0, -1), sorted(sizes), strict=True):
        if size * sharing > budget:
            return budget // sharing
        budget -= size
    return size


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _each_text(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return value


def _cut(text: str, share: int) -> str:
    if _size(text) <= share:
        return text
    begins = text[:share]
    room = share - len(_CUT.encode())
    fitting = bisect_right(range(len(begins) + 1), room, key=lambda length: _size(begins[:length])) - 1
    return begins[: max(fitting, 0)] + _CUT


def _size(value: Any) -> int:
    """As it is written: quotes and escapes count."""
    return len(spelled(value))
