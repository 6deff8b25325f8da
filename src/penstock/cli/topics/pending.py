"""What has to be done about a subscription that is pending."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from penstock.cli.target import Target
from penstock.cli.topics.facts import subscription_facts
from penstock.client.api import ApiError, Json
from penstock.client.topic_names import Subscriber

_CONFIRMING = ("http", "https", "email", "email-json")
_MAIL = ("email", "email-json")
_CONFIRM = '"penstock topic confirm LINK"'
_LOOKED_AT = 100  # of the latest entries of the outbox


def is_pending(target: Target, subscription: str, protocol: str) -> bool:
    """Whether a new subscription has to be confirmed. Who may subscribe to a topic of another account, and nothing
    else, is not told: then its queue needs no confirmation, and other endpoints do."""
    try:
        return subscription_facts(target, subscription).get("PendingConfirmation") == "true"
    except ApiError as error:
        if not error.is_denied:
            raise
        return protocol in _CONFIRMING


def note_pending(target: Target, topic: str, endpoint: Subscriber) -> None:
    """Say where the link is that confirms a subscription. ``topic``: its ARN."""
    if endpoint.protocol == "sqs":
        where = "the queue gets a message with a link"
    elif endpoint.protocol not in _MAIL:
        where = "the endpoint gets a link"
    elif (entry := _kept_link(target, topic, endpoint)) is not None:
        shows = f'"penstock topic outbox {entry["id"]}"'
        where = f"there is no mail server, so that the link is in the log, and {shows} shows it"
    else:
        where = (
            'the address gets a link; without a mail server it is in the log and in "penstock topic outbox"'
        )
    target.out.note(f"pending: {where}. Open it, or run {_CONFIRM}")


def _kept_link(target: Target, topic: str, endpoint: Subscriber) -> Json | None:
    """The last link for an address in the outbox, as far as the user may look."""
    if not target.uses_admin:
        return None
    with suppress(ApiError):
        entries = islice(target.admin_pages("/outbox", "entries", {"limit": _LOOKED_AT}), _LOOKED_AT)
        wanted = (endpoint.protocol, endpoint.endpoint, topic, "SubscriptionConfirmation")
        for entry in entries:
            if (entry["protocol"], entry["destination"], entry.get("topic"), entry["kind"]) == wanted:
                return entry
    return None
