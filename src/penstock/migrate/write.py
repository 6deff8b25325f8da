"""Writes a plan as a TOML config file: settings, a table for each queue, and notes as comments beside them."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from penstock.migrate.plan import Plan, PlannedQueue, Scalar
from penstock.toml_text import toml_key, toml_string

_LINE_LENGTH = 110


def write_config(plan: Plan, origin: str) -> str:
    """The text of a config file. ``origin`` is the name of the file it was made from."""
    lines = [*_comment(f"Made from {origin} by penstock import-config.")]
    if plan.notes:
        lines += ["#", "# Not carried over, or different here:"]
        for note in plan.notes:
            lines += _comment(f"- {note}", indent="  ")
    if plan.settings:
        lines += ["", *(f"{name} = {_value(value)}" for name, value in plan.settings.items())]
    for queue in plan.queues.values():
        lines += ["", *_queue(queue)]
    return "\n".join(lines) + "\n"


def _queue(queue: PlannedQueue) -> Iterator[str]:
    yield f"[queues.{toml_key(queue.name)}]"
    for note in queue.notes:
        yield from _comment(note)
    for name, value in queue.attributes.items():
        yield f"{name} = {_value(value)}"
    if queue.dead_letter is not None:
        target, receives = queue.dead_letter
        yield f"dead_letter = {{ queue = {_value(target)}, max_receives = {receives} }}"
    if queue.tags:
        tags = ", ".join(f"{toml_key(key)} = {_value(value)}" for key, value in queue.tags.items())
        yield f"tags = {{ {tags} }}"


def _comment(text: str, indent: str = "") -> list[str]:
    """Leaves out control characters: they would end the comment, or are not allowed in TOML."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    lines = wrap(
        clean, _LINE_LENGTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [f"# {line}" for line in lines]


def _value(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return toml_string(value)
