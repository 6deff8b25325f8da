"""Requests to one server: signed, repeated where that helps, their errors read. Bodies are bytes.

Everything is a coroutine over a network, so that the same code serves asyncio and blocking callers.
"""

from __future__ import annotations

import json
import logging
import time
from functools import cached_property
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from penstock.client.credentials import PLACEHOLDER_KEYS, KeySource, SigningKeys
from penstock.client.endpoint import Endpoint, sns_url
from penstock.client.errors import ApiError, Unavailable, api_error
from penstock.client.http.exchange import Abandoned, Address, ExchangeFailed, HttpResponse, Network, Sink
from penstock.client.keys import CurrentKeys, sts_url
from penstock.client.objects import Json, read_json, read_object
from penstock.client.query import encode_form, error_of
from penstock.client.retries import Retries, RetryQuota, of_failure, of_refusal
from penstock.client.signing import RequestTemplate

ADMIN_SERVICE = "penstock"  # in a signature
_UNSIGNED = ""
_FEW_TARGETS = ("sqs", "sns")  # others have a target for each request
_FORM = (("content-type", "application/x-www-form-urlencoded; charset=utf-8"),)
_SNS_VERSION = "2010-03-31"
TIMEOUT_S = 30.0

_log = logging.getLogger(__name__)

# Doing these twice is the same as doing them once. A message that is received twice becomes visible once more.
_IDEMPOTENT = (
    "Get", "List", "Receive", "DeleteMessage", "ChangeMessageVisibility", "CreateQueue", "SetQueueAttributes",
    "TagQueue", "UntagQueue",
)  # fmt: skip


