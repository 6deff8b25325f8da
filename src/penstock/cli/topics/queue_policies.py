"""The policies of queues that get messages of a topic: shown to be missing, or added with ``--allow``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.target import Target
from penstock.client.api import ApiError
from penstock.client.queue_names import queue_name
from penstock.client.topic_names import topic_name
from penstock.client.topic_policies import with_topic

allow_option = click.option(
    "--allow",
    is_flag=True,
    help="Also allow the topic to send to its queue and dead-letter queue, in their policies.",
)


def allow(target: Target, queues: Sequence[str], topic: str) -> None:
    """Add a statement for a topic to the policies of queues that have none. All are ARNs."""
    if not queues:
        raise click.UsageError("--allow is for queues: there is none")
    for queue in queues:
        try:
            policy = with_topic(_policy(target, queue), queue, topic)
        except ValueError:
            raise Failure(f"the policy of {queue_name(queue)} cannot be read: change it yourself") from None
        if policy is not None:
            target.sqs("SetQueueAttributes", QueueUrl=target.queue_url(queue), Attributes={"Policy": policy})
            target.out.note(f"{queue_name(queue)} allows {topic_name(topic)} to send to it")


def hint(target: Target, queues: Sequence[str], topic: str, again: str) -> None:
    """Say what a server with credentials needs. Whether this one checks policies is not known here. ``again``: the
    command that adds statements."""
    if not target.endpoint.has_keys:
        return
    found = {queue: _allows(target, queue, topic) for queue in queues}
    missing = [queue_name(queue) for queue, allows in found.items() if allows is False]
    unknown = [queue for queue, allows in found.items() if allows is None]
    if missing:
        target.out.note(
            f"the policy of {' and '.join(missing)} has no statement for this topic, which a server with credentials"
            f" needs: {again} --allow"
        )
    if unknown:
        target.out.note(
            f"you cannot see whether the policy of {' and '.join(unknown)} lets this topic send, which a server with"
            " credentials needs"
        )


def _policy(target: Target, queue: str) -> str:
    answer = target.sqs("GetQueueAttributes", QueueUrl=target.queue_url(queue), AttributeNames=["Policy"])
    return str((answer.get("Attributes") or {}).get("Policy", ""))


def _allows(target: Target, queue: str, topic: str) -> bool | None:
    """Whether a statement of the queue's policy names the service or everyone; None if the policy cannot be read,
    such as that of another account. Its conditions are not evaluated."""
    try:
        policy = _policy(target, queue)
    except (ApiError, Breakdown):
        return None
    return "sns.amazonaws.com" in policy or '"*"' in policy or topic in policy
