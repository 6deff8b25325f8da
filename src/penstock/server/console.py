"""The back end of the web console: its files, sign-in, and requests of its pages to the services.

    GET    /console/…                     the files of ``penstock/console/``
    GET    /console/session               who is signed in
    POST   /console/session               sign in with an access key: sets the cookie
    DELETE /console/session               sign out: ends the session
    *      /console/api/admin/v1/…        the admin API; so any service with paths of its own
    POST   /console/api/sqs/ACTION        an action of SQS, in JSON or as a form of the Query protocol, which is
                                          answered in JSON; so any service that gives a path in the console
    GET    /console/watch/admin/v1/…      answers of the admin API whenever they change (server-sent events)

A page has no keys. The cookie holds a session of STS, which is encrypted and ends after an hour, and from which only
the server can derive a secret. A request of the page is signed here with that secret, and then served like a request
of any other client: verified, authorized, limited, audited, passed on to other processes. Nothing else is behind the
console, and its pages can do what their user can do.

The token of a session is not secret: it is in presigned URLs, and in each signed request. So the cookie also holds a
proof, which can only be made with the secret of the session. A session that was signed out is refused at once, also
with a copy of the cookie (``server/console_sign_outs.py``).

A cookie is sent with whatever causes a request. So requests of other sites are refused: by SameSite, by the headers
Sec-Fetch-Site and Origin, and by a header of our own, which another site cannot add.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from penstock.auth.identity import Credentials
from penstock.auth.identity.sessions import Session
from penstock.client.credentials import SigningKeys
from penstock.client.signing import RequestTemplate
from penstock.clock import real_s
from penstock.errors import PenstockError
from penstock.names import Space, is_account, is_region
from penstock.promise import outcome, start
from penstock.server.client_addresses import network_of
from penstock.server.console_files import file_page
from penstock.server.console_streams import TOO_MANY_STREAMS, ConsoleStreams, Viewer
from penstock.server.health import json_page
from penstock.server.http.request import Request
from penstock.server.http.response import REQUEST_ID, with_headers
from penstock.server.origin import Origins
from penstock.server.throttle import MakeThrottle, Throttle
from penstock.services.sts import SERVICE as STS
from penstock.wire.service import Headers, Response, Service

if TYPE_CHECKING:
    from penstock.server.console_sign_outs import EndedSessions
    from penstock.server.web_pages import WebPageFilter

T = TypeVar("T")

COOKIE = "penstock_session"
_SESSION_S = 3600
_COOKIE_MAX = 4000  # browsers keep no larger ones
_PROOF = b"session of the console"
_OWN_HEADER = b"x-penstock-console"
_REGION, _ACCOUNT = b"x-penstock-region", b"x-penstock-account"
_JSON = b"application/x-amz-json-1.0"
_FORM = b"application/x-www-form-urlencoded"
_KEPT_HEADERS = (
    b"host", b"user-agent", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port",
)  # fmt: skip
_FAILED_SIGN_INS, _FAILED_SIGN_IN_S = 10, 10.0  # this many at once, then one in this many seconds
_SIGN_IN_BYTES_MAX = 16 * 1024


class Asker(NamedTuple):
    """The caller on whose behalf a page sends requests."""

    keys: SigningKeys
    space: Space
    account: str = ""  # of the user; empty: not verified


class SignedIn(NamedTuple):
    """The session in a cookie."""

    keys: SigningKeys
    session: Session


class PageRequest(Request):
    """A request of a page. The connection drops the content of the original while that waits."""

    original: Request | None = None

    @classmethod
    def of(cls, original: Request) -> PageRequest:
        return cls(
            original.peer, original.id, original.method, original.target, original.headers, original.raw_headers,
            original.body, original=original,
        )  # fmt: skip


class Console:
    def __init__(
        self,
        serve: Callable[[Request], None],
        origins: Origins,
        home: Space,
        credentials: Credentials | None,
        pages: Callable[[], WebPageFilter | None],
        ended: EndedSessions,
        services: Iterable[Service],
        make_throttle: MakeThrottle = Throttle,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``serve``: answers a request of a client. Without ``credentials`` the server is open. ``pages``: what
        refuses requests of web pages at present. ``services``: pages may call the actions of those that have a path
        in the console."""
        self._serve = serve
        self._origins = origins
        self._home = home
        self._credentials = credentials
        self._pages = pages
        self._ended = ended
        self._services = {each.console_path: each for each in services if each.console_path}
        self._failed_sign_ins = make_throttle(1 / _FAILED_SIGN_IN_S, _FAILED_SIGN_INS)
        self._now_s = now_s
        self._streams = ConsoleStreams()
        self.stop = self._streams.stop

    async def page(self, original: Request) -> Response:
        """Responds to requests for /console and what is below it."""
        path = original.path.decode("latin-1").removeprefix("/console")
        request = PageRequest.of(original)
        try:
            if path == "/session":
                self._check_own_page(request)
                return await self._session(request)
            if path.startswith("/api/"):
                self._check_own_page(request)
                return await self._api(request, path.removeprefix("/api/"))
            if path.startswith("/watch/"):
                self._check_own_page(request)
                return await self._watch(request)
        except ConsoleRefusal as refused:
            return refused.response(original)
        return file_page(original, path)

    # Sign-in.

    async def _session(self, request: PageRequest) -> Response:
        match request.method:
            case b"GET":
                return await self._show_session(request)
            case b"POST" if self._credentials is not None:
                return await self._sign_in(request)
            case b"DELETE":
                await self._sign_out(request)
                return _with_cookie(json_page(request, {"signed_in": False}), self._cookie(request, "", 0))
        raise ConsoleRefusal(405, "WrongMethod", "This address does not take that method.")

    async def _show_session(self, request: PageRequest) -> Response:
        page: dict[str, object] = {
            "secured": self._credentials is not None,
            "signed_in": False,
            "account": self._home.account,
            "region": self._home.region,
        }
        try:
            asker = await self._asker(request)
        except NotSignedIn:
            return json_page(request, page)
        identity = await self._ask_sts(request, asker, "GetCallerIdentity")
        if identity is not None:
            page |= {"signed_in": True, "account": identity["Account"], "arn": identity["Arn"]}
        return json_page(request, page)

    async def _sign_in(self, request: PageRequest) -> Response:
        if len(request.body) > _SIGN_IN_BYTES_MAX:  # the caller is not known yet, and parsing takes time
            raise ConsoleRefusal(413, "RequestTooLarge", "Expected access_key and secret_key only.")
        try:
            given = json.loads(request.body)
            access_key, secret = given["access_key"].strip(), given["secret_key"].strip()
            token = given.get("session_token")
            if not all(
                isinstance(each, str) and each.isascii() and each.isprintable()
                for each in (access_key, secret, token or "")
            ):
                raise TypeError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConsoleRefusal(400, "InvalidRequest", "Expected access_key and secret_key.") from None
        asker = Asker(SigningKeys(access_key, secret, token or None), self._space(request))
        session = await self._verified(request, asker)
        value = f"{session.access_key}:{_proof(session.secret_key)}:{session.token}"
        value = base64.urlsafe_b64encode(value.encode()).decode()
        if len(value) > _COOKIE_MAX:
            raise ConsoleRefusal(
                400,
                "SessionTooLarge",
                "The session token is too long for a browser: use a long-term access key.",
            )
        return _with_cookie(json_page(request, {"signed_in": True}), self._cookie(request, value, _SESSION_S))

    async def _sign_out(self, request: PageRequest) -> None:
        if self._credentials is not None:
            with suppress(NotSignedIn):
                keys, session = self._signed_in(request)
                await _known(self._ended.add(keys.access_key, session, int(real_s())))

    async def _verified(self, request: PageRequest, asker: Asker) -> SigningKeys:
        """The keys of a session, unless this client has failed too often.

        An attempt counts as failed when it begins, so that many at the same time gain nothing."""
        client = f"sign-in {self._client_of(request)}"
        now_s = self._now_s()
        if not self._failed_sign_ins.accept(client, now_s):
            raise _too_many_sign_ins(self._failed_sign_ins.wait_s(client, now_s))
        try:
            session = await self._session_of(request, asker)
        except ConsoleRefusal:  # says nothing about the keys
            self._failed_sign_ins.give_back(client)
            raise
        if session is None:
            raise ConsoleRefusal(401, "WrongKey", "The server does not accept this access key and secret.")
        self._failed_sign_ins.give_back(client)
        return session

    async def _session_of(self, request: PageRequest, asker: Asker) -> SigningKeys | None:
        """A long-term key is exchanged for a session; a temporary one is a session already. None: a wrong key."""
        if asker.keys.token:
            known = await self._ask_sts(request, asker, "GetCallerIdentity")
            return None if known is None else asker.keys
        issued = await self._ask_sts(request, asker, "GetSessionToken", DurationSeconds=str(_SESSION_S))
        if issued is None:
            return None
        session = issued["Credentials"]
        return SigningKeys(session["AccessKeyId"], session["SecretAccessKey"], session["SessionToken"])

    def _cookie(self, request: PageRequest, value: str, seconds: int) -> bytes:
        secure = "; Secure" if self._origins.is_secure(request) else ""
        return (
            f"{COOKIE}={value}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        ).encode()

    async def _ask_sts(self, request: PageRequest, asker: Asker, action: str, **members: str) -> dict | None:  # type: ignore[type-arg]
        """Ask STS with the keys of a user. Returns None if the server does not accept them."""
        response = await self._ask_with_form(request, asker, STS, action, urlencode(members).encode())
        if response.status == 200:
            found: dict = json.loads(response.body)[f"{action}Response"][f"{action}Result"]  # type: ignore[type-arg]
            return found
        if response.status in (400, 401, 403) and _code_of(response) != "RequestThrottled":
            return None
        raise _unavailable()

    # Requests of the pages.

    async def _api(self, request: PageRequest, path: str) -> Response:
        asker = await self._asker(request)
        name, _, action = path.partition("/")
        service = self._services.get(name)
        if service is not None and service.is_rest:
            headers = {}
            if (content_type := request.headers.get(b"content-type")) is not None:
                headers["content-type"] = content_type.decode("latin-1")
            target = request.target.removeprefix(b"/console/api").decode("latin-1")
            method = request.method.decode()
            return await self._ask(request, asker, method, target, headers, request.body, service)
        if service is None or request.method != b"POST":
            raise _not_found()
        if request.headers.get(b"content-type") == _FORM:
            return await self._ask_with_form(request, asker, service, action, request.body)
        headers = {"content-type": _JSON.decode(), "x-amz-target": f"{service.target_prefix}.{action}"}
        return await self._ask(request, asker, "POST", "/", headers, request.body, service)

    async def _ask_with_form(
        self, request: PageRequest, asker: Asker, service: Service, action: str, members: bytes
    ) -> Response:
        """Ask a service in the Query protocol, for an answer in JSON."""
        headers = {"content-type": _FORM.decode(), "accept": "application/json"}
        named = urlencode({"Action": action, "Version": service.version}).encode()
        return await self._ask(request, asker, "POST", "/", headers, b"&".join((named, members)), service)

    async def _ask(
        self,
        request: PageRequest,
        asker: Asker,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        service: Service,
    ) -> Response:
        """Serve a signed request in place of the browser's, from the same client."""
        host = self._origins.as_signed(request).get(b"host", b"").decode("latin-1") or request.peer.listening
        url = f"{request.peer.scheme}://{host}{target}"
        try:
            template = RequestTemplate(
                method, url, headers, asker.keys, asker.space.region, service.signing_name
            )
        except ValueError:
            raise ConsoleRefusal(
                400, "InvalidRequest", "The address is not quoted as it has to be."
            ) from None
        _, *lines = template.request(body, real_s()).partition(b"\r\n\r\n")[0].split(b"\r\n")
        signed = dict(line.split(b": ", 1) for line in lines)
        # What the log and the policies look at is the browser's. It may be that a proxy has changed the host.
        signed |= {name: request.headers[name] for name in _KEPT_HEADERS if name in request.headers}
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def on_response(_: Request, response: Response) -> None:
            if not answered.done():
                answered.set_result(response)

        asked = Request(
            request.peer, request.id, method.encode(), target.encode("latin-1"), signed, None, body,
            on_response=on_response,
        )  # fmt: skip
        self._serve(asked)
        if request.original is not None:
            request.original.call = asked.call  # it ends if the browser disconnects
        return await answered

    async def _asker(self, request: PageRequest) -> Asker:
        """Raises ConsoleRefusal."""
        space = self._space(request)
        if self._credentials is None:
            return Asker(SigningKeys(space.account, "open"), space)
        keys, session = self._signed_in(request)
        if await _known(self._ended.has(keys.access_key, session, int(real_s()))):
            raise NotSignedIn
        return Asker(keys, space, session.account)

    def _signed_in(self, request: PageRequest) -> SignedIn:
        """Raises NotSignedIn. The session may have ended."""
        assert self._credentials is not None
        try:
            cookie = base64.urlsafe_b64decode(_cookie_value(request.headers.get(b"cookie", b"")))
            access_key, proof, token = cookie.decode("ascii").split(":", 2)
        except ValueError:
            raise NotSignedIn from None
        sessions = self._credentials.directory.sessions
        secret = sessions.secret(access_key)
        session = sessions.open(access_key, token)
        if session is None or not hmac.compare_digest(proof, _proof(secret)):
            raise NotSignedIn
        return SignedIn(SigningKeys(access_key, secret, token), session)

    def _space(self, request: PageRequest) -> Space:
        region = request.headers.get(_REGION, b"").decode("latin-1") or self._home.region
        account = request.headers.get(_ACCOUNT, b"").decode("latin-1") or self._home.account
        if not is_region(region) or not is_account(account):
            raise ConsoleRefusal(400, "InvalidRequest", "Not a region or account.")
        return Space(account, region)

    def _check_own_page(self, request: PageRequest) -> None:
        """Raises ConsoleRefusal if another site may have caused the request."""
        headers = request.headers
        from_site = headers.get(b"sec-fetch-site", b"same-origin")
        if from_site != b"same-origin" or headers.get(_OWN_HEADER) != b"1":
            raise ConsoleRefusal(403, "NotOwnPage", "Only pages of the console may call this address.")
        if (origin := headers.get(b"origin")) is not None and not self._origins.is_own(request, origin):
            raise ConsoleRefusal(
                403,
                "NotOwnPage",
                "Only pages of the console may call this address. Behind a proxy, the server needs public_url or "
                "trusted_proxies.",
            )
        pages = self._pages()
        if pages is not None and not pages.is_ours(headers.get(b"host", b"")):
            raise ConsoleRefusal(
                403,
                "UnknownHost",
                "This server has no credentials: open the console with localhost, an IP address or the host "
                "in public_url.",
            )

    # Streams.

    async def _watch(self, request: PageRequest) -> Response:
        asker = await self._asker(request)
        target = request.target.removeprefix(b"/console/watch").decode("latin-1")
        service = self._services.get(target.removeprefix("/").partition("/")[0])
        if request.method != b"GET" or service is None or not service.is_rest:
            raise _not_found()
        viewer = Viewer(asker.account, self._client_of(request))
        if self._streams.is_full(viewer):
            raise ConsoleRefusal(503, "TooManyStreams", TOO_MANY_STREAMS)
        headers = [
            (b"Content-Type", b"text/event-stream"),
            (b"Cache-Control", b"no-store"),
            (b"X-Accel-Buffering", b"no"),
            (REQUEST_ID, request.id.encode()),
        ]
        request.body = b""  # a stream may last for days
        ask = partial(self._ask_for_stream, request, target, service)
        return Response(200, headers, stream=self._streams.changes(viewer, ask))

    async def _ask_for_stream(self, request: PageRequest, target: str, service: Service) -> Response:
        """The session may have ended since the stream began."""
        try:
            asker = await self._asker(request)
        except ConsoleRefusal as refused:
            return refused.response(request)
        return await self._ask(request, asker, "GET", target, {}, b"", service)

    def _client_of(self, request: PageRequest) -> str:
        """Returns whose attempts are counted together: those of users behind a proxy are not, and those of one IPv6
        network are."""
        return network_of(self._origins.source_ip(request))


class ConsoleRefusal(Exception):
    def __init__(self, status: int, code: str, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or []

    def response(self, request: Request) -> Response:
        page = json_page(request, {"code": self.code, "message": self.message}, self.status)
        return with_headers(page, self.headers)


class NotSignedIn(ConsoleRefusal):
    def __init__(self) -> None:
        super().__init__(401, "NotSignedIn", "Sign in first.")


def _code_of(response: Response) -> str:
    """Returns the code of an error of STS."""
    try:
        return str(json.loads(response.body)["Error"]["Code"])
    except (ValueError, KeyError, TypeError):
        return ""


def _not_found() -> ConsoleRefusal:
    return ConsoleRefusal(404, "NotFound", "There is nothing at this address.")


def _unavailable() -> ConsoleRefusal:
    return ConsoleRefusal(503, "Unavailable", "The server cannot answer at present. Try again.")


def _too_many_sign_ins(wait_s: float) -> ConsoleRefusal:
    seconds = max(1, ceil(wait_s))
    return ConsoleRefusal(
        429,
        "TooManySignIns",
        f"Too many failed sign-ins from your address. Try again in {seconds} second{'s' * (seconds > 1)}.",
        [(b"Retry-After", b"%d" % seconds)],
    )


def _proof(secret: str) -> str:
    """Shows that a cookie was made with the secret of its session, which it does not tell."""
    return hmac.digest(secret.encode(), _PROOF, "sha256").hex()


def _cookie_value(header: bytes) -> bytes:
    """Returns our cookie, whatever other servers on the same host have set; empty if there is none."""
    for cookie in header.split(b";"):
        name, _, value = cookie.strip().partition(b"=")
        if name == COOKIE.encode():
            return value
    return b""


def _with_cookie(response: Response, cookie: bytes) -> Response:
    return with_headers(response, [(b"Set-Cookie", cookie)])


async def _known(asked: Coroutine[Any, Any, T]) -> T:
    """What is known of ended sessions. Raises ConsoleRefusal."""
    try:
        return await outcome(start(asked))
    except PenstockError:
        raise _unavailable() from None
