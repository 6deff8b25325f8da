"""One request on its way through the house: who calls, from where, and what if nobody reads the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.names import Space

TRACE_BYTES_MAX = 1024
"""Of a trace header, however it comes: its own parts have a hundred, the rest is for applications. It is stored with
a message, and counts for no limit of its size."""


class Asked(msgspec.Struct, frozen=True):
    """How a request was put that does not name its action in X-Amz-Target, as bytes of HTTP."""

    method: bytes
    path: bytes
    query: bytes
    content_type: bytes
    accept: bytes


class Call:
    """Made by the server for each request, handed down to the handler."""

    __slots__ = (
        "action", "asked", "base_url", "certificate", "gone", "if_unread", "on_gone", "principal", "request_id",
        "resource", "secure", "sender", "signed_for", "source_ip", "space", "trace", "user_agent", "verdict",
    )  # fmt: skip

    def __init__(
        self,
        *,
        request_id: str,
        space: Space,
        sender: str,
        base_url: str,
        trace: str | None = None,
        asked: Asked | None = None,
    ) -> None:
        self.request_id = request_id
        self.space = space  # account and region of the caller
        self.sender = sender  # shown as SenderId
        self.base_url = base_url  # scheme://host[:port] as the caller reached us; queue URLs are built on it
        self.trace = trace  # the X-Amzn-Trace-Id header
        self.asked = asked  # None if X-Amz-Target said all there is to say
        self.action = ""  # set by the dispatcher
        # Who calls, on a secured server. The wire only carries it: `auth` makes and reads it.
        self.principal: Any = None  # None: the server is open, nobody asked who it is
        self.signed_for: str | None = None  # the service in the signature's scope; None without a signature
        self.source_ip = ""
        self.secure = False  # it came by TLS
        self.certificate = ""  # whose certificate came with it
        self.user_agent = ""
        # What was decided about it, for the audit trail.
        self.resource = ""  # the ARN that was asked for
        self.verdict: Any = None
        self.gone = False  # the caller hung up
        self.on_gone: Callable[[], None] | None = None  # called once, at the moment the caller hangs up
        self.if_unread: Callable[[], None] | None = None  # called if the answer could not be written

    def hang_up(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            callback, self.on_gone = self.on_gone, None
            callback()
