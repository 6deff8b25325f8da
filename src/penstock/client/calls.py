"""One action of SQS: its members are written, its answer is read. Queues that are given by name get their URL."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from penstock.client.errors import ApiError
from penstock.client.http.exchange import Abandoned
from penstock.client.objects import Json, not_a_broker
from penstock.client.session import Session
from penstock.client.structs import FoundUrl

_NAMES_MAX = 1000
_encode = msgspec.json.Encoder().encode
_decoders: dict[Any, Any] = {}

R = TypeVar("R")


class SqsCalls:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._urls: dict[str, str] = {}

    async def call(
        self,
        result: type[R],
        action: str,
        is_idempotent: bool = False,
        wait_s: float = 0,
        abandoned: Abandoned | None = None,
        **members: Any,
    ) -> R:
        """Members that are None are left out."""
        body = _encode({name: value for name, value in members.items() if value is not None})
        answer = await self._session.sqs(
            action, body, is_idempotent=is_idempotent, wait_s=wait_s, abandoned=abandoned
        )
        return decode(result, answer)

    async def url(self, queue: str) -> str:
        """Returns the URL of a queue. The URL of one given by name is asked for once."""
        if "://" in queue:
            return queue
        url = self._urls.get(queue)
        if url is None:
            try:
                url = (await self.call(FoundUrl, "GetQueueUrl", QueueName=queue)).queue_url
            except ApiError as error:
                if not error.is_denied:
                    raise
                url = queue  # Penstock takes the name; a user who may send may not always look
            if len(self._urls) >= _NAMES_MAX:
                self._urls.clear()
            self._urls[queue] = url
        return url

    def forget(self, url: str) -> None:
        """Forgets the URL of a queue that is deleted."""
        self._urls = {name: known for name, known in self._urls.items() if known != url}


def decode(result: type[R], answer: bytes) -> R:
    """Raises Unavailable for a body that is not an object."""
    decoder = _decoders.get(result)
    if decoder is None:
        decoder = _decoders[result] = msgspec.json.Decoder(result)
    try:
        return decoder.decode(answer or b"{}")  # type: ignore[no-any-return]
    except msgspec.DecodeError:
        raise not_a_broker() from None


def given_members(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value is not None}
