"""``penstock grep``: searches messages, and copies, moves, deletes or dumps what matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.admin_queue import AdminQueue, chosen, with_filter
from penstock.cli.arguments import RATE, queue_argument, yes_option
from penstock.cli.bulk import counted, describe, report, run_task
from penstock.cli.dump import write_messages
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.output import safe
from penstock.cli.target import Target, queue_name, with_target

Json = dict[str, Any]
_AROUND = 60  # characters beside what matches
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
@click.option("--rate", type=RATE, help="Change at most so many messages a second.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
@click.option("--no-wait", is_flag=True, help="Return when the task has started.")
@yes_option
@with_target
def command(
    target: Target, queue: str, pattern: str | None, ignore_case: bool, fixed: bool, only_count: bool,
    only_ids: bool, maximum: int | None, copy_to: str | None, move_to: str | None, delete: bool, dump: Path | None,
    rate: float | None, dry_run: bool, no_wait: bool, yes: bool, **flags: Any,
) -> None:  # fmt: skip
    """Search the messages of QUEUE in any state, without receiving them.

    PATTERN is a regular expression that is searched in bodies. All conditions must hold. --copy-to, --move-to and
    --delete count first and ask; the server then does it as a task, which goes on if this command is interrupted.
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
    if dry_run and not asked:
        raise Failure("--dry-run is for --copy-to, --move-to and --delete")
    if maximum is not None and asked:
        raise Failure("--max is for searching: a change is made to all messages that match")
    filter = _with_pattern(chosen(flags), pattern, ignore_case, fixed)
    admin = AdminQueue(target, queue)
    if asked:
        to = copy_to or move_to
        _change(target, admin, asked[0], filter, to and queue_name(to), rate, dry_run, not no_wait, yes)
    elif dump is not None:
        _need(write_messages(target, admin, filter, dump, maximum))
        target.out.note(f'wrote "{dump}"')
    elif only_count:
        count = sum(1 for _ in admin.messages({**filter, "body_bytes": 0}, maximum))
        target.out.json({"matched": count}) if target.out.as_json else target.out.line(str(count))
        _need(count)
    else:
        _need(_search(target, admin, filter, maximum, only_ids))


_SPECIAL = frozenset("\\.^$*+?{}[]()|")  # in regular expressions


def _with_pattern(filter: Json, pattern: str | None, ignore_case: bool, fixed: bool) -> Json:
    if pattern is None:
        if not filter:
            raise Failure("nothing to search: give a PATTERN or a condition such as --where")
        return filter
    if fixed and not ignore_case:
        given = {"body": pattern}
    else:
        text = "".join(f"\\{c}" if c in _SPECIAL else c for c in pattern) if fixed else pattern
        given = {"regex": f"(?i){text}" if ignore_case else text}
    if given.keys() & filter.keys():
        raise Failure(f"PATTERN and --{next(iter(given))} are the same condition: give one of them")
    return filter | given


def _need(count: int) -> None:
    if not count:
        raise SystemExit(1)


def _search(target: Target, admin: AdminQueue, filter: Json, maximum: int | None, only_ids: bool) -> int:
    """Prints matches as they are found; how many."""
    count = 0
    for message in admin.messages(filter, maximum):
        count += 1
        if target.out.as_json:
            target.out.json_lines([admin.whole(message)])
        elif only_ids:
            target.out.line(message["id"])
        else:
            body = admin.whole(message).get("body", "")
            target.out.line(f"{message['id']}  {_excerpt(body, filter, target.out.is_terminal)}")
    return count


def _excerpt(body: str, filter: Json, coloured: bool) -> str:
    """What matches with some text around it; the beginning if it is not known where it matches."""
    import regex  # the server matches with it, too

    text = filter.get("regex") or regex.escape(filter.get("body", ""))
    try:
        found = regex.search(text, body, timeout=_MARK_WITHIN_S) if text else None
    except (regex.error, TimeoutError):
        found = None
    start, end = found.span() if found else (0, 0)
    before, match = body[max(0, start - _AROUND) : start], body[start:end][: 2 * _AROUND]
    after = body[end : end + 2 * _AROUND - len(match)]
    shown = click.style(safe(match), fg="red", bold=True) if coloured and match else safe(match)
    left = "…" if start > _AROUND else ""
    right = "…" if end + len(after) < len(body) else ""
    return f"{left}{safe(before)}{shown}{safe(after)}{right}"


_QUESTIONS = {
    "copy": "Copy them to {to}?",
    "move": "Move them to {to}?",
    "delete": "Delete them from {queue}?",
}
_DONE = {"copy": "copied to {to}", "move": "moved to {to}", "delete": "deleted"}


def _change(
    target: Target, admin: AdminQueue, operation: str, filter: Json, to: str | None, rate: float | None,
    dry_run: bool, wait: bool, yes: bool,
) -> None:  # fmt: skip
    found = counted(admin, operation, filter, to)
    if dry_run:
        target.out.json(found) if target.out.as_json else target.out.line(describe(found))
        return
    target.out.note(describe(found))
    if not found["matched"] and found.get("complete", True):
        raise SystemExit(1)
    if not found["can"] and found.get("complete", True):
        raise Breakdown("nothing was changed")
    target.out.confirm(_QUESTIONS[operation].format(to=to, queue=admin.name), yes)
    task = run_task(target, admin, operation, filter, to=to, rate=rate, wait=wait)
    report(target, task, _DONE[operation].format(to=to))
