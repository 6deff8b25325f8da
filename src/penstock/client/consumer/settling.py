"""Requests about received messages: they are deleted, extended, hidden for a pause, or given back.

A delete that gets no answer is repeated as long as the message is this worker's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from penstock.backoff import backoff
from penstock.client.client import Client
from penstock.client.consumer.claims import Claim, HeldClaims
from penstock.client.consumer.retry import visibility_s
from penstock.client.credentials import ProfileError
from penstock.client.errors import ApiError, Unavailable, api_error, is_final
from penstock.client.limits import ENTRIES_MAX
from penstock.client.structs import BatchResult, DoneEntry, FailedEntry, VisibilityEntry

log = logging.getLogger("penstock.worker")

T = TypeVar("T")

REQUEST_ERRORS: Final = (ApiError, Unavailable, ProfileError)
"""What requests raise: the server refuses, does not answer, or there are no keys at the moment."""

_DELETES_AT_ONCE = 4  # requests
_PAUSE_S, _PAUSE_S_MAX = 0.2, 5.0


class Settling:
    """Deletes and hides the messages of one queue, in batches."""

    def __init__(self, client: Client, queue: str, claims: HeldClaims) -> None:
        self._client = client
        self._queue = queue
        self._claims = claims
        self._deletes = DeleteBatches(client, queue)
        self.given_back = 0  # messages so far

    async def delete(self, claim: Claim) -> bool:
        """Delete a message. Returns False if it was lost before or cannot be deleted: it will be delivered again."""
        attempt = 0
        while not claim.is_lost:
            try:
                await self._deletes.delete(claim.message.receipt_handle)
            except Exception as error:
                about = self._about(claim, error)
                if is_final(error):
                    log.error("cannot delete a message: it will be delivered again", extra=about)
                    self._claims.refused(claim)
                    break
                log.warning("cannot delete a message: trying again", extra=about)
                attempt += 1
                await asyncio.sleep(backoff(attempt, _PAUSE_S, _PAUSE_S_MAX))
            else:
                self._claims.release(claim)
                return True
        return False

    async def extend(self, due: Sequence[tuple[Claim, int]], now: float) -> list[Claim]:
        """Extend up to ten claims. Returns those that are lost, by what the queue says."""
        entries = [
            VisibilityEntry(claim.message.receipt_handle, seconds, id=str(place))
            for place, (claim, seconds) in enumerate(due)
        ]
        try:
            async with asyncio.timeout(min(claim.until for claim, _ in due) - now):
                result = await self._client.change_message_visibility_batch(self._queue, entries)
        except (*REQUEST_ERRORS, TimeoutError) as error:
            log.warning(
                "cannot extend messages: trying again", extra={"queue": self._queue, "reason": str(error)}
            )
            return []
        failed = {entry.id: entry for entry in result.failed}
        lost = []
        for place, (claim, seconds) in enumerate(due):
            failure = failed.get(str(place))
            if failure is None:
                self._claims.extended(claim, seconds, now)
            elif failure.sender_fault and self._claims.refused(claim):
                lost.append(claim)
        return lost

    async def hide(self, claim: Claim, pause_s: float, now: float) -> None:
        """Hide a message for the pause before the next attempt. If that fails, it is visible when its timeout
        ends."""
        self._claims.release(claim)
        seconds = visibility_s(pause_s, now - claim.received_at)
        try:
            await self._client.change_message_visibility(self._queue, claim.message.receipt_handle, seconds)
        except REQUEST_ERRORS as error:
            log.warning("cannot set the pause before the next attempt", extra=self._about(claim, error))

    async def give_back(self, claims: Sequence[Claim]) -> None:
        """Make messages visible at once, in this order."""
        for claim in claims:
            self._claims.release(claim)
        for given_back in _batches([claim for claim in claims if not claim.is_lost]):
            entries = [VisibilityEntry(claim.message.receipt_handle, 0) for claim in given_back]
            try:
                result = await self._client.change_message_visibility_batch(self._queue, entries)
                self.given_back += len(result.successful)
            except REQUEST_ERRORS as error:
                about = {"queue": self._queue, "messages": len(given_back), "reason": str(error)}
                log.warning(
                    "cannot give messages back: they are visible when their timeout ends", extra=about
                )

    def _about(self, claim: Claim, error: Exception) -> dict[str, str]:
        return {"queue": self._queue, "message_id": claim.message.message_id, "reason": str(error)}


class DeleteBatches:
    """Deletes that are asked for while requests are under way go together with the next one."""

    def __init__(self, client: Client, queue: str) -> None:
        self._client = client
        self._queue = queue
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._sending = 0  # tasks that look at what waits
        self._senders: set[asyncio.Task[None]] = set()

    async def delete(self, handle: str) -> None:
        """Raises ApiError or Unavailable."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((handle, done))
        if not self._sending or (len(self._waiting) > ENTRIES_MAX and self._sending < _DELETES_AT_ONCE):
            self._sending += 1
            sender = asyncio.create_task(self._send())
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        await done

    async def _send(self) -> None:
        await asyncio.sleep(0)  # what ends in the same turn of the loop goes together
        while self._waiting:
            batch, self._waiting = self._waiting[:ENTRIES_MAX], self._waiting[ENTRIES_MAX:]
            failed: dict[str, FailedEntry] = {}
            error: Exception | None = None
            try:
                handles = [handle for handle, _ in batch]
                result: BatchResult[DoneEntry] = await self._client.delete_message_batch(self._queue, handles)
                failed = {entry.id: entry for entry in result.failed}
            except Exception as caught:  # those who wait are to get it, whatever it is
                error = caught
            for place, (_, done) in enumerate(batch):
                if done.done():
                    continue  # its caller was cancelled
                failure = error or _error_of(failed.get(str(place)))
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)
        self._sending -= 1


def _error_of(entry: FailedEntry | None) -> ApiError | None:
    if entry is None:
        return None
    return api_error(entry.code, entry.message, 400 if entry.sender_fault else 500, "")


def _batches(elements: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(elements), ENTRIES_MAX):
        yield elements[start : start + ENTRIES_MAX]
