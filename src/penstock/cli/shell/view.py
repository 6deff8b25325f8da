"""Queues and messages in the JSON of DynamoMQ, whose names and order its users know.

DynamoMQ computes a status from one time only: what cannot be received now, in flight or delayed, is PROCESSING.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.cli.messages.admin_queue import as_listed
from penstock.cli.times import rfc3339
from penstock.client.objects import read_json

IDS_MAX = 100  # that statistics name

Message = dict[str, Any]  # as the admin API gives it


class Found(NamedTuple):
    """A message and where it is."""

    queue: str
    is_dead_letter: bool
    message: Message

    @property
    def id(self) -> str:
        return str(self.message["id"])

    @property
    def queue_type(self) -> str:
        return "DLQ" if self.is_dead_letter else "STANDARD"

    @property
    def status(self) -> str:
        return "READY" if self.message["state"] == "visible" else "PROCESSING"

    @property
    def data(self) -> Any:
        """The body: what is JSON as such, anything else as text."""
        body = self.message.get("body")
        try:
            return None if body is None else read_json(body)
        except ValueError:
            return body

    def system_info(self) -> dict[str, Any]:
        return {"id": self.id, "status": self.status, **self._system()}

    def dump(self) -> dict[str, Any]:
        """The whole message. What DynamoMQ does not have comes last."""
        ours = {
            name: self.message[name] for name in ("attributes", "group", "source") if self.message.get(name)
        }
        return {"id": self.id, "data": self.data, **self._system(), **ours}

    def _system(self) -> dict[str, Any]:
        message = self.message
        holder = message.get("holder") or {}
        received_at = holder.get("since") or message.get("first_received_at") or ""
        hidden = message["state"] != "visible"
        return {
            "receive_count": message["receives"],
            "queue_type": self.queue_type,
            "version": message.get("version"),
            "created_at": message["sent_at"],
            "updated_at": max(message["sent_at"], message["enqueued_at"], received_at),
            "sent_at": message["enqueued_at"],
            "received_at": received_at,
            "invisible_until_at": (message.get("visible_at") or holder.get("until") or "") if hidden else "",
        }


def queue_stats(
    visible: int, hidden: int, ids: list[str] | None, hidden_ids: list[str] | None
) -> dict[str, Any]:
    """Ids are None where the server cannot list them."""
    return {
        "first_100_IDs_in_queue": ids,
        "first_100_IDs_in_queue_processing": hidden_ids,
        "total_messages_in_queue": visible + hidden,
        "total_messages_in_queue_processing": hidden,
        "total_messages_in_queue_ready": visible,
    }


def dead_letter_stats(total: int, ids: list[str] | None) -> dict[str, Any]:
    return {"first_100_IDs_in_queue": ids, "total_messages_in_DLQ": total}


def received_message(answer: dict[str, Any]) -> Message:
    """A message of ReceiveMessage as the admin API would list it, for servers that have none."""
    listed = as_listed(answer)
    first_received = int(answer["Attributes"]["ApproximateFirstReceiveTimestamp"])
    return listed | {
        "state": "in_flight",
        "enqueued_at": listed["sent_at"],
        "first_received_at": rfc3339(first_received / 1000),
    }
