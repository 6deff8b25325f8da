"""Calls to one server: actions of SQS by name, and the admin API by path.

A session keeps one connection open. It repeats a request only if the server said that nothing was done (503 with
Retry-After), or if a kept connection was closed before an answer to a request that may be repeated. A connection
that was closed while it was not used is noticed before a request is sent on it.
"""

from __future__ import annotations

import json
import select
import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.parse import quote, urlencode, urlsplit

from penstock import __version__
from penstock.client.credentials import SigningKeys
from penstock.client.endpoint import Endpoint
from penstock.client.signing import signed_headers

_READ_ONLY = ("Get", "List", "Receive")
_TRIES_MAX = 4
_PIECE_BYTES = 256 * 1024
_USER_AGENT = f"penstock/{__version__}"
ADMIN_SERVICE = "penstock"  # in a signature

Json = dict[str, Any]  # an object of a request or an answer


class ApiError(Exception):
    """The server refused a request."""

    def __init__(self, code: str, message: str, status: int, request_id: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def is_denied(self) -> bool:
        return self.code.startswith("AccessDenied")

    @property
    def is_missing_queue(self) -> bool:
        """The admin API and the protocols of SQS have different codes for it."""
        return self.code.endswith(("NonExistentQueue", "QueueDoesNotExist"))


class Unavailable(Exception):
    """The server cannot be reached, or what answers is not one."""


class ApiSession:
    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: SigningKeys | None = None,
        *,
        timeout_s: float = 60,
        ca_file: str | None = None,
    ) -> None:
        parts = urlsplit(endpoint)
        self.endpoint = endpoint.rstrip("/")
        self.region = region
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._scheme, self._host, self._port = parts.scheme, parts.hostname or "", parts.port
        self._connection: HTTPConnection | None = None
        # It costs a request to ask, and Amazon is known by its name.
        self._is_penstock = False if self._host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else None

    @classmethod
    def of(cls, endpoint: Endpoint, *, timeout_s: float = 60) -> ApiSession:
        """A session with the server that was found."""
        return cls(
            endpoint.url, endpoint.region, endpoint.credentials, timeout_s=timeout_s, ca_file=endpoint.ca_file
        )

    @property
    def is_penstock(self) -> bool:
        """Has the server an admin API? Asked once, without a signature."""
        if self._is_penstock is None:
            _, content = self._exchange("GET", "/health", {}, b"", may_repeat=True)
            try:
                page = json.loads(content)
            except ValueError:
                page = None
            self._is_penstock = isinstance(page, dict) and {"live", "version"} <= page.keys()
        return self._is_penstock

    def why_not_ready(self) -> str | None:
        """None: it is ready. Raises ApiError for a server without health checks that refuses a request."""
        if not self.is_penstock:
            self.sqs("ListQueues", MaxResults=1)
            return None
        response, content = self._exchange("GET", "/health/ready", {}, b"", may_repeat=True)
        if response.status == 200:
            return None
        reasons = _read_object(content).get("reasons")
        return "; ".join(map(str, reasons)) if isinstance(reasons, list) else f"status {response.status}"

    def sqs(self, action: str, **members: Any) -> Json:
        """Perform an action of SQS. Raises ApiError or Unavailable."""
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
        return self._call("POST", "/", headers, members, "sqs", may_repeat=action.startswith(_READ_ONLY))

    def admin(self, method: str, path: str, query: Json | None = None, body: Json | None = None) -> Json:
        """Call the admin API: ``path`` is below ``/admin/v1``, with its parts already quoted (:func:`quoted`)."""
        pairs = {name: value for name, value in (query or {}).items() if value is not None}
        text = f"?{urlencode(pairs, doseq=True, quote_via=quote)}" if pairs else ""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        target = f"/admin/v1{path}{text}"
        return self._call(method, target, headers, body, ADMIN_SERVICE, may_repeat=method == "GET")

    def download(self, path: str, file: IO[bytes]) -> None:
        """POST to the admin API, and write the answer to ``file`` as it comes. Raises ApiError or Unavailable."""
        target, headers = f"/admin/v1{path}", {"Content-Type": "application/json"}
        if self._credentials is not None:
            url = f"{self.endpoint}{target}"
            headers = signed_headers(
                "POST", url, headers, b"{}", self._credentials, self.region, ADMIN_SERVICE
            )
        connection = self._connect()
        try:
            prefix = urlsplit(self.endpoint).path
            connection.request("POST", f"{prefix}{target}", b"{}", {"User-Agent": _USER_AGENT, **headers})
            response = connection.getresponse()
            if response.status >= 300:
                raise _error(response, response.read())
            while piece := response.read(_PIECE_BYTES):
                _write(file, piece)
        except (OSError, HTTPException) as error:
            raise Unavailable(f"no complete answer from {self.endpoint}: {_reason(error)}") from None
        finally:
            connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        members: Json | None,
        service: str,
        *,
        may_repeat: bool,
    ) -> Json:
        body = b"" if members is None else json.dumps(members).encode()
        for attempt in range(1, _TRIES_MAX + 1):
            sent = dict(headers)
            if self._credentials is not None:
                url = f"{self.endpoint}{target}"
                sent = signed_headers(method, url, headers, body, self._credentials, self.region, service)
            response, content = self._exchange(method, target, sent, body, may_repeat=may_repeat)
            if response.status < 300:
                return _read_object(content)
            if response.status != 503 or not response.getheader("Retry-After") or attempt == _TRIES_MAX:
                raise _error(response, content)
            time.sleep(0.2 * 2**attempt)
        raise AssertionError

    def _exchange(
        self, method: str, target: str, headers: dict[str, str], body: bytes, *, may_repeat: bool
    ) -> tuple[HTTPResponse, bytes]:
        while True:
            kept = self._kept_connection()
            connection = kept or self._connect()
            try:
                prefix = urlsplit(self.endpoint).path
                # Not signed, since proxies may change it.
                sent = {"User-Agent": _USER_AGENT, **headers}
                connection.request(method, f"{prefix}{target}", body or None, sent)
                response = connection.getresponse()
                content = response.read()
            except (OSError, HTTPException) as error:
                connection.close()
                if kept is not None and may_repeat:
                    continue  # the server had closed it meanwhile
                raise Unavailable(f"no answer from {self.endpoint}: {_reason(error)}") from None
            if response.will_close:
                connection.close()
            else:
                self._connection = connection
            return response, content

    def _kept_connection(self) -> HTTPConnection | None:
        """It is kept again when its answer was read."""
        kept, self._connection = self._connection, None
        if kept is None or kept.sock is None:
            return None
        if select.select([kept.sock], [], [], 0)[0]:  # nothing was asked: this is the end of the stream
            kept.close()
            return None
        return kept

    def _connect(self) -> HTTPConnection:
        if self._scheme == "http":
            return HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        try:
            context = ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise Unavailable(f'cannot use "{self._ca_file}" as CA certificates: {_reason(error)}') from None
        return HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=context)


