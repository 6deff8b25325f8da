"""The admin API of a secured server: signatures, permissions, the audit log. And web pages on an open one."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.api import ApiError, ApiSession
from penstock.client.credentials import SigningKeys
from penstock.services.admin import ACTIONS
from support.identities import HOME
from support.process import ServerProcess
from support.rows import every_row
from support.secured import Secured
from support.secured import refusal as client_refusal
from support.texts import says

REGION, OTHER = "eu-west-1", "444455556666"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    world = Secured(tmp_path_factory.mktemp("secured"))
    world.add("owner", "sqs-full-access", "penstock-full-access")
    world.add("reader", "penstock-read-only")
    world.add("sender", "sqs-full-access")
    world.add("outsider", "sqs-full-access", "penstock-full-access", account=OTHER)
    narrow = world.folder / "narrow.json"
    statement = {"Effect": "Allow", "Action": "penstock:*", "Resource": "arn:aws:sqs:*:*:orders-*"}
    narrow.write_text(json.dumps({"Version": "2012-10-17", "Statement": statement}))
    world.add("narrow", str(narrow))
    topics = world.folder / "topics.json"
    on_topics = {"Effect": "Allow", "Action": ["sns:*", "penstock:*"], "Resource": f"arn:aws:sns:*:{HOME}:*"}
    topics.write_text(json.dumps({"Version": "2012-10-17", "Statement": on_topics}))
    world.add("topician", str(topics))
    shop = world.folder / "shop.json"
    shop.write_text(
        json.dumps(
            {"Version": "2012-10-17", "Statement": {**on_topics, "Resource": f"arn:aws:sns:*:{HOME}:shop-*"}}
        )
    )
    world.add("shop", str(shop))
    with world.running("--account", HOME):
        yield world


def session(world: Secured, name: str) -> ApiSession:
    key, secret = world.keys[name]
    return ApiSession(world.server.url, REGION, SigningKeys(key, secret))


def refused(api: ApiSession, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    with pytest.raises(ApiError) as error:
        api.admin(method, path, body=body)
    return error.value.status, error.value.code


def test_a_signature_and_a_permission_are_necessary(world: Secured) -> None:
    owner = session(world, "owner")
    owner.sqs("CreateQueue", QueueName="orders-1")
    owner.sqs("CreateQueue", QueueName="bills-1")
    for name in ("owner", "reader"):
        assert session(world, name).admin("GET", "/queues/orders-1")["name"] == "orders-1"
    assert refused(session(world, "sender"), "GET", "/queues/orders-1") == (403, "AccessDenied")
    assert refused(ApiSession(world.server.url, REGION), "GET", "/queues/orders-1") == (403, "AccessDenied")
    assert refused(session(world, "sender"), "GET", "/queues") == (403, "AccessDenied")


def test_a_refusal_names_the_command_that_allows_it(world: Secured) -> None:
    sender = session(world, "sender")
    with pytest.raises(ApiError) as error:
        sender.admin("GET", "/queues")
    command = "penstock policy attach penstock-read-only --user sender"
    says(error.value.message, "penstock:ListQueues", command)
    found = sender.admin("GET", "/permissions")
    assert "sqs:SendMessage" in found["allowed"]
    assert found["remedies"]["penstock:ListQueues"] == command
    assert found["remedies"]["cloudwatch:PutMetricAlarm"].split()[3] == "cloudwatch-full-access"
    assert not found["remedies"].keys() & set(found["allowed"])
    outsider = session(world, "outsider").admin("GET", "/permissions")
    assert "penstock:GetStatus" not in {*outsider["allowed"], *outsider["remedies"]}  # of another account


def test_permissions_on_topics_name_topics(world: Secured) -> None:
    api = session(world, "topician")
    assert api.admin("GET", "/topics")["topics"] == []
    asked = {"policy": '{"a": [1]}', "attributes": {"a": {"type": "Number", "value": "1"}}}
    assert api.admin("POST", "/topics/test-filter", body=asked)["matched"]
    assert session(world, "reader").admin("POST", "/topics/test-filter", body=asked)["matched"]
    assert refused(api, "GET", "/queues") == (403, "AccessDenied")
    for path in ("/topics", "/topics/deliveries", "/topics/failing", "/topics/recent?topic=t", "/outbox"):
        assert refused(session(world, "narrow"), "GET", path) == (403, "AccessDenied")
    assert refused(session(world, "reader"), "DELETE", "/outbox") == (403, "AccessDenied")
    allowed = set(api.admin("GET", "/permissions")["allowed"])
    assert {"sns:CreateTopic", "sns:Publish", "penstock:ListTopics", "penstock:ClearOutbox"} <= allowed
    assert not {"sqs:SendMessage", "penstock:ListQueues", "penstock:Reload"} & allowed


def test_a_policy_may_name_single_topics(world: Secured) -> None:
    shop = session(world, "shop")
    arn = f"arn:aws:sns:{REGION}:{HOME}:shop-orders:1"
    for query in ("topic=shop-orders", f"subscription={arn}"):
        assert shop.admin("GET", f"/topics/deliveries?{query}")["deliveries"] == []
        assert shop.admin("GET", f"/topics/failing?{query}")["subscriptions"] == []
        assert refused(shop, "GET", f"/topics/recent?{query}")[0] == 404  # neither exists
    for path in ("deliveries", "failing", "recent"):
        assert refused(shop, "GET", f"/topics/{path}?topic=other") == (403, "AccessDenied")
    assert refused(shop, "GET", "/topics/failing") == (403, "AccessDenied")
    ours, everything = (
        {*shop.admin("GET", path)["allowed"]} for path in ("/permissions?topic=shop-orders", "/permissions")
    )
    assert {"sns:Publish", "penstock:ListFailingSubscriptions", "penstock:ListRecentMessages"} <= ours
    assert "penstock:ListTopics" not in ours  # it is about all topics
    assert not {"sns:Publish", "penstock:ListFailingSubscriptions"} & everything


def test_the_policy_of_a_topic_counts(world: Secured) -> None:
    """A user who has no policy of their own asks with the name of the topic, or its ARN."""
    owner, shop = session(world, "topician"), session(world, "shop")
    topic = str(owner.sns("CreateTopic", Name="open")["TopicArn"])
    user = f"arn:aws:iam::{HOME}:user/shop"
    statement = {"Effect": "Allow", "Principal": {"AWS": user}, "Action": "sns:Publish", "Resource": topic}
    document = json.dumps({"Version": "2012-10-17", "Statement": statement})
    owner.sns("SetTopicAttributes", TopicArn=topic, AttributeName="Policy", AttributeValue=document)
    for asked in ("open", topic):
        assert "sns:Publish" in shop.admin("GET", f"/permissions?topic={asked}")["allowed"]
    owner.sns("DeleteTopic", TopicArn=topic)
    assert "sns:Publish" not in shop.admin("GET", "/permissions?topic=open")["allowed"]


def test_permissions_name_queues(world: Secured) -> None:
    narrow = session(world, "narrow")
    session(world, "owner").sqs("CreateQueue", QueueName="orders-1")
    assert narrow.admin("GET", "/queues/orders-1/messages")["messages"] == []
    assert refused(narrow, "GET", "/queues/bills-1/messages") == (403, "AccessDenied")
    assert refused(narrow, "GET", "/queues/orders-missing") == (404, "QueueDoesNotExist")
    assert refused(narrow, "GET", "/queues/missing") == (403, "AccessDenied")
    assert refused(narrow, "GET", "/status") == (403, "AccessDenied")


def test_the_server_belongs_to_its_own_account(world: Secured) -> None:
    outsider = session(world, "outsider")
    for path in ("/status", "/internal-queues"):
        assert refused(outsider, "GET", path) == (403, "AccessDenied")
    assert session(world, "reader").admin("GET", "/internal-queues") == {"queues": []}
    assert session(world, "owner").admin("GET", "/status")["store"]["kind"] == "sqlite"
    assert outsider.admin("GET", "/openapi.json")["openapi"] == "3.1.0"


def test_a_queue_policy_can_admit_another_account(world: Secured) -> None:
    owner, outsider = session(world, "owner"), session(world, "outsider")
    url = owner.sqs("CreateQueue", QueueName="shared")["QueueUrl"]
    path = f"/queues/shared?account={HOME}"
    assert refused(outsider, "GET", path) == (403, "AccessDenied")
    policy = {
        "Version": "2012-10-17",
        "Statement": {
            "Effect": "Allow", "Principal": {"AWS": OTHER}, "Action": "penstock:GetQueue", "Resource": "*",
        },
    }  # fmt: skip
    owner.sqs("SetQueueAttributes", QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    assert outsider.admin("GET", path)["account"] == HOME
    assert refused(outsider, "GET", f"/queues/shared/messages?account={HOME}") == (403, "AccessDenied")


def test_where_messages_go_needs_the_permission_to_send_there(world: Secured) -> None:
    owner, narrow = session(world, "owner"), session(world, "narrow")
    url = owner.sqs("CreateQueue", QueueName="orders-sent")["QueueUrl"]
    owner.sqs("CreateQueue", QueueName="bills-1")
    id = owner.sqs("SendMessage", QueueUrl=url, MessageBody="x")["MessageId"]
    message = f"/queues/orders-sent/messages/{id}"
    assert refused(narrow, "POST", f"{message}/move", {"to": "bills-1"}) == (403, "AccessDenied")
    assert refused(narrow, "POST", f"{message}/move", {"to": "missing"}) == (403, "AccessDenied")
    tasks = "/queues/orders-sent/tasks"
    for operation in ("move", "copy"):
        asked: dict[str, Any] = {"operation": operation, "to": "bills-1", "dry_run": True}
        assert refused(narrow, "POST", tasks, asked) == (403, "AccessDenied")
        assert owner.admin("POST", tasks, body=asked)["can"] == 1
    for wanted in ({}, {"source": "bills-1"}):
        asked = {"operation": "redrive", "filter": wanted, "dry_run": True}
        assert refused(narrow, "POST", tasks, asked) == (403, "AccessDenied")
    assert owner.admin("POST", f"{message}/move", body={"to": "bills-1"}) == {"queue": "bills-1", "id": id}


def test_a_reader_changes_nothing(world: Secured) -> None:
    reader = session(world, "reader")
    for name, row in ACTIONS.items():
        if not row.read_only:
            method, _, path = row.http.removeprefix("/").partition(" ")
            path = path.removeprefix("/admin/v1").replace("{queue}", "orders-1").replace("{id}", "x")
            members = {"to": "front", "reason": "x", "operation": "delete", "frozen": True}
            body = {each: members[each] for each in members if each in row.request.__struct_fields__}
            assert refused(reader, method, path, body or None) == (403, "AccessDenied"), name


def test_changes_are_audited_without_contents(world: Secured) -> None:
    owner = session(world, "owner")
    url = owner.sqs("CreateQueue", QueueName="audited")["QueueUrl"]
    id = owner.sqs("SendMessage", QueueUrl=url, MessageBody="first secret")["MessageId"]
    message = f"/queues/audited/messages/{id}"
    owner.admin("GET", message)
    attributes = {"colour": {"type": "String", "value": "third secret"}}
    owner.admin("PATCH", message, body={"body": "second secret", "attributes": attributes})
    owner.admin("POST", f"{message}/failures", body={"reason": "fourth secret"})
    asked = {"operation": "delete", "filter": {"body": "fifth secret"}}
    owner.admin("POST", "/queues/audited/tasks", body=asked)
    for _ in range(300):
        events = [each for each in world.audit_log if each["eventSource"].startswith("penstock")]
        found = {each["eventName"]: each for each in events if "audited" in json.dumps(each)}
        if "StartTask" in found:
            break
        time.sleep(0.02)
    assert found.keys() == {"EditMessage", "ReportFailure", "StartTask"}
    assert found["EditMessage"]["requestParameters"] == {"queue": "audited", "id": id}
    assert found["StartTask"]["requestParameters"] == {"queue": "audited", "operation": "delete"}
    assert "secret" not in json.dumps(list(found.values()))


def test_localstacks_page_needs_a_permission_too(world: Secured) -> None:
    url = session(world, "owner").sqs("CreateQueue", QueueName="peeked")["QueueUrl"]
    session(world, "owner").sqs("SendMessage", QueueUrl=url, MessageBody="x")
    page = f"{world.server.url}/_aws/sqs/messages"
    reader, sender = (world.client(name, endpoint_url=page) for name in ("reader", "sender"))
    assert [each["Body"] for each in reader.receive_message(QueueUrl=url)["Messages"]] == ["x"]
    assert client_refusal(sender.receive_message, QueueUrl=url)[:2] == (403, "AccessDenied")
    assert ask(world.server, "GET", f"/_aws/sqs/messages?QueueUrl={url}", {}) == 403


def test_every_row_needs_a_permission_of_its_own() -> None:
    for name, row in ACTIONS.items():
        assert row.permission == ("" if name in ("GetOpenApi", "ListPermissions") else f"penstock:{name}")


# -- web pages -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data = str(tmp_path_factory.mktemp("open"))
    with ServerProcess("--data", data, "--region", REGION) as server:
        yield server


def ask(server: ServerProcess, method: str, path: str, headers: dict[str, str], body: str = "") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request(method, path, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


PAGE = {"Origin": "https://evil.example"}
LINK = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
REBOUND = {"Host": "evil.example", "User-Agent": "Mozilla/5.0", "Accept-Language": "en"}


@every_row("headers", [PAGE, REBOUND, {"Sec-Fetch-Site": "cross-site"}])
@every_row("name", ACTIONS)
def test_a_web_page_cannot_call_an_open_server(
    open_server: ServerProcess, name: str, headers: dict[str, str]
) -> None:
    method, _, path = ACTIONS[name].http.partition(" ")
    assert ask(open_server, method, path.replace("{queue}", "q").replace("{id}", "i"), headers, "{}") == 403


@every_row("name", [name for name, row in ACTIONS.items() if not row.read_only])
def test_a_link_cannot_change_anything(open_server: ServerProcess, name: str) -> None:
    method, _, path = ACTIONS[name].http.partition(" ")
    assert ask(open_server, method, path.replace("{queue}", "q").replace("{id}", "i"), LINK, "{}") == 403


def test_a_link_may_look(open_server: ServerProcess) -> None:
    assert ask(open_server, "GET", "/admin/v1/queues", LINK) == 200


def test_an_open_server_shows_callers_their_own_queues(open_server: ServerProcess, tmp_path: Path) -> None:
    mine = ApiSession(open_server.url, REGION, SigningKeys("111111111111", "x"))
    others = ApiSession(open_server.url, REGION, SigningKeys("222222222222", "x"))
    mine.sqs("CreateQueue", QueueName="mine")
    assert [each["name"] for each in mine.admin("GET", "/queues")["queues"]] == ["mine"]
    assert others.admin("GET", "/queues")["queues"] == []
    assert refused(others, "GET", "/queues/mine") == (404, "QueueDoesNotExist")
    assert refused(others, "GET", "/queues/mine?account=111111111111") == (404, "QueueDoesNotExist")
