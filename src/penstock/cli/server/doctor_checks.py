"""What can be wrong with queues, topics and a server, and what to change. Pure: facts in, findings out.

A problem loses messages or refuses them, now or soon. A warning needs a person, but not tonight. A hint costs money
or safety and does not change the exit code.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from penstock.cli.arguments import short_duration, short_size
from penstock.cli.output import counted_messages
from penstock.client.limits import VISIBILITY_S_MAX

PROBLEM, WARNING, HINT = "problem", "warning", "hint"

_RETENTION_S_DEFAULT = 4 * 86_400
_NEAR_EXPIRY = 0.8  # of the retention
CHECKS = (
    "no-dead-letter-queue", "dead-letter-retention", "open-policy", "near-expiry", "no-consumers", "growing-age",
    "short-polling", "short-visibility", "poison-message", "dead-letters",
    "failing-subscription", "store-refuses", "disk", "memory",
    "open-server", "unencrypted", "no-tls", "not-allowed", "not-looked-at",
)  # fmt: skip
_MEMORY_WARNING = 0.9  # used part
_EMPTY_RECEIVES_PER_S = 0.5
_EXTENDED_OFTEN = 2


class Finding(NamedTuple):
    severity: str
    check: str
    queue: str | None
    what: str
    change: str
    command: str


class Thresholds(NamedTuple):
    late_s: float
    receives: int


class QueueFacts(NamedTuple):
    """``info``, ``in_flight`` and ``often_received`` come from the admin API, and are empty where there is none."""

    name: str
    attributes: Mapping[str, str]
    info: Mapping[str, Any] = {}
    in_flight: tuple[Mapping[str, Any], ...] = ()
    often_received: tuple[Mapping[str, Any], ...] = ()

    @property
    def dead_letter_queue(self) -> str | None:
        """The ARN of the dead-letter queue, if there is one."""
        policy = self.attributes.get("RedrivePolicy")
        return str(json.loads(policy)["deadLetterTargetArn"]) if policy else None

    @property
    def arn(self) -> str:
        return self.attributes["QueueArn"]

    @property
    def retention_s(self) -> int:
        return int(self.attributes.get("MessageRetentionPeriod", _RETENTION_S_DEFAULT))

    @property
    def visibility_s(self) -> int:
        return int(self.attributes.get("VisibilityTimeout", 30))

    @property
    def waiting(self) -> int:
        return int(self.attributes.get("ApproximateNumberOfMessages", 0))


class Site(NamedTuple):
    """All that is known, for checks that compare queues."""

    queues: Mapping[str, QueueFacts]  # by ARN
    thresholds: Thresholds

    def is_dead_letter_queue(self, queue: QueueFacts) -> bool:
        sources = (other.dead_letter_queue for other in self.queues.values())
        return bool(queue.info.get("is_dead_letter_queue")) or queue.arn in sources


# -- wiring --------------------------------------------------------------------------------------------------------


def dead_letter_wiring(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    if queue.dead_letter_queue is None:
        if not site.is_dead_letter_queue(queue):
            fifo = ".fifo" if queue.name.endswith(".fifo") else ""
            wanted = f"{queue.name.removesuffix('.fifo')}-dlq{fifo}"
            yield Finding(
                WARNING,
                "no-dead-letter-queue",
                queue.name,
                "has no dead-letter queue: a message that always fails is received until it expires",
                "create one and set it as the dead-letter queue",
                f"penstock queue create {_word(wanted)} --retention 14d && "
                f"penstock queue set {_word(queue.name)} --dead-letter-queue {_word(wanted)} --max-receives 5",
            )
        return
    target = site.queues.get(queue.dead_letter_queue)
    # SQS: a dead letter of a standard queue keeps the time it was sent at, and expires by it.
    if target is not None and target.retention_s < queue.retention_s:
        yield Finding(
            PROBLEM,
            "dead-letter-retention",
            target.name,
            f"keeps messages for {short_duration(target.retention_s)}, "
            f"{queue.name} for {short_duration(queue.retention_s)}: dead letters expire before they are looked at",
            "keep dead letters for longer than messages of their source",
            f"penstock queue set {_word(target.name)} --retention 14d",
        )


def open_policy(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    text = queue.attributes.get("Policy")
    statements = json.loads(text).get("Statement", []) if text else []
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal")
        everyone = principal == "*" or (isinstance(principal, dict) and "*" in _many(principal.get("AWS")))
        if statement.get("Effect") == "Allow" and everyone and not statement.get("Condition"):
            actions = ", ".join(map(str, _many(statement.get("Action")))) or "everything"
            yield Finding(
                PROBLEM,
                "open-policy",
                queue.name,
                f"has a policy that allows {actions} to everyone",
                "name accounts or users in the policy, or add a condition; the command removes the policy",
                f"penstock queue set {_word(queue.name)} --no-policy",
            )


# -- consumers -----------------------------------------------------------------------------------------------------


def consumers(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    info = queue.info
    age_s = info.get("oldest_age_s")
    if age_s is None or site.is_dead_letter_queue(queue):
        return
    if age_s > _NEAR_EXPIRY * queue.retention_s:
        yield Finding(
            PROBLEM,
            "near-expiry",
            queue.name,
            f"its oldest message is {short_duration(age_s)} old, "
            f"and messages expire after {short_duration(queue.retention_s)}",
            "keep messages for longer until consumers have caught up",
            f"penstock queue set {_word(queue.name)} --retention 14d",
        )
    if age_s < site.thresholds.late_s:
        return
    if info["visible"] and not (info["received_rate"] or info["waiting_receives"] or info["in_flight"]):
        yield Finding(
            WARNING,
            "no-consumers",
            queue.name,
            f"{counted_messages(info['visible'])} waiting for up to {short_duration(age_s)}, "
            "and no consumer receives",
            "start consumers, and check that they use this queue, account and region",
            f"penstock queue show {_word(queue.name)}",
        )
    elif info["sent_rate"] > info["deleted_rate"]:
        yield Finding(
            WARNING,
            "growing-age",
            queue.name,
            f"its oldest message is {short_duration(age_s)} old, and more is sent than deleted: "
            f"{info['sent_rate']:.1f} and {info['deleted_rate']:.1f} a second",
            "add consumers, and look at what the consumers do",
            "penstock top",
        )


def short_polling(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    if queue.attributes.get("ReceiveMessageWaitTimeSeconds", "0") != "0":
        return
    rate = queue.info.get("empty_receive_rate", 0)
    # Receives that wait end without a message, too, but at most every few seconds.
    if queue.info and rate < _EMPTY_RECEIVES_PER_S * (1 + queue.info["waiting_receives"]):
        return
    seen = f": {rate:.1f} receives a second find nothing" if rate else ""
    yield Finding(
        WARNING if rate else HINT,
        "short-polling",
        queue.name,
        f"receives do not wait for messages unless they ask to{seen}",
        "let receives wait",
        f"penstock queue set {_word(queue.name)} --wait 20s",
    )


def visibility(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    holders = [message["holder"] for message in queue.in_flight if message.get("holder")]
    extended = [each for each in holders if each["extended"] >= _EXTENDED_OFTEN]
    longest_s = max((each["held_s"] for each in holders), default=0.0)
    if longest_s <= queue.visibility_s and not extended:
        return
    enough_s = min(VISIBILITY_S_MAX, max(2 * queue.visibility_s, int(2 * longest_s)))
    yield Finding(
        WARNING,
        "short-visibility",
        queue.name,
        f"messages are hidden for {short_duration(queue.visibility_s)}, and processing takes longer: one has been "
        f"held for {short_duration(longest_s)}, {len(extended)} of {len(holders)} were extended more than once",
        "hide messages for longer than processing takes",
        f"penstock queue set {_word(queue.name)} --visibility {enough_s}s",
    )


def poison(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    if queue.often_received and not site.is_dead_letter_queue(queue):
        worst = max(queue.often_received, key=lambda message: int(message["receives"]))
        yield Finding(
            WARNING,
            "poison-message",
            queue.name,
            f"{counted_messages(len(queue.often_received))} received {site.thresholds.receives} times or more; "
            f"{worst['id']} {worst['receives']} times",
            "look at it, then correct it or send it to the dead-letter queue",
            f"penstock message show {_word(queue.name)} {worst['id']}",
        )


def dead_letters(queue: QueueFacts, site: Site) -> Iterator[Finding]:
    if queue.waiting and site.is_dead_letter_queue(queue):
        yield Finding(
            WARNING,
            "dead-letters",
            queue.name,
            f"{counted_messages(queue.waiting)} in the dead-letter queue",
            "find out why, then redrive or delete them",
            f"penstock dlq show {_word(queue.name)}",
        )


QUEUE_CHECKS: tuple[Callable[[QueueFacts, Site], Iterator[Finding]], ...] = (
    dead_letter_wiring,
    open_policy,
    consumers,
    short_polling,
    visibility,
    poison,
    dead_letters,
)


# -- topics --------------------------------------------------------------------------------------------------------


def failing_subscriptions(failing: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """``failing``: subscriptions as the admin API lists those that do not get their messages."""
    of_topics = Counter(str(each["topic"]).rpartition(":")[2] for each in failing)
    for topic, count in of_topics.items():
        yield Finding(
            WARNING,
            "failing-subscription",
            None,
            f"{count} subscription{'s' if count != 1 else ''} of the topic {topic} did not get messages",
            "find out why",
            f"penstock topic failing {_word(topic)}",
        )


# -- the server ----------------------------------------------------------------------------------------------------


def server_findings(status: Mapping[str, Any]) -> Iterator[Finding]:
    store = status["store"]
    if store.get("refuses"):
        yield Finding(
            PROBLEM, "store-refuses", None, f"the store refuses changes: {store['refuses']}",
            "free disk space or repair the store", "penstock health",
        )  # fmt: skip
    if store.get("disk_low"):
        yield Finding(
            WARNING, "disk", None, f"the disk is nearly full: {store['disk_low']}",
            "make room, or move the data to a larger disk", "penstock queue ls --sort bytes --descending",
        )  # fmt: skip
    if store["encryption"].startswith("off") and store["kind"] != "memory":
        yield Finding(
            HINT, "unencrypted", None, "messages are stored unencrypted",
            "create a root key and start the server with --root-key-file",
            "penstock key root penstock-root.key",
        )  # fmt: skip
    if status["memory_budget"] and status["memory_used"] > _MEMORY_WARNING * status["memory_budget"]:
        yield Finding(
            WARNING, "memory", None,
            f"{short_size(status['memory_used'])} of {short_size(status['memory_budget'])} for messages are in use: "
            "the rest stays on disk and is read again",
            "give the server more memory, if receives are slow", "penstock serve --help",
        )  # fmt: skip


def access_findings(url: str, *, is_open: bool, is_local: bool) -> Iterator[Finding]:
    if is_open:
        yield Finding(
            HINT if is_local else PROBLEM, "open-server", None,
            "the server accepts requests without a signature",
            "add users and start the server with --credentials",
            "penstock user create alice --policy administrator",
        )  # fmt: skip
    if url.startswith("http://") and not is_local:
        yield Finding(
            WARNING, "no-tls", None, "requests and messages travel unencrypted",
            "serve HTTPS with --tls-certificate and --tls-key, or put a proxy with TLS before the server",
            "penstock serve --help",
        )  # fmt: skip


def not_allowed(queues: list[str]) -> Iterator[Finding]:
    if queues:
        yield Finding(
            HINT, "not-allowed", None,
            f"the keys may not look at messages, only at settings, of: {', '.join(queues[:5])}"
            f"{' ...' if len(queues) > 5 else ''}",
            "attach the policy penstock-read-only to their user",
            "penstock policy attach penstock-read-only --user USER",
        )  # fmt: skip


def _many(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _word(name: str) -> str:
    return shlex.quote(name)