class NotWritten(Exception):
    """What was downloaded cannot be written: an error of this machine, not of the server."""


def _write(file: IO[bytes], piece: bytes) -> None:
    try:
        file.write(piece)
    except OSError as error:
        raise NotWritten(_reason(error)) from None


def quoted(part: str) -> str:
    """A part of a path."""
    return quote(part, safe="")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _read_object(content: bytes) -> Json:
    try:
        read = json.loads(content) if content else {}
        if b"\\ud" in content.lower():
            json.dumps(read, ensure_ascii=False).encode()  # half a surrogate pair cannot be printed
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Unavailable("the answer is not that of a message broker: check the endpoint URL")
    return read


def _error(response: HTTPResponse, content: bytes) -> ApiError:
    try:
        members = _read_object(content)
    except Unavailable:
        members = {}
    # SQS: the code of the Query protocol is the one that people know.
    code = (response.getheader("x-amzn-query-error") or "").partition(";")[0]
    code = code or response.getheader("X-Amzn-Errortype") or str(members.get("__type", "")).rpartition("#")[2]
    message = members.get("message") or members.get("Message") or content[:200].decode("utf-8", "replace")
    request_id = response.getheader("x-amzn-RequestId") or ""
    return ApiError(code or f"HTTP {response.status}", str(message), response.status, request_id)
