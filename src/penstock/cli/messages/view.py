"""How messages are shown: a line each in a table, or all of one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from penstock.cli.output import Cell, Output, Styled, cell_text, shortened
from penstock.cli.times import shown_age, shown_time
from penstock.client.api import Json

_PLAIN_BODY = 80  # characters of a body in a table that is not shown in a terminal
_BODY_MIN = 20
_UNREADABLE = "(encrypted with a key that cannot be used, or damaged)"


def show_messages(out: Output, messages: Sequence[Json]) -> None:
    """Print a table. The columns GROUP, SOURCE and FAILURE are there if a message has one."""
    optional = [name for name in ("group", "source", "failure") if any(name in each for each in messages)]
    columns = ["ID", "STATE", "AGE", "RECEIVES", "SIZE", *(name.upper() for name in optional), "BODY"]
    rows: list[list[Cell]] = [
        [
            message["id"], _state(message), shown_age(message[_since(message)]),
            message["receives"], message["size"], *(_optional(message, name) for name in optional),
        ]
        for message in messages
    ]  # fmt: skip
    width = _PLAIN_BODY
    if out.is_terminal:
        by_column = zip(columns[:-1], *rows, strict=True)
        used = sum(max(len(cell_text(cell)) for cell in cells) + 2 for cells in by_column)
        width = max(_BODY_MIN, shutil.get_terminal_size().columns - used)
    for row, message in zip(rows, messages, strict=True):
        row.append(shortened(message.get("body", _UNREADABLE if "unreadable" in message else ""), width))
    out.table(columns, rows)


def show_message(out: Output, message: Json) -> None:
    """Every fact that is known of it, then the body as it is."""
    holder, failure = message.get("holder"), message.get("failure")
    out.facts(
        [
            ("id", message["id"]),
            ("state", message["state"].replace("_", " ")),
            ("version", f"{message['version']}{' (edited)' if message['edited'] else ''}"),
            ("size", f"{message['size']} bytes"),
            ("receives", message["receives"]),
            ("sender", message["sender"]),
            *((name.replace("_", " "), message.get(name)) for name in _TEXTS),
            *((name[:-3].replace("_", " "), _time(out, message.get(name))) for name in _times(message)),
            *shown_attributes(message),
            ("held by", _holder(out, holder) if holder else None),
            ("failure", _failure(out, failure) if failure else None),
        ]
    )
    if "unreadable" in message:
        out.line(f"\n{_UNREADABLE}")
    if "body" in message:
        out.line()
        out.line(message["body"])


_TEXTS = ("group", "dedup_id", "sequence_number", "source", "trace")
_TIMES = ("sent_at", "enqueued_at", "visible_at", "first_received_at", "expires_at")


def _since(message: Json) -> str:
    """The time to show. When a message was sent is a part of its content, which may be unreadable."""
    return "enqueued_at" if "unreadable" in message else "sent_at"


def _times(message: Json) -> tuple[str, ...]:
    return _TIMES[1:] if "unreadable" in message else _TIMES


def shown_attributes(message: Json) -> list[tuple[str, str]]:
    """The attributes as lines of a record."""
    attributes = sorted((message.get("attributes") or {}).items())
    return [(f"attribute {name}", f"{each['value']} ({each['type']})") for name, each in attributes]


def _time(out: Output, time: str | None) -> str | None:
    return None if time is None else shown_time(time, out)


def _holder(out: Output, holder: Json) -> str:
    extended = f", extended {holder['extended']} times" if holder.get("extended") else ""
    who = ", ".join(part for part in (holder["by"], holder["address"], holder["user_agent"]) if part)
    return (
        f"{who}; since {shown_time(holder['since'], out)}, until {shown_time(holder['until'], out)}{extended}"
    )


def _failure(out: Output, failure: Json) -> str:
    parts = [failure["reason"], failure.get("detail"), failure.get("worker")]
    if "attempt" in failure:
        parts.append(f"attempt {failure['attempt']}")
    return f"{', '.join(part for part in parts if part)}; {shown_time(failure['at'], out)}"


def _state(message: Json) -> Cell:
    state = message["state"].replace("_", " ")
    colour = {"in flight": "yellow", "delayed": "cyan"}.get(state)
    return Styled(state, colour) if colour else state


def _optional(message: Json, name: str) -> str | None:
    value = message.get(name)
    if name == "source" and value is not None:
        return str(value).rpartition(":")[2]
    return value["reason"] if name == "failure" and value is not None else value
