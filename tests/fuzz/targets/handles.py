"""Handles that clients send back: receipts, move tasks, pages. None is accepted that was not issued.

An input is the text of a handle.
"""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

from fuzz.targets import text_of
from penstock.errors import HandleInvalid
from penstock.names import Arn
from penstock.queues.receipts import Receipt, ReceiptSigner
from penstock.services.sqs.move_tasks import _read_handle as read_task_handle
from penstock.services.sqs.queues import read_token
from penstock.wire.service import Fault

_QUEUE = 7
_SIGNER = ReceiptSigner(b"a secret of the shard")
_GIVEN = [
    Receipt(_QUEUE, 0, 0, 0),
    Receipt(_QUEUE, 12, 3, 1_770_000_000_000),
    Receipt(_QUEUE, 2**64 - 1, 2**32 - 1, 1),
]
_ELSEWHERE = Receipt(_QUEUE + 1, 12, 3, 1_770_000_000_000)
_TASK = b'{"taskId":"t","sourceArn":"arn:aws:sqs:us-east-1:111122223333:q"}'
_PAGE = b'[["prefix","us-east-1"],"q"]'

WORDS = [
    *(b"AQEB", b"=", b"==", b"-", b"_", b"+", b"/", b"\n", b" "),
    *(b"\xd9\xa0", b"\xff", b"AAAA", b"eyJ0YXNrSWQiOi"),
    *(b64encode(each) for each in (b'"taskId":', b'"sourceArn":', b"null", b"[[[[[[", b'"\\ud800"', b"1e9", b"{}{}")),
]  # fmt: skip


def seeds() -> list[bytes]:
    receipts = [_SIGNER.handle(receipt).encode() for receipt in (*_GIVEN, _ELSEWHERE)]
    return [*receipts, b64encode(_TASK), urlsafe_b64encode(_PAGE), b64encode(b"[" * 3000)]


def check(data: bytes) -> None:
    handle = text_of(data)
    _check_receipt(handle)
    _check_task(handle)
    _check_page(handle)


def _check_receipt(handle: str) -> None:
    try:
        receipt = _SIGNER.read(handle, _QUEUE)
    except HandleInvalid:
        return
    assert receipt in _GIVEN, "this receipt was never issued"


def _check_task(handle: str) -> None:
    try:
        task, source = read_task_handle(handle)
    except Fault as fault:
        assert fault.status == 400
        return
    assert isinstance(task, str)
    assert isinstance(source, Arn)


def _check_page(handle: str) -> None:
    token = read_token(handle)
    if token is not None:
        assert isinstance(token.after, str)
        assert all(isinstance(part, str) for part in token.listed)