class RequestKind(NamedTuple):
    """What requests of one kind have in common."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    service: str
    is_idempotent: bool


class Session:
    def __init__(
        self,
        endpoint: Endpoint,
        network: Network,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries | None = None,
        keys: CurrentKeys | None = None,
    ) -> None:
        """``keys``: those of another session; None: the ones of the endpoint. Raises ValueError for an invalid
        timeout."""
        if not timeout_s > 0:
            raise ValueError(f"invalid timeout_s {timeout_s}: expected more than 0")
        self.endpoint = endpoint
        self.network = network
        self._url = endpoint.url.rstrip("/")
        self._address = Address.of(endpoint.url, endpoint.ca_file)
        self._timeout_s = timeout_s
        self._settings = retries or Retries()
        self._quota = RetryQuota(self._settings)
        self._keys = keys or CurrentKeys(endpoint.credentials, network, self._open_sts)
        self._actions: dict[str, RequestKind] = {}
        self._templates: dict[RequestKind, RequestTemplate] = {}
        # It costs a request to ask, and Amazon is known by its name.
        host = urlsplit(endpoint.url).hostname or ""
        self._is_penstock = False if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else None

    async def sqs(
        self,
        action: str,
        body: bytes,
        *,
        is_idempotent: bool = False,
        wait_s: float = 0,
        abandoned: Abandoned | None = None,
    ) -> bytes:
        """The answer to an action of SQS. ``wait_s``: how long the server may wait before it answers. Raises
        ApiError, Unavailable or ProfileError."""
        kind = self._actions.get(action)
        if kind is None:
            kind = self._actions[action] = _sqs_kind(action)
        answer = await self._call(
            kind, body, self._timeout_s + wait_s, is_idempotent=is_idempotent, abandoned=abandoned
        )
        return answer.body

    async def form(self, service: str, form: bytes, *, is_idempotent: bool = True) -> bytes:
        """The answer to an action in the Query protocol."""
        kind = RequestKind("POST", "/", _FORM, service, False)
        return (await self._call(kind, form, self._timeout_s, is_idempotent=is_idempotent)).body

    async def sns(self, action: str, members: Json, *, is_idempotent: bool | None = None) -> bytes:
        """The answer to an action of SNS. ``is_idempotent``: None: all actions are but those that publish. Raises
        ApiError, Unavailable or ProfileError."""
        if is_idempotent is None:
            is_idempotent = not action.startswith("Publish")
        form = encode_form(action, _SNS_VERSION, members)
        return await self.topics.form("sns", form, is_idempotent=is_idempotent)

    @cached_property
    def topics(self) -> Session:
        """The session with SNS: this one, unless SNS has another URL."""
        url = self.endpoint.sns_url or sns_url(self.endpoint.url)
        if url == self.endpoint.url:
            return self
        endpoint = self.endpoint._replace(url=url)
        return Session(
            endpoint, self.network, timeout_s=self._timeout_s, retries=self._settings, keys=self._keys
        )

    async def admin(
        self,
        method: str,
        path: str,
        query: Json | None = None,
        body: Json | None = None,
        sink: Sink | None = None,
    ) -> Json:
        """Call the admin API: ``path`` is below ``/admin/v1``, with its parts already quoted."""
        pairs = {name: value for name, value in (query or {}).items() if value is not None}
        text = f"?{urlencode(pairs, doseq=True, quote_via=quote)}" if pairs else ""
        headers = (("content-type", "application/json"),) if body is not None else ()
        kind = RequestKind(method, f"/admin/v1{path}{text}", headers, ADMIN_SERVICE, method == "GET")
        content = b"" if body is None else json.dumps(body).encode()
        return read_object((await self._call(kind, content, self._timeout_s, sink=sink)).body)

    async def page(self, path: str) -> HttpResponse:
        """A page that needs no signature, such as a health check, whatever its status."""
        kind = RequestKind("GET", path, (), _UNSIGNED, True)
        return await self._call(kind, b"", self._timeout_s, any_status=True)

    async def is_penstock(self) -> bool:
        """Whether the server has an admin API. It is asked once, without a signature."""
        if self._is_penstock is None:
            answer = await self.page("/health")
            try:
                page = read_json(answer.body)
            except ValueError:
                page = None
            self._is_penstock = isinstance(page, dict) and {"live", "version"} <= page.keys()
        return self._is_penstock

    async def close(self) -> None:
        await self.network.close()

    def _open_sts(self, url: str | None, source: KeySource | None) -> Session:
        region = self.endpoint.region
        ca_file = self.endpoint.ca_file if url is not None else None
        endpoint = Endpoint(url or sts_url(region), region, source, "STS", ca_file)
        return Session(endpoint, self.network, timeout_s=self._timeout_s, retries=self._settings)

    async def _call(
        self,
        kind: RequestKind,
        body: bytes,
        timeout_s: float,
        *,
        is_idempotent: bool = False,
        sink: Sink | None = None,
        abandoned: Abandoned | None = None,
        any_status: bool = False,
    ) -> HttpResponse:
        attempt = 1
        while True:
            keys = None if kind.service == _UNSIGNED else await self._keys.get()
            request = self._template(kind, keys).request(body, time.time())
            error: ApiError | Unavailable
            try:
                answer = await self.network.exchange(self._address, request, timeout_s, sink, abandoned)
            except ExchangeFailed as failure:
                error, setback = self._unavailable(failure), of_failure(failure)
            else:
                if answer.status < 300 or any_status:
                    self._quota.succeeded()
                    return answer
                error = _refusal(answer)
                if keys is PLACEHOLDER_KEYS and error.is_unauthenticated:
                    self._keys.forget()  # the server is not open: it may still know what anyone may do
                    continue
                setback = of_refusal(error, answer.header(b"retry-after"))
                if attempt == 1 and error.is_expired_token and self._keys.refused():
                    setback = setback._replace(is_transient=True, is_undone=True)
            wait_s = self._quota.wait_s(setback, attempt, is_idempotent=is_idempotent or kind.is_idempotent)
            if wait_s is None:
                raise error
            _log.debug("attempt %d failed, the next in %.2f s: %s", attempt, wait_s, error)
            await self.network.sleep(wait_s)
            attempt += 1

    def _template(self, kind: RequestKind, keys: SigningKeys | None) -> RequestTemplate:
        template = self._templates.get(kind)
        if template is None or template.keys is not keys:
            url, region = f"{self._url}{kind.target}", self.endpoint.region
            template = RequestTemplate(kind.method, url, dict(kind.headers), keys, region, kind.service)
            if kind.service in _FEW_TARGETS:
                self._templates[kind] = template
        return template

    def _unavailable(self, failure: ExchangeFailed) -> Unavailable:
        return Unavailable(f"no answer from {self._url}: {failure}")


def _sqs_kind(action: str) -> RequestKind:
    headers = (
        ("content-type", "application/x-amz-json-1.0"),
        ("x-amz-target", f"AmazonSQS.{action}"),
        ("x-amzn-query-mode", "true"),  # errors have the codes that people know
    )
    return RequestKind("POST", "/", headers, "sqs", action.startswith(_IDEMPOTENT))


def _refusal(answer: HttpResponse) -> ApiError:
    try:
        members = read_object(answer.body)
    except Unavailable:
        members = error_of(answer.body)
    # SQS: the code of the Query protocol is the one that people know.
    code = answer.header(b"x-amzn-query-error").partition(";")[0]
    code = code or answer.header(b"x-amzn-errortype") or str(members.get("__type", "")).rpartition("#")[2]
    message = members.get("message") or members.get("Message") or answer.body[:200].decode("utf-8", "replace")
    request_id = answer.header(b"x-amzn-requestid")
    return api_error(code or f"HTTP {answer.status}", str(message), answer.status, request_id)
