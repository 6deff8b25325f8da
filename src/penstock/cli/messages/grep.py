"""``penstock grep``: searches messages, and copies, moves, deletes or dumps what matches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from penstock.cli.arguments import queue_argument
from penstock.cli.failure import Failure
from penstock.cli.messages.admin_queue import AdminQueue, chosen, with_filter
from penstock.cli.messages.bulk import TaskFlags, change_matching, with_task_flags
from penstock.cli.messages.dump import write_messages
from penstock.cli.output import Styled, safe
from penstock.cli.target import Target, with_target
from penstock.client.api import Json

_AROUND = 60  # characters beside what matches
_TEXTS = {
    "copy": ("Copy them to {to}?", "copied to {to}"),
    "move": ("Move them to {to}?", "moved to {to}"),
    "delete": ("Delete them from {queue}?", "deleted"),
}
_MARK_WITHIN_S = 0.1  # to find again what the server has found


@click.command("grep")
@queue_argument
@click.argument("pattern", required=False)
@click.option("--ignore-case", "-i", is_flag=True, help="Upper and lower case are the same.")
@click.option("--fixed", "-F", is_flag=True, help="PATTERN is a text, not a regular expression.")
@click.option("--count", "-c", "only_count", is_flag=True, help="Print how many match.")
@click.option("--ids", "-l", "only_ids", is_flag=True, help="Print their ids only.")
@click.option("--max", "maximum", type=click.IntRange(1), metavar="N", help="Stop after N matches.")
@with_filter
@click.option("--copy-to", metavar="QUEUE", help="Copy what matches; the copies have new ids.")
@click.option("--move-to", metavar="QUEUE", help="Move what matches.")
@click.option("--delete", is_flag=True, help="Delete what matches.")
@click.option(
    "--dump", type=click.Path(path_type=Path, dir_okay=False), help="Write what matches as JSON lines."
)
@with_task_flags
@with_target
def command(
    target: Target, queue: str, pattern: str | None, ignore_case: bool, fixed: bool, only_count: bool,
    only_ids: bool, maximum: int | None, copy_to: str | None, move_to: str | None, delete: bool, dump: Path | None,
    task: TaskFlags, **flags: Any,
) -> None:  # fmt: skip
    """Search the messages of QUEUE in any state, without receiving them.

    PATTERN is a regular expression that is searched in bodies. All conditions must hold. --copy-to, --move-to and
    --delete count first and ask; the server then does it as a task, which continues if this command is interrupted.
    Exit code 1: no message matches.

    \b
    Examples:
      penstock grep orders 'customer.*4711'
      penstock grep orders --where '$.total > 1000' --older-than 1h --count
      penstock grep orders-dlq -F 'TimeoutError' --move-to orders --rate 50
      penstock grep orders 'test-' --delete --yes
      penstock grep orders 'refund' --dump refunds.jsonl
    """
    target.need_penstock("grep")
    asked = [name for name, given in (("copy", copy_to), ("move", move_to), ("delete", delete)) if given]
    if len(asked) + (dump is not None) > 1:
        raise Failure("give one of --copy-to, --move-to, --delete, --dump")
    if task.dry_run and not asked:
        raise Failure("--dry-run is for --copy-to, --move-to and --delete")
    if maximum is not None and asked:
        raise Failure("--max is for searching: a change is made to all messages that match")
    filter = _with_pattern(chosen(flags), pattern, ignore_case, fixed)
    admin = AdminQueue(target, queue)
    if asked:
        to = None if delete else admin.target_name(copy_to or move_to or "")
        question, done = (text.format(to=to, queue=admin.name) for text in _TEXTS[asked[0]])
        change_matching(target, admin, asked[0], filter, to, task, question=question, done=done)
    elif dump is not None:
        _need(write_messages(target, admin, filter, dump, maximum))
        target.out.note(f'wrote "{dump}"')
    elif only_count:
        count = sum(1 for _ in admin.messages({**filter, "body_bytes": 0}, maximum))
        target.out.json({"matched": count}) if target.out.as_json else target.out.line(str(count))
        _need(count)
    else:
        _need(_search(target, admin, filter, maximum, only_ids))


def _with_pattern(filter: Json, pattern: str | None, ignore_case: bool, fixed: bool) -> Json:
    if pattern is None:
        if not filter:
            raise Failure("nothing to search: give a PATTERN or a condition such as --where")
        return filter
    if fixed and not ignore_case:
        given = {"body": pattern}
    else:
        text = re.escape(pattern) if fixed else pattern
        given = {"regex": f"(?i){text}" if ignore_case else text}
    if given.keys() & filter.keys():
        raise Failure(f"PATTERN and --{next(iter(given))} are the same condition: give one of them")
    return filter | given


def _need(count: int) -> None:
    if not count:
        raise SystemExit(1)


def _search(target: Target, admin: AdminQueue, filter: Json, maximum: int | None, only_ids: bool) -> int:
    """Prints matches as they are found. Returns how many there were."""
    count = 0
    for message in admin.messages(filter, maximum):
        count += 1
        if target.out.as_json:
            target.out.json_line(admin.whole(message))
        elif only_ids:
            target.out.line(message["id"])
        else:
            body = admin.whole(message).get("body", "")
            target.out.line(f"{message['id']}  ", *_excerpt(body, filter))
    return count


def _excerpt(body: str, filter: Json) -> tuple[str, Styled, str]:
    """What matches with some text around it; the beginning if it is not known where it matches."""
    import regex  # the server matches with it, too

    text = filter.get("regex") or re.escape(filter.get("body", ""))
    try:
        found = regex.search(text, body, timeout=_MARK_WITHIN_S) if text else None
    except (regex.error, TimeoutError):
        found = None
    start, end = found.span() if found else (0, 0)
    before, match = body[max(0, start - _AROUND) : start], body[start:end][: 2 * _AROUND]
    after = body[end : end + 2 * _AROUND - len(match)]
    left = "…" if start > _AROUND else ""
    right = "…" if end + len(after) < len(body) else ""
    return f"{left}{safe(before)}", Styled(safe(match), "red"), f"{safe(after)}{right}"
