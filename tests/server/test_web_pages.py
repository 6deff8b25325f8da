"""An open server and the web pages in a browser on the same machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.http.request import Peer, Request
from penstock.server.settings.config import Config
from penstock.server.web_pages import Cors, WebPageFilter
from penstock.wire.service import Fault
from support.composed import serving
from support.harness import run
from support.rows import every_row

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
APP, EVIL = "https://app.test", "https://evil.test"
FILTER = WebPageFilter(Cors([APP]), "https://Queues.example.com:8443/base")


def is_taken(method: str = "POST", pages: WebPageFilter = FILTER, **headers: str) -> bool:
    request = Request(Peer("127.0.0.1", "http", "127.0.0.1:9324"))
    request.method = method.encode()
    request.headers = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    try:
        pages.check(request)
    except Fault as fault:
        assert fault.status == 403
        assert "cors_origins" in fault.message
        return False
    return True


def test_only_listed_origins_may_call() -> None:
    for method in ("GET", "POST"):
        assert is_taken(method, origin=APP, sec_fetch_site="cross-site", user_agent=FIREFOX, host="penstock")
        for origin in (EVIL, "null", "", "*", "http://localhost:9324", "https://app.test.evil.test"):
            assert not is_taken(method, origin=origin, host="localhost:9324", sec_fetch_site="none")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "", "whatever comes"])
def test_what_a_page_fetches_without_an_origin_is_refused(site: str) -> None:
    assert not is_taken("GET", host="localhost:9324", user_agent=FIREFOX, sec_fetch_site=site)


OURS = ["localhost", "LocalHost", "a.b.localhost", "127.0.0.1", "10.1.2.3", "[::1]", "queues.example.com"]
THEIRS = [
    "evil.test",
    "localhost.evil.test",
    "evillocalhost",
    "127.0.0.1.evil.test",
    "localhost.",
    "penstock",
    "",
]


@every_row("port", ["", ":", ":9324"])
@every_row(("host", "taken"), [*((each, True) for each in OURS), *((each, False) for each in THEIRS)])
def test_browsers_may_use_only_hosts_that_cannot_be_rebound(host: str, taken: bool, port: str) -> None:
    named = host + port
    assert is_taken("GET", host=named, user_agent=FIREFOX, sec_fetch_site="none") is taken
    assert is_taken("GET", host=named, user_agent=FIREFOX) is taken
    assert is_taken("POST", host=named, user_agent=FIREFOX) is taken
    # A page may give its browser another name.
    assert is_taken("GET", host=named, user_agent="curl/8", accept_language="en") is taken


def test_without_a_public_url_no_host_name_is_accepted_from_browsers() -> None:
    nameless = WebPageFilter(Cors([]), None)
    assert not is_taken("GET", nameless, host="queues.example.com", user_agent=FIREFOX)
    assert is_taken("GET", nameless, host="localhost:9324", user_agent=FIREFOX)


@given(
    host=st.sampled_from(OURS + THEIRS),
    agent=st.sampled_from(
        ["Boto3/1.42 md/Botocore#1.42", "aws-sdk-js/3.9", "curl/8.5.0", "Go-http-client/1.1", ""]
    ),
    method=st.sampled_from(["GET", "POST"]),
)
def test_programs_are_not_affected(host: str, agent: str, method: str) -> None:
    assert is_taken(method, host=host, user_agent=agent)
    assert is_taken("POST", host=host, user_agent=agent, accept_language="*"), "as Node's fetch does"


# -- joined to a server --------------------------------------------------------------------------------------


def http(method: str, target: str, *headers: str, host: str = "localhost:9324") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode()


def form(*headers: str) -> bytes:
    body = "Action=CreateQueue&QueueName=made"
    kind = "Content-Type: application/x-www-form-urlencoded"
    return http("POST", "/", kind, f"Content-Length: {len(body)}", *headers) + body.encode()


LIST = "/?Action=ListQueues"
QUEUE = "http://localhost:9324/000000000000/made"


def test_an_open_server_refuses_web_pages() -> None:
    async def scenario() -> None:
        async with serving(Config(memory=True, port=0, cors_origins=(APP,))) as server:
            for refused in (
                form(f"Origin: {EVIL}"),
                form("Origin: null"),
                http("GET", LIST, "Sec-Fetch-Site: cross-site"),
                http("GET", "/?Action=CreateQueue&QueueName=made", "Sec-Fetch-Site: cross-site"),
                http("GET", LIST, f"User-Agent: {FIREFOX}", host="evil.test:9324"),
            ):
                assert (await server.ask(refused)).status == 403
            typed = await server.ask(http("GET", LIST, f"User-Agent: {FIREFOX}", "Sec-Fetch-Site: none"))
            assert typed.status == 200 and b"made" not in typed.body
            for linked in (
                "CreateQueue&QueueName=made",
                f"ReceiveMessage&QueueUrl={QUEUE}",
                f"PurgeQueue&QueueUrl={QUEUE}",
            ):
                for header in ("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate"):
                    followed = await server.ask(http("GET", f"/?Action={linked}", header))
                    assert followed.status == 403 and b"cors_origins" in followed.body
            assert (await server.ask(form(f"Origin: {APP}", "Sec-Fetch-Site: cross-site"))).status == 200
            for harmless in ("/health", "/"):
                assert (await server.ask(http("GET", harmless, f"Origin: {EVIL}"))).status == 200

    run(scenario)


SUBSCRIPTION = "arn:aws:sns:us-east-1:000000000000:news:00000000-0000-4000-8000-000000000000"


def test_links_of_topics_work_wherever_they_are() -> None:
    """In mails that pages show, too, and whatever name the server is reached by: what they name is a secret."""

    async def scenario() -> None:
        async with serving(Config(memory=True, port=0)) as server:
            for headers, host in (
                (("Sec-Fetch-Site: none",), "localhost:9324"),
                (("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), "localhost:9324"),
                ((f"User-Agent: {FIREFOX}", "Accept-Language: en"), "queues.internal:9324"),
            ):
                link = f"/?Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}"
                followed = await server.ask(http("GET", link, *headers, host=host))
                assert followed.status == 200, followed.body
                assert b"<UnsubscribeResponse" in followed.body
                token = (
                    "/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-east-1:000000000000:news&Token=x"
                )
                followed = await server.ask(http("GET", token, *headers, host=host))
                assert followed.status == 400 and b"Invalid token" in followed.body
                other = await server.ask(http("GET", "/?Action=CreateTopic&Name=made", *headers, host=host))
                assert other.status == 403
            body = f"Action=Unsubscribe&SubscriptionArn={SUBSCRIPTION}"
            kind = "Content-Type: application/x-www-form-urlencoded"
            posted = (
                http("POST", "/", kind, f"Content-Length: {len(body)}", f"Origin: {EVIL}") + body.encode()
            )
            assert (await server.ask(posted)).status == 403

    run(scenario)


def test_with_every_origin_allowed_nothing_is_refused() -> None:
    async def scenario() -> None:
        async with serving(Config(memory=True, port=0, cors_origins=("*",))) as server:
            for taken in (form("Origin: null"), http("GET", LIST, "Sec-Fetch-Site: cross-site")):
                assert (await server.ask(taken)).status == 200

    run(scenario)
