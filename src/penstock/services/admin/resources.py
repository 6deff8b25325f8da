"""What the handlers of the admin API need, and what a request acts on: a queue by its name, or the server.

On a secured server a queue that does not exist is a resource like any other, so that authorization comes before the
answer that it does not exist. On an open server the queues of other accounts do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock.auth.authorize import Resource, authorize_send
from penstock.broker.other_shards import DefinitionQuestion
from penstock.errors import QueueMissing
from penstock.names import QueueName, is_account, partition_of
from penstock.services.admin.faults import admin_fault
from penstock.services.admin.structs import AboutQueue
from penstock.services.admin.totals import RecentTotals
from penstock.wire.service import Action, Call

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.live_queue import LiveQueue
    from penstock.publishing.publishing import Publishing
    from penstock.queues.messages import Attribute, Counts
    from penstock.queues.settings import QueueRecord
    from penstock.services.admin.server import ServerControl

_NAME = re.compile(r"[\w.-]{1,80}", re.ASCII)


class SqsTexts(msgspec.Struct, frozen=True):
    """How SQS writes what the admin API shows, too. Services do not import each other, so that it is given."""

    attributes: Callable[[LiveQueue, Counts], dict[str, str]]
    sequence_number: Callable[[int], str]
    queue_url: Callable[[str, QueueName], str]
    check_edited: Callable[[str | None, Mapping[str, Attribute] | None, str | None, int | None], None]


class Admin(msgspec.Struct, frozen=True):
    """What the handlers need."""

    broker: Broker
    publishing: Publishing
    actions: Mapping[str, Action]  # the rows, for handlers that need further permissions
    sqs: SqsTexts
    server: ServerControl
    rows: tuple[Action, ...] = ()  # of all services that need a permission
    totals: RecentTotals = msgspec.field(default_factory=RecentTotals)


class AdminResource(Resource):
    """A queue, or the server."""

    found: LiveQueue | QueueRecord | None = None  # the latter in a shard of another process

    @property
    def queue(self) -> LiveQueue:
        """Returns the queue that the request is about. Raises QueueMissing."""
        if self.found is None:
            raise QueueMissing
        return cast("LiveQueue", self.found)


def queue_resource(name: QueueName, found: LiveQueue | QueueRecord | None) -> AdminResource:
    """``found``: None if the queue does not exist."""
    if found is None:
        return AdminResource(name.arn, name.account)
    return AdminResource(name.arn, name.account, found.settings.policy, found.tags, found=found)


def queue_in_path(admin: Admin, request: AboutQueue, call: Call) -> AdminResource:
    """Raises QueueMissing or NotOwned."""
    name = queue_named(request.queue, request.account, call)
    found = admin.broker.by_name.get(name)
    if found is None:
        admin.broker.check_owned(name)
        if call.principal is None:
            raise QueueMissing
    return queue_resource(name, found)


def queue_named(text: str, account: str | None, call: Call) -> QueueName:
    """A name that can exist. Raises QueueMissing."""
    account = account or call.space.account
    if not _NAME.fullmatch(text) or not is_account(account):
        raise QueueMissing
    if call.principal is None and account != call.space.account:
        raise QueueMissing
    return QueueName(account, call.space.region, text)


async def authorize_target(admin: Admin, name: QueueName, call: Call) -> None:
    """Messages are sent to this queue: as with SQS's own move tasks, that needs the permission to send to it.

    Raises AccessDenied, QueueMissing or Unreachable."""
    found = await admin.broker.ask(DefinitionQuestion(name))
    authorize_send(call, queue_resource(name, found))
    if found is None:
        raise admin_fault(
            "QueueDoesNotExist", f"The queue {name.name} does not exist in this account and region."
        )


def authorize_any_target(near: QueueName, call: Call) -> None:
    """Messages may be sent to any queue of this one's account and region. Raises AccessDenied."""
    name = QueueName(near.account, near.region, "*")
    authorize_send(call, AdminResource(name.arn, name.account))


def all_queues(admin: Admin, request: Any, call: Call) -> AdminResource:
    name = QueueName(call.space.account, call.space.region, "*")
    return AdminResource(name.arn, name.account)


def the_server(admin: Admin, request: Any, call: Call) -> AdminResource:
    """It belongs to its own account: the root of another account has no say in what concerns all of them."""
    account = admin.server.account
    region = call.space.region
    return AdminResource(f"arn:{partition_of(region)}:penstock:{region}:{account}:server", account)
