"""Routes: from a request to a call, and the pages that no service answers."""

from __future__ import annotations

from ipaddress import ip_network

import msgspec
import pytest

from penstock import __version__
from penstock.auth.principal import ANONYMOUS
from penstock.names import Space
from penstock.server.callers import Caller
from penstock.server.health import Health
from penstock.server.http.request import Request
from penstock.server.origin import Origins
from penstock.server.routes import Mount
from penstock.server.throttle import Throttle
from penstock.server.web_pages import Cors
from support.audit_events import ALICE, ROOT, WORKER
from support.harness import get, post, run, serving, signed


def test_a_trace_header_that_is_too_long_is_ignored() -> None:
    async def scenario() -> None:
        async with serving() as server:
            for length in (1024, 1025):
                await server.ask(post("A.B", b"{}", b"X-Amzn-Trace-Id: " + b"t" * length))
            longest, none = (seen.call.trace for seen in server.dispatcher.seen)
            assert longest == "t" * 1024 and none is None

    run(scenario)


def test_what_the_dispatcher_gets() -> None:
    async def scenario() -> None:
        async with serving() as server:
            authorization = b"Authorization: " + signed("210987654321/1/eu-west-1/sqs/aws4_request").encode()
            path = b"/210987654321/orders"
            await server.ask(post("A.B", b"{}", authorization, b"X-Amzn-Trace-Id: Root=1-2", path=path))
            call = server.dispatcher.seen[0].call
            assert call.space == Space("210987654321", "eu-west-1")
            assert call.base_url == "http://queues.test:9324"
            assert call.trace == "Root=1-2"

    run(scenario)


class Named:
    """The caller is the principal that the header X-Who names."""

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
def test_a_caller_has_one_rate_under_all_its_names(ours: list[str], theirs: str) -> None:
    async def scenario() -> None:
        async with serving(callers=Named(), throttle=Throttle(0.001, 1), origins=BEHIND_PROXY) as server:
            answers = [await server.ask(post("A.B", b"{}", each.encode())) for each in (*ours, theirs)]
            assert [answer.status for answer in answers] == [200, 403, 200]
            assert answers[1].json()["__type"].endswith("RequestThrottled")

    run(scenario)


def test_on_an_open_server_the_rate_does_not_depend_on_the_access_key() -> None:
    async def scenario() -> None:
        async with serving(throttle=Throttle(0.001, 1)) as server:
            for key, status in (("ONE", 200), ("OTHER", 403)):
                authorization = f"Authorization: {signed(f'{key}/1/eu-west-1/sqs/aws4_request')}"
                assert (await server.ask(post("A.B", b"{}", authorization.encode()))).status == status

    run(scenario)


@pytest.mark.parametrize("origins", [BEHIND_PROXY, Origins(None, ())])
def test_headers_of_a_trusted_proxy_reach_the_call(origins: Origins) -> None:
    async def scenario() -> None:
        async with serving(callers=Named(), origins=origins) as server:
            said = (b"X-Forwarded-For: 6.6.6.6", b"X-Forwarded-Proto: https", b"User-Agent: boto")
            await server.ask(post("A.B", b"{}", b"X-Who: alice", *said))
            call = server.dispatcher.seen[0].call
            expected = ("6.6.6.6", True) if origins is BEHIND_PROXY else ("127.0.0.1", False)
            assert (call.source_ip, call.secure) == expected
            assert (call.principal, call.signed_for, call.user_agent) == (ALICE, "sqs", "boto")

    run(scenario)


def test_other_paths_go_to_the_dispatcher() -> None:
    async def scenario() -> None:
        async with serving() as server:
            for path in ("/123456789012/orders", "/nowhere", "/?Action=ListQueues"):
                assert (await server.ask(get(path))).json()["target"] is None

    run(scenario)


def test_the_root_page() -> None:
    async def scenario() -> None:
        async with serving() as server:
            response = await server.ask(get("/"))
            assert response.json()["version"] == __version__
            assert response.headers["content-type"] == "application/json"
            for path in ("//", "//anything", "//health", "///"):
                assert (await server.ask(get(path))).json().get("target", "") is None, path

    run(scenario)


def test_the_root_page_leads_browsers_to_the_console() -> None:
    async def scenario() -> None:
        browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"
        async with serving() as server:
            assert (await server.ask(get("/", browser))).json()[
                "version"
            ] == __version__  # there is no console
        async with serving(mounts={b"console": Mount(Health().root_page)}) as server:
            led = await server.ask(get("/", browser))
            assert (led.status, led.headers["location"], led.headers["vary"]) == (302, "/console/", "Accept")
            assert (await server.ask(get("/", "Accept: */*"))).json()["version"] == __version__

    run(scenario)


@pytest.mark.parametrize("path", ["/health", "/health/live", "/_localstack/health"])
def test_health_pages_are_read_only(path: str) -> None:
    async def scenario() -> None:
        async with serving() as server:
            refused = await server.ask(get(path, method="DELETE"))
            assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
            assert (await server.ask(get(path + "/"))).status == 200
            assert (await server.ask(get(path + "/unknown"))).status == 404

    run(scenario)


def test_requests_are_refused_until_the_server_is_ready() -> None:
    async def scenario() -> None:
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

    run(scenario)


def test_an_unexpected_error_is_an_internal_error() -> None:
    async def scenario() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = None  # type: ignore[assignment]
            server.dispatcher.seen = None  # type: ignore[assignment]
            response = await server.ask(post())
            assert response.status == 500
            assert response.headers["x-amzn-query-error"] == "InternalError;Receiver"

    run(scenario)


PREFLIGHT = ("Origin: https://app.test", "Access-Control-Request-Headers: x-amz-target, authorization")


def test_a_listed_origin_may_call() -> None:
    async def scenario() -> None:
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

    run(scenario)


@pytest.mark.parametrize("cors", [Cors([]), Cors(["https://other.test"])])
def test_any_other_origin_may_not(cors: Cors) -> None:
    async def scenario() -> None:
        async with serving(cors=cors) as server:
            preflight = await server.ask(get("/", *PREFLIGHT, method="OPTIONS"))
            assert "access-control-allow-origin" not in preflight.headers
            answer = await server.ask(post("A.B", b"{}", b"Origin: https://app.test"))
            assert "access-control-allow-origin" not in answer.headers

    run(scenario)


def test_every_origin() -> None:
    async def scenario() -> None:
        async with serving(cors=Cors(["*"])) as server:
            answer = await server.ask(post("A.B", b"{}", b"Origin: https://app.test"))
            assert answer.headers["access-control-allow-origin"] == "*"

    run(scenario)
