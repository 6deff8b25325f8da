"""Which messages of a queue are to be shown or changed. All conditions of a filter must hold.

Some conditions are decided by what changes of a message (its row and state), which is cheap, the others by its
content, which may have to be read. A regular expression can take for ever, and so can its compilation: the time of
all searches of a request is bounded together, and patterns that grow too large are refused beforehand.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from penstock.errors import FilterInvalid, FilterTooSlow
from penstock.limits import SECOND
from penstock.names import Arn, without_partition
from penstock.queues.json_path import parse_condition
from penstock.queues.messages import Attribute, Content, State
from penstock.store.changes import EntryRow

if TYPE_CHECKING:
    import regex

STATES = {"visible": State.READY, "delayed": State.DELAYED, "in_flight": State.IN_FLIGHT}

_TEXT_LENGTH_MAX = 1000  # of each text: tasks store their filter, and reading one takes time
_LENGTHS_MAX = {
    "id": 36,  # SQS: an id is a UUID
    "regex": 500,  # compiling some patterns takes time by the square of their length
}
_IDS_MAX = 100
_ATTRIBUTES_MAX = 10  # SQS: a message has no more
_CUT_LENGTH, _CUT_IDS = 100, 10  # of what is shown of a filter
_PATTERN_SIZE_MAX = 20_000
_COUNT_WEIGHT = 10  # a repetition of something takes this many times the memory of a character
_PARENTHESES_MAX = 40  # each level of alternatives in alternatives takes the time of all within
_PATTERNS_KEPT = 32  # each takes less than a megabyte
_SECONDS_MAX = 1e9
# What is cheap to compile, which is what Python's re takes as well. Of the rest, case folding to several characters
# (the flags f and V1) takes seconds and gigabytes, endless calls of groups fill the memory, and spaces and comments
# (the flag x) hide repetitions from the estimate below.
_UNSUPPORTED = re.compile(
    r"""(?<!\\)(?:\\\\)*(?:         # not escaped
    \(\?(?!                         # a parenthesis with a meaning that is none of these:
        [:>=!<(] | P[<=]            # groups, lookarounds, conditions, references to groups
        | [aimsu]*(?:-[ims]*)?[:)]  # flags
    )
    | \\[LRX]                       # a named list, any line break, any grapheme: each is a large pattern
    )""",
    re.VERBOSE,
)
_REPEATED_GROUP = re.compile(r"\)(?:[*+?]|\{\s*([0-9]*))")
_REPEATED = re.compile(r"\{\s*([0-9]+)")


class RegexBudget:
    """The processor time that all searches of one request may take together."""

    def __init__(self, seconds: float, timer: Callable[[], float]) -> None:
        """``timer``: the processor time of the thread that searches. Waiting for other threads does not count."""
        self._left_s = seconds
        self._timer = timer

    def search(self, pattern: regex.Pattern[str], text: str) -> bool:
        """Raises FilterTooSlow. Other threads run while it matches."""
        begun = self._timer()
        try:
            if self._left_s <= 0:
                raise TimeoutError
            return pattern.search(text, timeout=self._left_s, concurrent=True) is not None
        except TimeoutError:
            self._left_s = 0.0  # the library goes by the time of all threads
            raise FilterTooSlow(
                "regex: the search takes too long; write a pattern without repetitions of repetitions such as (a+)+, "
                "or narrow the messages down by other conditions"
            ) from None
        finally:
            self._left_s -= self._timer() - begun


class InspectedMessage(Protocol):
    """A message with what is known of it."""

    @property
    def row(self) -> EntryRow: ...
    @property
    def content(self) -> Content | None: ...
    @property
    def state(self) -> State: ...


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    state: str | None = None  # visible, delayed, in_flight
    body: str | None = None  # a part of it
    regex: str | None = None  # found somewhere in the body
    json: str | None = None
    attribute: tuple[str, ...] = ()  # each "name" or "name=value"
    group: str | None = None
    id: tuple[str, ...] = ()  # any of these
    source: str | None = None  # name or ARN of the queue that a dead letter came from
    older_than_s: float | None = None
    younger_than_s: float | None = None
    receives_min: int | None = None
    receives_max: int | None = None

    def check(self) -> None:
        """Raises FilterInvalid, which says what to write."""
        self._check_lengths()
        if self.state is not None and self.state not in STATES:
            raise FilterInvalid(
                f"state: {self.state[:40]!r} is not a state; write visible, delayed or in_flight"
            )
        for name in ("older_than_s", "younger_than_s"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 <= seconds <= _SECONDS_MAX:
                raise FilterInvalid(f"{name}: write a number of seconds, 0 or more")
        for name in ("receives_min", "receives_max"):
            if (getattr(self, name) or 0) < 0:
                raise FilterInvalid(f"{name}: write a number of receives, 0 or more")
        if any(not condition.partition("=")[0] for condition in self.attribute):
            raise FilterInvalid("attribute: write the name of an attribute, or name=value")
        if self.json is not None:
            parse_condition(self.json)
        if self.regex is not None:
            compile_pattern(self.regex)

    def _check_lengths(self) -> None:
        for name in self.__struct_fields__:
            given = getattr(self, name)
            most = _LENGTHS_MAX.get(name, _TEXT_LENGTH_MAX)
            for text in given if isinstance(given, tuple) else (given,):
                if isinstance(text, str) and len(text) > most:
                    raise FilterInvalid(f"{name}: write at most {most} characters")
        for name, most in (("attribute", _ATTRIBUTES_MAX), ("id", _IDS_MAX)):
            if len(getattr(self, name)) > most:
                raise FilterInvalid(f"{name}: write at most {most} of them")

    def cut(self) -> MessageFilter:
        """What is shown of it in lists: the first ids, and the start of each text."""
        return msgspec.structs.replace(
            self,
            body=_start(self.body),
            regex=_start(self.regex),
            json=_start(self.json),
            attribute=tuple(_start(text) for text in self.attribute[:_ATTRIBUTES_MAX]),
            group=_start(self.group),
            id=tuple(_start(text) for text in self.id[:_CUT_IDS]),
            source=_start(self.source),
        )

    @property
    def needs_content(self) -> bool:
        texts = (self.body, self.regex, self.json)
        return bool(self.attribute or self.id) or any(text is not None for text in texts)

    @property
    def is_empty(self) -> bool:
        return self == _EVERYTHING

    def matches(self, message: InspectedMessage, now_ms: int, budget: RegexBudget) -> bool:
        if not self.matches_row(message.row, message.state, now_ms):
            return False
        if not self.needs_content:
            return True
        return message.content is not None and self.matches_content(message.content, budget)

    def matches_row(self, row: EntryRow, state: State, now_ms: int) -> bool:
        """Whether the conditions hold that need no content."""
        age_ms = now_ms - row.enqueued_ms
        return (
            (self.state is None or STATES[self.state] is state)
            and (self.group is None or row.group == self.group)
            and (self.source is None or _is_source(row.source, self.source))
            and (self.older_than_s is None or age_ms >= self.older_than_s * SECOND)
            and (self.younger_than_s is None or age_ms <= self.younger_than_s * SECOND)
            and (self.receives_min is None or row.receives >= self.receives_min)
            and (self.receives_max is None or row.receives <= self.receives_max)
        )

    def matches_content(self, content: Content, budget: RegexBudget) -> bool:
        """Whether the conditions on the content hold; the cheap ones are checked first. Raises FilterTooSlow."""
        return (
            (not self.id or content.id in self.id)
            and (self.body is None or self.body in content.body)
            and all(_has_attribute(content.attributes or {}, condition) for condition in self.attribute)
            and (self.json is None or _is_json_with(content.body, self.json))
            and (self.regex is None or budget.search(compile_pattern(self.regex), content.body))
        )


_EVERYTHING = MessageFilter()
_Text = TypeVar("_Text", str, str | None)


def _start(text: _Text) -> _Text:
    return text if text is None or len(text) <= _CUT_LENGTH else f"{text[:_CUT_LENGTH]}…"


def _is_source(arn: str | None, wanted: str) -> bool:
    if arn is None or without_partition(arn) == without_partition(wanted):
        return arn is not None
    source = Arn.parse(arn)
    return source is not None and source.queue.name == wanted


def _has_attribute(attributes: dict[str, Attribute], condition: str) -> bool:
    name, equals, wanted = condition.partition("=")
    attribute = attributes.get(name)
    if attribute is None or not equals:
        return attribute is not None
    value = attribute.value
    return wanted == (b64encode(value).decode() if isinstance(value, bytes) else value)


def _is_json_with(body: str, condition: str) -> bool:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    return parse_condition(condition).holds(document)


@lru_cache(_PATTERNS_KEPT)
def compile_pattern(text: str) -> regex.Pattern[str]:
    """Takes a few milliseconds at most, whatever the pattern. Raises FilterInvalid."""
    import regex  # takes time at the start of a server, and most never search

    if _UNSUPPORTED.search(text):
        raise FilterInvalid(
            r"regex: write the pattern without flags other than a, i, m, s and u, and without comments, recursion "
            r"such as (?R), (?|, \L, \R and \X"
        )
    if text.count("(") > _PARENTHESES_MAX:
        raise FilterInvalid(f"regex: write at most {_PARENTHESES_MAX} groups")
    # A repeated group is compiled more than once, a nested one many times: that has taken gigabytes of memory.
    # What only looks like a group counts as one, so that nothing can hide from the estimate.
    repeats = prod(max(2, int(times or 0)) for times in _REPEATED_GROUP.findall(text))
    if repeats * (len(text) + _COUNT_WEIGHT * sum(map(int, _REPEATED.findall(text)))) > _PATTERN_SIZE_MAX:
        raise FilterInvalid(
            "regex: the pattern repeats too much; write fewer repeated groups, or smaller counts"
        )
    try:
        return regex.compile(text, regex.VERSION0, cache_pattern=False)  # version 1 folds as the flag f does
    # ValueError: flags that exclude each other.
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise FilterInvalid(f"regex: {error}; write a regular expression as Python's re takes it") from None
    finally:
        regex.purge()  # else it keeps the text of each pattern
