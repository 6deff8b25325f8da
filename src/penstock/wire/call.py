"""One request on its way through the house: who calls, from where, and what if nobody reads the answer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.names import Space


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
        "asked",
        "base_url",
        "gone",
        "if_unread",
        "on_gone",
        "request_id",
        "sender",
        "space",
        "trace",
    )

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
        self.gone = False  # the caller hung up
        self.on_gone: Callable[[], None] | None = None  # called once, at the moment the caller hangs up
        self.if_unread: Callable[[], None] | None = None  # called if the answer could not be written

    def hang_up(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            callback, self.on_gone = self.on_gone, None
            callback()
