"""From a request to its caller, its base URL, and the pages the server answers itself."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import __version__
from penstock.auth.principal import ANONYMOUS
from penstock.names import Space
from penstock.server.callers import Caller, OpenCallers, sender_id
from penstock.server.http.request import HttpError, Peer, Request
from penstock.server.origin import Origins
from penstock.server.throttle import Throttle
from penstock.server.web_pages import Cors

from .audit_events import ALICE, ROOT, WORKER
from .harness import HOME, get, post, run, serving


def peer() -> Peer:
    return Peer("10.1.2.3", "http", "127.0.0.1:9324")


def request(target: bytes = b"/", *, by: Peer | None = None, **headers: str) -> Request:
    made = Request(by or peer())
    made.method = b"POST"
    made.target = target
    made.headers = {
        name.replace("_", "-").encode(): value.encode("latin-1") for name, value in headers.items()
    }
    return made


def signed(credential: str) -> str:
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=00"


CALLERS = OpenCallers(HOME, Origins(None, ()))


@pytest.mark.parametrize(
    ("credential", "space"),
    [
        ("AKIDEXAMPLE/20260101/eu-west-1/sqs/aws4_request", Space("000000000000", "eu-west-1")),
        ("123456789012/20260101/eu-west-1/sqs/aws4_request", Space("123456789012", "eu-west-1")),
        ("1234567890123/20260101/eu-west-1/sqs/aws4_request", Space("000000000000", "eu-west-1")),
        ("AKID/20260101/sqs/aws4_request", Space("000000000000", "us-east-1")),
        ("AKID/20260101/EU:WEST/sqs/aws4_request", Space("000000000000", "us-east-1")),
        ("rubbish", Space("000000000000", "us-east-1")),
    ],
)
def test_account_and_region_come_from_the_credential(credential: str, space: Space) -> None:
    assert CALLERS.of(request(authorization=signed(credential))).space == space


def test_the_credential_of_a_presigned_url() -> None:
    scope = b"111122223333%2F20260101%2Feu-west-3%2Fsqs%2Faws4_request"
    caller = CALLERS.of(request(b"/?Action=X&X-Amz-Credential=" + scope))
    assert caller.space == Space("111122223333", "eu-west-3")


def test_the_credential_among_very_many_parameters() -> None:
    scope = b"111122223333%2F20260101%2Feu-west-3%2Fsqs%2Faws4_request"
    many = b"".join(b"&a=%d" % number for number in range(1500))
    caller = CALLERS.of(request(b"/?Action=X&X-Amz-Credential=" + scope + many))
    assert caller.space == Space("111122223333", "eu-west-3")
    for none in (b"x", b"", b"%", b"%ff%2F+"):
        caller = CALLERS.of(request(b"/?Action=X&X-Amz-Credential=" + none + many))
        assert caller.space == Space("000000000000", "us-east-1")
    assert CALLERS.of(request(b"/?Not-X-Amz-Credential=" + scope)).space == Space("000000000000", "us-east-1")


@pytest.mark.parametrize("authorization", ["", "Bearer x", "AWS4-HMAC-SHA256 Credential=", "\xff\xfe"])
def test_without_a_credential_the_defaults_hold(authorization: str) -> None:
    assert CALLERS.of(request(authorization=authorization)).space == Space("000000000000", "us-east-1")
    assert CALLERS.of(request()).space == Space("000000000000", "us-east-1")


def test_the_sender_is_stable_and_not_the_account() -> None:
    first = CALLERS.of(request(authorization=signed("123456789012/1/eu-west-1/sqs/aws4_request"))).sender
    again = CALLERS.of(request(authorization=signed("123456789012/2/eu-west-2/sqs/aws4_request"))).sender
    assert first == again == sender_id("123456789012")
    assert first.startswith("AIDA") and len(first) == 21 and "123456789012" not in first
    assert sender_id("other") != first


def test_remembered_callers_are_bounded() -> None:
    callers = OpenCallers(HOME, Origins(None, ()))
    for number in range(5000):
        callers.of(request(authorization=signed(f"K{number}/1/eu-west-1/sqs/aws4_request")))
    assert len(callers._cache) <= 128


PROXIES = (ip_network("10.0.0.0/8"),)
FORWARDED = {"host": "inner:1", "x_forwarded_host": "queues.example.com", "x_forwarded_proto": "https"}


@pytest.mark.parametrize(
    ("origins", "headers", "url"),
    [
        (Origins(None, ()), {"host": "mapped.host:4566"}, "http://mapped.host:4566"),
        (Origins(None, ()), {"host": "[::1]:9324"}, "http://[::1]:9324"),
        (Origins(None, ()), {}, "http://127.0.0.1:9324"),
        (Origins(None, ()), FORWARDED, "http://inner:1"),
        (Origins(None, PROXIES), FORWARDED, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_port": "443"}, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_port": "8443"}, "https://queues.example.com:8443"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_host": "a.example, b"}, "https://a.example"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "https, http"}, "http://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "http, HTTPS,"}, "https://queues.example.com"),
        (Origins(None, PROXIES), FORWARDED | {"x_forwarded_proto": "gopher"}, "http://queues.example.com"),
        (Origins(None, (ip_network("192.168.0.0/16"),)), FORWARDED, "http://inner:1"),
        (Origins("https://public.example/sqs", PROXIES), FORWARDED, "https://public.example/sqs"),
    ],
)  # fmt: skip
def test_the_base_of_queue_urls(origins: Origins, headers: dict[str, str], url: str) -> None:
    assert origins.of(request(**headers)).base_url == url


def test_a_connection_may_be_used_for_several_hosts() -> None:
    origins, connection = Origins(None, ()), peer()
    for host in ("a.test", "a.test", "b.test:1", "a.test"):
        assert origins.of(request(by=connection, host=host)).base_url == f"http://{host}"
    with pytest.raises(HttpError):
        origins.of(request(by=connection, host="no host"))
    with pytest.raises(HttpError):
        origins.of(request(by=connection, host="no host"))


@pytest.mark.parametrize("host", ["a b", "<x>", "a/b", "a:b", "user@host", "a" * 300, "[::1", "a:123456"])
def test_a_host_that_cannot_be_one(host: str) -> None:
    with pytest.raises(HttpError):
        Origins(None, ()).of(request(host=host))


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("6.6.6.6", "6.6.6.6"),
        ("9.9.9.9, 6.6.6.6", "6.6.6.6"),
        ("9.9.9.9, 6.6.6.6, 10.0.0.9, 10.0.0.8", "6.6.6.6"),
        ("9.9.9.9,, 6.6.6.6, ,", "6.6.6.6"),
        ("6.6.6.6:5555", "6.6.6.6"),
        ('"6.6.6.6"', "6.6.6.6"),
        ('"6.6.6.6:5555"', "6.6.6.6"),
        ("::ffff:6.6.6.6", "6.6.6.6"),
        ("[::ffff:6.6.6.6]", "6.6.6.6"),
        ("2001:db8::0001", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ('"[2001:db8::1]:443"', "2001:db8::1"),
        ("6.6.6.6, 10.0.0.9:80, [::ffff:10.0.0.8]:80", "6.6.6.6"),
        # What is no address stops the walk: what stands before it, or the word itself, is not believed.
        ("unknown", "10.1.2.3"),
        ("9.9.9.9, unknown", "10.1.2.3"),
        ("9.9.9.9, 006.6.6.6", "10.1.2.3"),
        ("9.9.9.9, 6.6.6.6:x", "10.1.2.3"),
        ("9.9.9.9, _hidden, 10.0.0.9", "10.0.0.9"),
        ("[", "10.1.2.3"),
        ("", "10.1.2.3"),
    ],
)
def test_from_where_a_request_came(said: str, address: str) -> None:
    assert Origins(None, PROXIES).source_ip(request(x_forwarded_for=said)) == address
    assert Origins(None, ()).source_ip(request(x_forwarded_for=said)) == "10.1.2.3"


@given(st.text(st.characters(max_codepoint=255)) | st.ip_addresses().map(str))
def test_whatever_a_proxy_says_the_source_is_an_address(said: str) -> None:
    ip_address(Origins(None, PROXIES).source_ip(request(x_forwarded_for=said)))


@pytest.mark.parametrize(
    ("said", "secure"),
    [
        ("https", True),
        ("http", False),
        ("https, http", False),
        ("http, https", True),
        ("", False),
        ("x", False),
    ],
)
def test_whether_it_came_by_tls_is_what_the_nearest_proxy_says(said: str, secure: bool) -> None:
    assert Origins(None, PROXIES).is_secure(request(x_forwarded_proto=said)) is secure


def test_behind_a_proxy_the_headers_are_as_the_client_signed_them() -> None:
    made = request(**FORWARDED)
    made.raw_headers = [(b"X-Amz-Date", b"now"), (b"Host", b"inner:1"), (b"X-Forwarded-Host", b"...")]
    headers, by_name = Origins(None, PROXIES).as_signed(made)
    assert by_name == {**made.headers, b"host": b"queues.example.com"}
    assert list(headers) == [(n, b"queues.example.com" if n == b"Host" else v) for n, v in made.raw_headers]
    made.headers[b"x-forwarded-port"] = b"8443"
    assert Origins(None, PROXIES).as_signed(made)[1][b"host"] == b"queues.example.com:8443"
    del made.headers[b"x-forwarded-host"]
    for told, origins in ((made, Origins(None, PROXIES)), (request(**FORWARDED), Origins(None, ()))):
        assert origins.as_signed(told) == (told.raw_headers or told.headers.items(), told.headers)


def test_a_trace_that_is_too_long_for_one_is_none() -> None:
    async def scene() -> None:
        async with serving() as server:
            for length in (1024, 1025):
                await server.ask(post("A.B", b"{}", b"X-Amzn-Trace-Id: " + b"t" * length))
            longest, none = (seen.call.trace for seen in server.dispatcher.seen)
            assert longest == "t" * 1024 and none is None

    run(scene)


def test_what_the_dispatcher_gets() -> None:
    async def scene() -> None:
        async with serving() as server:
            authorization = b"Authorization: " + signed("210987654321/1/eu-west-1/sqs/aws4_request").encode()
            path = b"/210987654321/orders"
            await server.ask(post("A.B", b"{}", authorization, b"X-Amzn-Trace-Id: Root=1-2", path=path))
            call = server.dispatcher.seen[0].call
            assert call.space == Space("210987654321", "eu-west-1")
            assert call.base_url == "http://queues.test:9324"
            assert call.trace == "Root=1-2"

    run(scene)


class Named:
    """Everybody is who the header X-Who says."""

    def of(self, request: Request) -> Caller:
        who = PEOPLE[request.headers.get(b"x-who", b"nobody").decode()]
        return Caller(Space("111111111111", "us-east-1"), who.id, who, "sqs")


PEOPLE = {
    "alice": ALICE,
    "root": ROOT,
    "worker": WORKER,
    "worker again": msgspec.structs.replace(WORKER, arn=WORKER.arn + "-8", access_key="ASIAOTHER"),
    "nobody": ANONYMOUS,
}
BEHIND_PROXY = Origins(None, (ip_network("127.0.0.1"),))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["X-Who: alice", "X-Who: alice"], "X-Who: root"),
        (["X-Who: worker", "X-Who: worker again"], "X-Who: alice"),
        (["X-Who: alice\r\nX-Forwarded-For: 6.6.6.6", "X-Who: alice"], "X-Who: nobody"),
        (["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 9.9.9.9, 6.6.6.6"], "X-Forwarded-For: 6.6.6.7"),
        (["X-Forwarded-For: 2001:db8::1", "X-Forwarded-For: 2001:db8::2"], "X-Forwarded-For: 2001:db8:0:1::1"),
    ],
)  # fmt: skip
def test_a_caller_has_one_rate_whatever_it_calls_itself(ours: list[str], theirs: str) -> None:
    async def scene() -> None:
        async with serving(callers=Named(), throttle=Throttle(0.001, 1), origins=BEHIND_PROXY) as server:
            answers = [await server.ask(post("A.B", b"{}", each.encode())) for each in (*ours, theirs)]
            assert [answer.status for answer in answers] == [200, 403, 200]
            assert answers[1].json()["__type"].endswith("RequestThrottled")

    run(scene)


def test_an_access_key_that_nobody_checks_makes_nobody_somebody_else() -> None:
    async def scene() -> None:
        async with serving(throttle=Throttle(0.001, 1)) as server:
            for key, status in (("ONE", 200), ("OTHER", 403)):
                authorization = f"Authorization: {signed(f'{key}/1/eu-west-1/sqs/aws4_request')}"
                assert (await server.ask(post("A.B", b"{}", authorization.encode()))).status == status

    run(scene)


@pytest.mark.parametrize("origins", [BEHIND_PROXY, Origins(None, ())])
def test_policies_are_asked_with_what_a_trusted_proxy_says(origins: Origins) -> None:
    async def scene() -> None:
        async with serving(callers=Named(), origins=origins) as server:
            said = (b"X-Forwarded-For: 6.6.6.6", b"X-Forwarded-Proto: https", b"User-Agent: boto")
            await server.ask(post("A.B", b"{}", b"X-Who: alice", *said))
            call = server.dispatcher.seen[0].call
            expected = ("6.6.6.6", True) if origins is BEHIND_PROXY else ("127.0.0.1", False)
            assert (call.source_ip, call.secure) == expected
            assert (call.principal, call.signed_for, call.user_agent) == (ALICE, "sqs", "boto")

    run(scene)


def test_unknown_paths_are_the_dispatchers() -> None:
    async def scene() -> None:
        async with serving() as server:
            for path in ("/123456789012/orders", "/nowhere", "/?Action=ListQueues"):
                assert (await server.ask(get(path))).json()["target"] is None

    run(scene)


def test_hello() -> None:
    async def scene() -> None:
        async with serving() as server:
            response = await server.ask(get("/"))
            assert response.json()["version"] == __version__
            assert response.headers["content-type"] == "application/json"

    run(scene)


def test_readiness_says_why_not_and_requests_are_refused_meanwhile() -> None:
    async def scene() -> None:
        async with serving() as server:
            server.health.expect("the store is being loaded")
            assert (await server.ask(get("/health/live"))).status == 200
            ready = await server.ask(get("/health/ready"))
            assert (ready.status, ready.json()["reasons"]) == (503, ["the store is being loaded"])
            assert (await server.ask(get("/health"))).json()["live"] is True
            refused = await server.ask(post())
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert "the store is being loaded" in refused.json()["message"]
            assert refused.headers["x-amzn-query-error"] == "ServiceUnavailable;Receiver"
            server.health.done("the store is being loaded")
            assert (await server.ask(get("/health/ready"))).json() == {"status": "ready"}
            assert (await server.ask(post())).status == 200

    run(scene)


def test_an_error_nobody_foresaw_is_an_internal_error() -> None:
    async def scene() -> None:
        async with serving() as server:
            server.dispatcher.held = None  # type: ignore[assignment]
            server.dispatcher.seen = None  # type: ignore[assignment]
            response = await server.ask(post())
            assert response.status == 500
            assert response.headers["x-amzn-query-error"] == "InternalError;Receiver"

    run(scene)


PREFLIGHT = ("Origin: https://app.test", "Access-Control-Request-Headers: x-amz-target, authorization")


def test_a_listed_origin_may_call() -> None:
    async def scene() -> None:
        async with serving(cors=Cors(["https://app.test"])) as server:
            preflight = await server.ask(get("/", *PREFLIGHT, method="OPTIONS"))
            assert preflight.status == 200
            assert preflight.headers["access-control-allow-origin"] == "https://app.test"
            assert preflight.headers["access-control-allow-headers"] == "x-amz-target, authorization"
            assert "POST" in preflight.headers["access-control-allow-methods"]
            answer = await server.ask(post("A.B", b"{}", b"Origin: https://app.test"))
            assert answer.headers["access-control-allow-origin"] == "https://app.test"
            assert "x-amzn-RequestId" in answer.headers["access-control-expose-headers"]
            assert answer.headers["vary"] == "Origin"

    run(scene)


@pytest.mark.parametrize("cors", [Cors([]), Cors(["https://other.test"])])
def test_any_other_origin_may_not(cors: Cors) -> None:
    async def scene() -> None:
        async with serving(cors=cors) as server:
            preflight = await server.ask(get("/", *PREFLIGHT, method="OPTIONS"))
            assert "access-control-allow-origin" not in preflight.headers
            answer = await server.ask(post("A.B", b"{}", b"Origin: https://app.test"))
            assert "access-control-allow-origin" not in answer.headers

    run(scene)


def test_every_origin() -> None:
    async def scene() -> None:
        async with serving(cors=Cors(["*"])) as server:
            answer = await server.ask(post("A.B", b"{}", b"Origin: https://app.test"))
            assert answer.headers["access-control-allow-origin"] == "*"

    run(scene)
