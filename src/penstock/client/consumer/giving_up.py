"""What happens when a message cannot be processed: why is reported to Penstock, and it goes to the dead-letter queue.

A report is kept with the message and goes with it, so that dead letters can be grouped by reason. It is bounded, and
one that fails changes nothing. Amazon SQS gets none.

Penstock moves a message that its receiver gives up in one step: it keeps its id, its receive count and its reports.
Amazon SQS cannot do that. There the same body and attributes are sent to the queue that the redrive policy names, and
the message is deleted then; if the worker dies in between, it is in both queues. The same is done where the keys do
not allow ``penstock:DeadLetterMessage``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import traceback
from enum import Enum, auto

from penstock.client.client import Client
from penstock.client.consumer.claims import Claim, HeldClaims
from penstock.client.consumer.context import attempt_of
from penstock.client.consumer.retry import GiveUp, Retry
from penstock.client.consumer.settling import Settling
from penstock.client.credentials import ProfileError
from penstock.client.errors import ApiError, Unavailable
from penstock.client.large_payloads import split_handle
from penstock.client.objects import Json, quoted
from penstock.client.queue_names import queue_account, queue_name
from penstock.client.structs import Message

log = logging.getLogger("penstock.worker")

_REASON_MAX, _DETAIL_MAX = 256, 2048  # characters; what Penstock keeps
_REPORT_S_MAX = 2.0
_POLICY_KEPT_S = 60.0
_OUR_MODULES = ("penstock.client.consumer.", "concurrent.futures.")
# Ids and long numbers in texts: without them, failures with the same cause have the same reason.
_VARIABLE = re.compile(r"\b(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0x[0-9a-fA-F]+|\d{4,})\b")


class FailureReports:
    def __init__(self, client: Client, queue: str, worker: str) -> None:
        self._client = client
        self._queue = queue
        self._worker = worker
        self._is_off = False

    async def send(self, message: Message, error: BaseException) -> None:
        """Returns in any case, within two seconds."""
        if self._is_off:
            return
        report = {
            "reason": reason_of(error), "detail": detail_of(error), "attempt": attempt_of(message),
            "worker": self._worker,
        }  # fmt: skip
        try:
            async with asyncio.timeout(_REPORT_S_MAX):
                if await self._client.is_penstock():
                    await admin_post(self._client, self._queue, message, "failures", report)
                else:
                    self._is_off = True
        except ApiError as refusal:
            if refusal.is_denied:
                self._is_off = True
                log.info(
                    "failures are not reported: penstock:ReportFailure is not allowed",
                    extra=self._about(refusal),
                )
            else:
                log.debug("a failure was not reported", extra=self._about(refusal))
        except (Unavailable, ProfileError, TimeoutError) as error:
            log.debug("a failure was not reported", extra=self._about(error))

    def _about(self, error: Exception) -> dict[str, str]:
        return {"queue": self._queue, "reason": str(error)}


def reason_of(error: BaseException) -> str:
    """Returns the text that groups failures: type and first line, without ids and long numbers."""
    line = str(error).partition("\n")[0].strip()
    if isinstance(error, GiveUp | Retry):
        return line[:_REASON_MAX]
    name = type(error).__name__
    return f"{name}: {_VARIABLE.sub('…', line)}"[:_REASON_MAX] if line else name


def detail_of(error: BaseException) -> str:
    """The traceback from the handler on; if it is long, its end, which says where it happened."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_OUR_MODULES):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))[-_DETAIL_MAX:]


class GaveUp(Enum):
    MOVED = auto()
    LOST = auto()  # it is not this worker's any more
    IMPOSSIBLE = auto()  # there is no dead-letter queue


class DeadLetters:
    def __init__(self, client: Client, queue: str, settling: Settling, claims: HeldClaims) -> None:
        self._client = client
        self._queue = queue
        self._settling = settling
        self._claims = claims
        self._by_admin = True
        self._target: str | None = None  # as the redrive policy says
        self._target_until = 0.0

    async def move(self, claim: Claim, now: float) -> GaveUp:
        """Raises ApiError or Unavailable: nothing is done, or it is not known."""
        if self._by_admin and await self._client.is_penstock():
            try:
                return await self._move_by_admin(claim)
            except ApiError as error:
                if not error.is_denied:
                    raise
                self._by_admin = False
                log.info(
                    "dead letters are sent and deleted: penstock:DeadLetterMessage is not allowed",
                    extra={"queue": self._queue, "reason": str(error)},
                )
        target = await self._find_target(now)
        if target is None:
            return GaveUp.IMPOSSIBLE
        await self._send(target, claim.message)
        return GaveUp.MOVED if await self._settling.delete(claim) else GaveUp.LOST

    async def _move_by_admin(self, claim: Claim) -> GaveUp:
        handle, _ = split_handle(claim.message.receipt_handle)  # the payload stays with the dead letter
        body = {"receipt_handle": handle}
        try:
            await admin_post(self._client, self._queue, claim.message, "dead-letter", body)
        except ApiError as error:
            if error.code == "NotPossible":
                return GaveUp.IMPOSSIBLE
            if error.code in ("ReceiptHandleExpired", "MessageDoesNotExist"):
                self._claims.refused(claim)
                return GaveUp.LOST
            raise
        self._claims.release(claim)
        return GaveUp.MOVED

    async def _find_target(self, now: float) -> str | None:
        """The URL of the dead-letter queue; None if there is none."""
        if now >= self._target_until:
            attributes = await self._client.get_queue_attributes(self._queue, ["RedrivePolicy"])
            policy = json.loads(attributes.get("RedrivePolicy") or "{}")
            arn = policy.get("deadLetterTargetArn")
            self._target = None
            if arn:
                name, account = queue_name(arn), queue_account(arn)
                self._target = await self._client.get_queue_url(name, owner_account_id=account)
            self._target_until = now + _POLICY_KEPT_S
        return self._target

    async def _send(self, target: str, message: Message) -> None:
        is_fifo = target.endswith(".fifo")
        trace = message.attributes.get("AWSTraceHeader")
        await self._client.send_message(
            target,
            message.body,
            message_attributes=message.message_attributes,
            message_system_attributes={"AWSTraceHeader": trace} if trace else None,
            message_group_id=message.group_id,
            # A second attempt to give up the same message sends it once.
            message_deduplication_id=message.message_id if is_fifo else None,
        )


async def admin_post(client: Client, queue: str, message: Message, action: str, body: Json) -> None:
    path = f"/queues/{quoted(queue_name(queue))}/messages/{quoted(message.message_id)}/{action}"
    await client.admin("POST", path, {"account": queue_account(queue)}, body)
