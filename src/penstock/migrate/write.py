"""Writes a plan as a TOML config file: settings, tables of queues, topics and subscriptions, and notes as comments
beside them."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from penstock.migrate.plan import Plan, PlannedQueue, PlannedTopic, Scalar
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
    for topic in plan.topics.values():
        lines += ["", *_topic(topic)]
    return "\n".join(lines) + "\n"


def _queue(queue: PlannedQueue) -> Iterator[str]:
    yield f"[queues.{toml_key(queue.name)}]"
    yield from _members(queue)
    if queue.dead_letter is not None:
        target, receives = queue.dead_letter
        yield f"dead_letter = {{ queue = {_value(target)}, max_receives = {receives} }}"
    yield from _tags(queue)


def _topic(topic: PlannedTopic) -> Iterator[str]:
    path = f"topics.{toml_key(topic.name)}"
    yield f"[{path}]"
    yield from _members(topic)
    yield from _tags(topic)
    for subscription in topic.subscriptions:
        yield from ("", f"[[{path}.subscriptions]]")
        yield from (f"{name} = {_value(value)}" for name, value in subscription.items())


def _members(named: PlannedQueue | PlannedTopic) -> Iterator[str]:
    for note in named.notes:
        yield from _comment(note)
    for name, value in named.attributes.items():
        yield f"{name} = {_value(value)}"


def _tags(named: PlannedQueue | PlannedTopic) -> Iterator[str]:
    if named.tags:
        tags = ", ".join(f"{toml_key(key)} = {_value(value)}" for key, value in named.tags.items())
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
    # JSON is easier to read without a backslash before each quote.
    is_literal = '"' in value and "'" not in value and value.isprintable()
    return f"'{value}'" if is_literal else toml_string(value)
