"""What policies say about deliveries and publications of topics, and the certificate of their signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.auth.authorize import service_may
from penstock.broker.handover import SentFor
from penstock.errors import PenstockError
from penstock.publishing.signing import Signer
from penstock.server.http.request import HttpError, Request
from penstock.server.http.response import REQUEST_ID
from penstock.topics.policy import default_policy
from penstock.topics.records import Topic
from penstock.wire.service import Response

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

CERTIFICATE_MOUNT = b"SimpleNotificationService"
"""The path of a certificate begins with it, up to a hyphen."""


def may_deliver(queue: LiveQueue, sent_for: SentFor) -> bool:
    """Whether the policy of a queue lets a topic send to it."""
    name, policy = queue.name, queue.settings.policy
    return service_may(
        sent_for.service, "sqs:SendMessage", name.arn, name.account, policy, sent_for.arn, sent_for.account
    )


def may_publish(topic: Topic, source: SentFor) -> bool:
    """Whether the policy of a topic lets another service of the server publish to it."""
    name = topic.name
    policy = topic.attributes.get("Policy") or default_policy(name)
    return service_may(
        source.service, "sns:Publish", name.arn, name.account, policy, source.arn, source.account
    )


async def certificate_page(signer: Signer, request: Request) -> Response:
    """The certificate by which subscribers check signatures. It is no secret."""
    try:
        found = await signer.certificate(request.path.decode("latin-1"))
    except PenstockError as error:
        raise HttpError(503, str(error)) from None
    if found is None or request.method not in (b"GET", b"HEAD"):
        raise HttpError(404, "There is no such certificate.")
    headers = [(b"Content-Type", b"application/x-pem-file"), (REQUEST_ID, request.id.encode())]
    return Response(200, headers, found.encode())
