"""The back end of the web console, as a browser and as other sites reach it."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.process import ServerProcess
from support.secured import Secured

ACCOUNT = "000000000000"  # of the server itself
OWN = {"X-Penstock-Console": "1", "Sec-Fetch-Site": "same-origin"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Page:
    """Requests of a page of the console."""

    def __init__(self, server: ServerProcess, **headers: str) -> None:
        self._server = server
        self.headers = OWN | headers

    def ask(
        self, path: str, body: Any = None, *, method: str | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=30)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        connection.request(method, f"/console/{path}", content, self.headers if headers is None else headers)
        response = connection.getresponse()
        answer = Answer(
            response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
        )
        connection.close()
        return answer

    def sign_in(self, key: str, secret: str, **more: str) -> Answer:
        answer = self.ask("session", {"access_key": key, "secret_key": secret, **more})
        if "set-cookie" in answer.headers:
            self.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def watch(self, path: str) -> Generator[Any, None, None]:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=30)
        connection.request("GET", f"/console/watch/{path}", headers=self.headers)
        response = connection.getresponse()
        assert response.status == 200
        name = "message"
        try:
            while line := response.readline():
                if line.startswith(b"event: "):
                    name = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    yield name, json.loads(line[6:])
        finally:
            connection.close()


@pytest.fixture
def page(server: ServerProcess, account: str) -> Page:
    return Page(server, **{"X-Penstock-Account": account})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("console"))
    found.add("alice", "sqs-full-access", "penstock-full-access", account=ACCOUNT)
    found.add("reader", "sqs-read-only", "penstock-read-only", account=ACCOUNT)
    with found.running("--region", "eu-west-1", "--processes", "2"):
        yield found


def test_the_console_is_one_page_with_its_files(page: Page) -> None:
    assert page.ask("", headers={}).body.startswith(b"<!doctype html>")
    for file in ("app.js", "style.css", "pages/queue.js", "vendor/preact.js"):
        answer = page.ask(file, headers={})
        assert answer.status == 200
        assert page.ask(file, headers={"If-None-Match": answer.headers["etag"]}).status == 304
    assert page.ask("../app.js", headers={}).status == 404
    assert page.ask("__init__.py", headers={}).status == 404


def test_pages_may_load_scripts_of_this_server_only_and_cannot_be_framed(page: Page) -> None:
    headers = page.ask("", headers={}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert b"<script>" not in page.ask("", headers={}).body


def test_a_page_calls_sqs_and_the_admin_api_in_its_account_and_region(page: Page) -> None:
    page.headers["X-Penstock-Region"] = "eu-west-1"
    assert page.ask("api/sqs/CreateQueue", {"QueueName": "orders"}).status == 200
    (queue,) = page.ask("api/admin/v1/queues").json["queues"]
    assert (queue["name"], queue["region"]) == ("orders", "eu-west-1")
    assert page.ask("session").json["signed_in"] is True
    page.headers["X-Penstock-Region"] = "us-east-1"
    assert page.ask("api/admin/v1/queues").json["queues"] == []


def test_a_page_sends_forms_to_services_of_the_query_protocol(page: Page) -> None:
    headers = page.headers | {"Content-Type": "application/x-www-form-urlencoded"}
    form = b"QueueName=a%26b&Action=DeleteQueue"
    refused = page.ask("api/sqs/CreateQueue", form, headers=headers)
    assert (refused.status, refused.json["Error"]["Code"]) == (400, "InvalidParameterValue"), (
        "the path says the action"
    )
    made = page.ask("api/sqs/CreateQueue", b"QueueName=orders&Tag.1.Key=team&Tag.1.Value=x", headers=headers)
    url = made.json["CreateQueueResponse"]["CreateQueueResult"]["QueueUrl"]
    listed = page.ask("api/sqs/ListQueues", b"", headers=headers)
    assert listed.json["ListQueuesResponse"]["ListQueuesResult"]["queueUrls"] == [url]
    assert page.ask("api/sqs/ListQueueTags", {"QueueUrl": url}).json["Tags"] == {"team": "x"}


def test_errors_of_the_services_reach_the_page(page: Page) -> None:
    missing = page.ask("api/admin/v1/queues/none")
    assert (missing.status, missing.headers["x-amzn-errortype"]) == (404, "QueueDoesNotExist")
    assert page.ask("api/sqs/SendMessage", {"QueueUrl": "none", "MessageBody": "x"}).status == 400
    assert page.ask("api/other/Action", {}).status == 404
    assert page.ask("api/sqs/ListQueues").status == 404
    assert page.ask("session", {"access_key": "a", "secret_key": "b"}).status == 405


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin"},
        {"X-Penstock-Console": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Penstock-Console": "1", "Sec-Fetch-Site": "same-site"},
        {"X-Penstock-Console": "1", "Origin": "http://evil.example"},
        {"X-Penstock-Console": "1", "Origin": "null"},
        OWN | {"Host": "evil.example"},
    ],
)
def test_other_sites_cannot_use_the_console(page: Page, headers: dict[str, str]) -> None:
    for path, body in (
        ("api/sqs/CreateQueue", {"QueueName": "stolen"}),
        ("api/admin/v1/queues", None),
        ("watch/admin/v1/queues", None),
        ("session", None),
    ):
        assert page.ask(path, body, headers=headers).status == 403
    assert page.ask("api/admin/v1/queues").json["queues"] == []


def test_a_page_of_the_same_host_with_another_scheme_is_another_site(
    page: Page, server: ServerProcess
) -> None:
    for scheme, status in (("http", 200), ("https", 403)):
        page.headers["Origin"] = f"{scheme}://127.0.0.1:{server.port}"
        assert page.ask("api/admin/v1/queues").status == status


@pytest.mark.parametrize(("name", "value"), [("Region", "../x"), ("Account", "12"), ("Region", "eu\xe9")])
def test_a_region_or_account_that_is_none_is_refused(page: Page, name: str, value: str) -> None:
    page.headers[f"X-Penstock-{name}"] = value
    assert page.ask("api/admin/v1/queues").status == 400


def test_a_stream_shows_each_change(page: Page) -> None:
    changes = page.watch("admin/v1/queues")
    assert next(changes) == ("message", {"queues": []})
    page.ask("api/sqs/CreateQueue", {"QueueName": "orders"})
    _, shown = next(changes)
    assert [queue["name"] for queue in shown["queues"]] == ["orders"]
    changes.close()


def test_a_stream_ends_with_the_error_of_the_server(page: Page) -> None:
    name, error = next(page.watch("admin/v1/queues/none"))
    assert (name, error["status"], error["code"]) == ("refused", 404, "QueueDoesNotExist")


def test_a_client_has_so_many_streams_and_users_behind_a_proxy_are_counted_one_by_one() -> None:
    with ServerProcess("--memory", "--trusted-proxies", "127.0.0.1") as server:
        first = Page(server, **{"X-Forwarded-For": "2001:db8::1"})
        streams = [first.watch("admin/v1/queues") for _ in range(50)]
        for stream in streams:
            next(stream)
        first.headers["X-Forwarded-For"] = "2001:db8::2"  # of the same network
        assert first.ask("watch/admin/v1/queues").json["code"] == "TooManyStreams"
        other = Page(server, **{"X-Forwarded-For": "192.0.2.1"}).watch("admin/v1/queues")
        assert next(other) == ("message", {"queues": []})
        for stream in [*streams, other]:
            stream.close()


def test_streams_end_when_the_server_stops(tmp_path: Path) -> None:
    with ServerProcess("--memory") as server:
        changes = Page(server).watch("admin/v1/queues")
        next(changes)
        assert server.stop() == 0
        assert list(changes) == []


def test_the_console_can_be_switched_off() -> None:
    with ServerProcess("--memory", "--no-console") as server:
        assert Page(server).ask("").status != 200


# With credentials.


def test_a_page_is_nobody_until_someone_signs_in(secured: Secured) -> None:
    page = Page(secured.server)
    assert page.ask("session").json == {
        "secured": True, "signed_in": False, "account": "000000000000", "region": "eu-west-1",
    }  # fmt: skip
    for path in ("api/admin/v1/queues", "watch/admin/v1/queues"):
        assert page.ask(path).status == 401
    assert page.ask("api/sqs/ListQueues", {}).json["code"] == "NotSignedIn"


def test_signing_in_sets_a_cookie_that_scripts_cannot_read(secured: Secured) -> None:
    page = Page(secured.server)
    answer = page.sign_in(*secured.keys["alice"])
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=Strict", "Path=/console", "Max-Age=3600"):
        assert part in cookie
    assert secured.keys["alice"][1] not in cookie
    assert page.ask("session").json["arn"] == "arn:aws:iam::000000000000:user/alice"
    assert page.ask("api/sqs/CreateQueue", {"QueueName": "orders"}).status == 200
    assert [each["name"] for each in page.ask("api/admin/v1/queues").json["queues"]] == ["orders"]
    out = page.ask("session", method="DELETE").headers["set-cookie"]
    assert "Max-Age=0" in out


def test_after_a_sign_out_a_copy_of_the_cookie_is_refused_by_every_process(secured: Secured) -> None:
    page, other = Page(secured.server), Page(secured.server)
    for each in (page, other):
        each.sign_in(*secured.keys["alice"])
    copy = Page(secured.server, Cookie=page.headers["Cookie"])
    stream = copy.watch("admin/v1/queues")
    assert next(stream)[0] == "message"
    assert page.ask("session", method="DELETE").status == 200
    for _ in range(20):  # each over a connection of its own
        assert copy.ask("api/admin/v1/queues").json["code"] == "NotSignedIn"
    assert copy.ask("session").json["signed_in"] is False
    assert copy.ask("watch/admin/v1/queues").status == 401
    *_, (name, refusal) = stream
    assert (name, refusal["status"]) == ("refused", 401), "a page that is open ends, too"
    assert other.ask("api/admin/v1/queues").status == 200, "other sessions of the user go on"
    assert copy.ask("session", method="DELETE").status == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"access_key": "AKIAUNKNOWN", "secret_key": "x"}, 401),
        ({"access_key": "", "secret_key": ""}, 401),
        ({"access_key": "a\nb", "secret_key": "c\r\nd"}, 400),
        ({"access_key": "é", "secret_key": "x"}, 400),
        ({"access_key": 1}, 400),
        ([], 400),
    ],
)
def test_wrong_keys_do_not_sign_in(secured: Secured, given: Any, status: int) -> None:
    answer = Page(secured.server).ask("session", given)
    assert answer.status == status
    assert "set-cookie" not in answer.headers


def test_a_sign_in_of_many_bytes_is_not_even_parsed(secured: Secured) -> None:
    answer = Page(secured.server).sign_in(*secured.keys["alice"], session_token="x" * 1_000_000)
    assert (answer.status, answer.json["code"]) == (413, "RequestTooLarge")


def test_a_wrong_secret_does_not_sign_in(secured: Secured) -> None:
    key, secret = secured.keys["alice"]
    assert Page(secured.server).sign_in(key, f"{secret}x").status == 401


def test_failed_sign_ins_are_limited_in_all_processes_together(tmp_path: Path) -> None:
    found = Secured(tmp_path)
    found.add("alice", account=ACCOUNT)
    with found.running("--processes", "2") as server:
        answers = [Page(server).sign_in("AKIAUNKNOWN", "x") for _ in range(20)]
        statuses = [answer.status for answer in answers]
        assert statuses[:10] == [401] * 10
        assert 429 in statuses, "two processes together accept less than 20"
        refused = answers[statuses.index(429)]
        assert 1 <= int(refused.headers["retry-after"]) <= 10


def test_a_sign_in_beyond_the_rate_of_requests_is_not_called_a_wrong_key(tmp_path: Path) -> None:
    found = Secured(tmp_path)
    found.add("alice", account=ACCOUNT)
    with found.running("--requests-per-second", "1") as server, ThreadPoolExecutor(20) as pool:
        statuses = [
            answer.status
            for answer in pool.map(lambda _: Page(server).sign_in(*found.keys["alice"]), range(20))
        ]
        assert set(statuses) == {200, 503}


@pytest.mark.parametrize(
    "cookie", ["penstock_session=", "penstock_session=AAAA", "penstock_session=\xff", "x=y"]
)
def test_a_forged_cookie_is_no_session(secured: Secured, cookie: str) -> None:
    page = Page(secured.server, Cookie=cookie)
    assert page.ask("api/admin/v1/queues").status in (401, 403)
    assert page.ask("session").json["signed_in"] is False


def test_the_session_of_another_key_cannot_be_combined(secured: Secured) -> None:
    """The token is bound to the access key that it was issued with."""
    page, other = Page(secured.server), Page(secured.server)
    page.sign_in(*secured.keys["alice"])
    other.sign_in(*secured.keys["reader"])
    mine, others = (
        base64.urlsafe_b64decode(each.headers["Cookie"].partition("=")[2]).split(b":")
        for each in (page, other)
    )
    page.headers["Cookie"] = _cookie(*others[:2], mine[2])
    assert page.ask("api/admin/v1/queues").status == 401


def test_a_token_without_its_secret_is_no_session(secured: Secured) -> None:
    """A presigned URL has the access key and the token in it, and allows one action only."""
    issued = secured.client("alice", "sts").get_session_token()["Credentials"]
    key, token = issued["AccessKeyId"].encode(), issued["SessionToken"].encode()
    guessed = hmac.digest(token, b"session of the console", "sha256").hex().encode()
    for cookie in (_cookie(key, token), _cookie(key, b"", token), _cookie(key, guessed, token)):
        page = Page(secured.server, Cookie=cookie)
        assert page.ask("session").json["signed_in"] is False
        assert page.ask("api/admin/v1/queues").status == 401


def test_cookies_of_other_servers_on_the_host_do_not_matter(secured: Secured) -> None:
    page = Page(secured.server)
    page.sign_in(*secured.keys["alice"])
    page.headers["Cookie"] = f'theirs={{"a": [1, 2]}}; flag; {page.headers["Cookie"]}; x_penstock_session=1'
    assert page.ask("session").json["signed_in"] is True


def _cookie(*parts: bytes) -> str:
    return f"penstock_session={base64.urlsafe_b64encode(b':'.join(parts)).decode()}"


def test_temporary_keys_sign_in_with_their_token(secured: Secured) -> None:
    issued = secured.client("alice", "sts").get_session_token()["Credentials"]
    page = Page(secured.server)
    answer = page.sign_in(
        issued["AccessKeyId"], issued["SecretAccessKey"], session_token=issued["SessionToken"]
    )
    assert answer.status == 200
    assert page.ask("api/admin/v1/queues").status == 200


def test_a_page_can_do_what_its_user_can_do(secured: Secured) -> None:
    page = Page(secured.server)
    page.sign_in(*secured.keys["reader"])
    denied = page.ask("api/sqs/CreateQueue", {"QueueName": "forbidden"})
    assert denied.status == 403
    assert page.ask("api/admin/v1/queues").status == 200
    allowed = set(page.ask("api/admin/v1/permissions").json["allowed"])
    assert "penstock:ListQueues" in allowed
    assert allowed.isdisjoint(
        {"sqs:CreateQueue", "sqs:SendMessage", "penstock:EditMessage", "penstock:Reload"}
    )
    alice = Page(secured.server)
    alice.sign_in(*secured.keys["alice"])
    assert {"sqs:CreateQueue", "penstock:EditMessage"} <= set(
        alice.ask("api/admin/v1/permissions?queue=orders").json["allowed"]
    )


def test_what_pages_do_is_in_the_audit_log_under_the_name_of_the_user(secured: Secured) -> None:
    page = Page(secured.server)
    page.sign_in(*secured.keys["alice"])
    page.ask("api/sqs/CreateQueue", {"QueueName": "audited"})
    events: list[Any] = []
    while not events:
        events = page.ask("api/admin/v1/audit?queue=audited&action=CreateQueue").json["events"]
    assert (events[0]["caller"], events[0]["decision"]) == ("user/alice", "allowed")
    assert page.ask("api/admin/v1/audit?since=yesterday").status == 400
    reader = Page(secured.server)
    reader.sign_in(*secured.keys["reader"])
    assert reader.ask("api/admin/v1/audit?denied=true&limit=1").status in (200, 403)


@pytest.mark.slow
def test_removing_a_key_ends_its_sessions_and_streams(secured: Secured) -> None:
    secured.add("leaver", "sqs-full-access", "penstock-full-access", account=ACCOUNT)
    page = Page(secured.server)
    while page.sign_in(*secured.keys["leaver"]).status != 200:
        pass  # the server reads the file once a second
    changes = page.watch("admin/v1/queues")
    next(changes)
    secured.penstock("user", "delete", "leaver", "--account", ACCOUNT, *secured.files)
    for name, shown in changes:
        if name == "refused":
            assert shown["status"] == 403
            break
    while page.ask("api/admin/v1/queues").status != 403:
        pass  # each process reads the file for itself
