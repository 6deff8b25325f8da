"""The blocking session of commands: actions of SQS and SNS by name, the admin API by path, JSON objects in and out.

Programs use :class:`penstock.client.SyncClient`, which has types. This one is for those that start often: it loads
neither msgspec nor asyncio, and nothing of HTTP before the first request.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, TypeVar

from penstock.client.endpoint import Endpoint
from penstock.client.errors import ApiError, NotWritten, Unavailable
from penstock.client.objects import Json, quoted, read_object

if TYPE_CHECKING:
    from penstock.client.credentials import KeySource
    from penstock.client.session import Session

__all__ = ["ApiError", "ApiSession", "Json", "NotWritten", "Unavailable", "quoted", "run"]

_ATTEMPTS_MAX = 4

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that awaits nothing but a blocking network, and so never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("a coroutine of the blocking client was suspended")


class ApiSession:
    """Makes requests for commands, from any thread. One whose outcome is unknown is repeated only if that is safe."""

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: KeySource | None = None,
        *,
        timeout_s: float = 60,
        ca_file: str | None = None,
    ) -> None:
        self._endpoint = Endpoint(endpoint, region, credentials, "", ca_file)
        self._timeout_s = timeout_s

    @classmethod
    def of(cls, endpoint: Endpoint, *, timeout_s: float = 60) -> ApiSession:
        """A session with the server that was found."""
        return cls(
            endpoint.url, endpoint.region, endpoint.credentials, timeout_s=timeout_s, ca_file=endpoint.ca_file
        )

    @cached_property
    def session(self) -> Session:
        from penstock.client.http.blocking import BlockingNetwork
        from penstock.client.retries import Retries
        from penstock.client.session import Session

        retries = Retries(_ATTEMPTS_MAX, repeats_unknown=False, repeats_connecting=False)
        return Session(self._endpoint, BlockingNetwork(1), timeout_s=self._timeout_s, retries=retries)

    @property
    def is_penstock(self) -> bool:
        """Whether the server has an admin API. It is asked once, without a signature."""
        return run(self.session.is_penstock())

    def why_not_ready(self) -> str | None:
        """Returns why the server is not ready; None if it is. Raises ApiError for a server without health checks that
        refuses a request."""
        if not self.is_penstock:
            self.sqs("ListQueues", MaxResults=1)
            return None
        answer = run(self.session.page("/health/ready"))
        if answer.status == 200:
            return None
        reasons = read_object(answer.body).get("reasons")
        return "; ".join(map(str, reasons)) if isinstance(reasons, list) else f"status {answer.status}"

    def sqs(self, action: str, **members: Any) -> Json:
        """Perform an action of SQS. Raises ApiError, Unavailable or ProfileError."""
        return read_object(run(self.session.sqs(action, json.dumps(members).encode())))

    def sns(self, action: str, **members: Any) -> Json:
        """Perform an action of SNS. Lists and texts that are empty are missing in the answer. Raises ApiError,
        Unavailable or ProfileError."""
        from penstock.client.query import read_answer

        return read_answer(action, run(self.session.sns(action, members)))

    def admin(self, method: str, path: str, query: Json | None = None, body: Json | None = None) -> Json:
        """Call the admin API: ``path`` is below ``/admin/v1``, with its parts already quoted (:func:`quoted`)."""
        return run(self.session.admin(method, path, query, body))

    def download(self, path: str, file: IO[bytes]) -> None:
        """POST to the admin API, and write the answer to ``file`` as it comes. Raises ApiError or Unavailable."""

        def write(piece: bytes) -> None:
            try:
                file.write(piece)
            except OSError as error:
                raise NotWritten(error.strerror or str(error)) from None

        run(self.session.admin("POST", path, body={}, sink=write))

    def close(self) -> None:
        if "session" in vars(self):
            run(self.session.close())
