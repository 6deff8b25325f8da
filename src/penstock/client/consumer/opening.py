"""Opens the envelopes of topics, so that handlers get what was published."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.client.client import Client
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.envelopes import Envelope, find_envelope, open_envelope, opened
from penstock.client.structs import Message

if TYPE_CHECKING:
    from penstock.client.signatures import SignatureVerifier


class Opener:
    def __init__(self, settings: ConsumerSettings, client: Client) -> None:
        """The server of the client is trusted. Raises RuntimeError if signatures cannot be checked here."""
        self._envelopes = settings.envelopes
        self._verifier = _verifier(settings, client)

    async def open(self, message: Message) -> Message:
        """The message as handlers get it. Raises DecodeError for one that has no envelope, or is not trusted, and
        Unavailable if the certificate cannot be fetched at the moment."""
        if not self._envelopes:
            return message
        envelope = find_envelope(message.body) if self._envelopes == "auto" else open_envelope(message.body)
        if envelope is None:
            return message
        if self._verifier is not None:
            await self._verify(self._verifier, envelope)
        return opened(message, envelope)

    async def _verify(self, verifier: SignatureVerifier, envelope: Envelope) -> None:
        from penstock.client.signatures import check_signature

        verifier.check_topic(envelope)
        key = verifier.kept_key(envelope)
        if key is None:
            key = await asyncio.to_thread(verifier.fetch_key, envelope)
        check_signature(envelope, key)


def _verifier(settings: ConsumerSettings, client: Client) -> SignatureVerifier | None:
    if not settings.verify_signature:
        return None
    from penstock.client.signatures import SignatureVerifier

    if isinstance(settings.verify_signature, SignatureVerifier):
        return settings.verify_signature
    return SignatureVerifier(trusted=[client.endpoint.url], ca_file=client.endpoint.ca_file)
