"""A subscriber in a test: a small HTTP server that confirms subscriptions by itself and records what topics send."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.testing.snapshots import counted

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from penstock.client import Webhook

_HOST = "127.0.0.1"
_SHOWN_MAX = 20


class HttpSubscriber:
    """A server on a port of the loopback interface, in threads of this process.

    Use it as a context manager, or start and stop it:

        with broker.http_subscriber() as subscriber:
            broker.topic("orders").subscribe(subscriber)
    """

    def __init__(self, trusted: str, *, confirms: bool = True) -> None:
        """Prepare a subscriber: ``broker.http_subscriber()`` does that.

        :param trusted: The URL of the broker: confirmations and signatures of others are refused.
        :param confirms: Whether it confirms subscriptions; True by default.
        """
        from http.server import ThreadingHTTPServer  # it takes time to import, and few tests need it

        self.confirms = confirms
        """Whether it confirms subscriptions."""
        self._trusted = trusted
        self._changed = threading.Condition()
        self._webhooks: list[Webhook] = []
        self._refused: list[str] = []
        self._status = 200
        self._times: int | None = None
        self._server = ThreadingHTTPServer((_HOST, 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The URL to subscribe."""
        return f"http://{_HOST}:{self._server.server_address[1]}/"

    # -- what a test does --------------------------------------------------------------------------------------------

    @property
    def notifications(self) -> list[Webhook]:
        """The messages that it accepted, in their order, without those that it failed."""
        return self._accepted("Notification")

    @property
    def confirmations(self) -> list[Webhook]:
        """The requests to confirm a subscription, or its end, that it got."""
        return self._accepted("SubscriptionConfirmation") + self._accepted("UnsubscribeConfirmation")

    @property
    def attempts(self) -> int:
        """How many requests with messages it got, those that it failed among them."""
        return len(self.notifications) + len(self._refused)

    def respond(self, status: int, *, times: int | None = None) -> None:
        """Answer messages with another status from now on, such as 503 to have them sent again.

            subscriber.respond(503, times=1)

        :param status: The HTTP status.
        :param times: How often; None (the default): until it is changed. Then it is 200 again.
        """
        with self._changed:
            self._status, self._times = status, times

    def wait_for(self, count: int = 1, *, timeout: float = 10) -> list[Webhook]:
        """Wait until messages have arrived.

        :param count: How many in all; 1 by default.
        :param timeout: How many seconds to wait; 10 by default.
        :returns: All messages that were accepted.
        :raises AssertionError: There are fewer after that time.
        """
        __tracebackhide__ = True
        self._wait(lambda: len(self.notifications), count, "message", timeout)
        return self.notifications

    def wait_for_attempts(self, count: int = 1, *, timeout: float = 10) -> None:
        """Wait until messages were sent to it, whether it accepted them or not.

        :param count: How many times in all; 1 by default.
        :param timeout: How many seconds to wait; 10 by default.
        :raises AssertionError: There are fewer after that time.
        """
        __tracebackhide__ = True
        self._wait(lambda: self.attempts, count, "attempt", timeout)

    def start(self) -> None:
        """Start to accept requests."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, and close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __str__(self) -> str:
        lines = [f"subscriber {self.url}: {counted(len(self.notifications), 'message')}"]
        lines[0] += f", {len(self._refused)} failed" if self._refused else ""
        lines += [f"  {webhook.body!r}" for webhook in self.notifications[-_SHOWN_MAX:]]
        return "\n".join(lines)

    # -- requests, each in a thread ----------------------------------------------------------------------------------

    def answer(self, headers: dict[str, str], body: bytes) -> int:
        """Take a request. The handler of the server calls it.

        :param headers: The headers.
        :param body: The body.
        :returns: The HTTP status.
        """
        from penstock.client import DecodeError, SignatureVerifier, confirm_subscription, parse_webhook

        try:
            webhook = parse_webhook(headers, body)
        except DecodeError:
            return 400
        if webhook.kind == "Notification":
            return self._take(webhook)
        if self.confirms and webhook.kind == "SubscriptionConfirmation":
            confirm_subscription(webhook, SignatureVerifier(trusted=[self._trusted]))
        return self._add(webhook)

    def _take(self, webhook: Webhook) -> int:
        with self._changed:
            status = self._status
            if self._times is not None:
                self._times -= 1
                if self._times <= 0:
                    self._status, self._times = 200, None
            if status >= 300:
                self._refused.append(webhook.message_id)
                self._changed.notify_all()
                return status
        return self._add(webhook, status)

    def _add(self, webhook: Webhook, status: int = 200) -> int:
        with self._changed:
            self._webhooks.append(webhook)
            self._changed.notify_all()
        return status

    def _accepted(self, kind: str) -> list[Webhook]:
        with self._changed:
            return [webhook for webhook in self._webhooks if webhook.kind == kind]

    def _wait(self, look: Any, count: int, noun: str, timeout: float) -> None:
        __tracebackhide__ = True
        end = time.monotonic() + timeout
        with self._changed:
            self._changed.wait_for(lambda: look() >= count, max(0, end - time.monotonic()))
        if (found := look()) < count:
            raise AssertionError(
                f"expected {counted(count, noun)}, found {found} after {timeout:g} s\n{self}"
            )


def _handler_of(subscriber: HttpSubscriber) -> type[BaseHTTPRequestHandler]:
    from http.server import BaseHTTPRequestHandler

    class RequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            try:
                status = subscriber.answer(dict(self.headers.items()), body)
            except Exception:  # of a confirmation: the broker tries again
                status = 500
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing: a test that fails shows what arrived."""

    return RequestHandler
