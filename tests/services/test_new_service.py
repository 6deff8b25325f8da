"""A new service is one folder (``toy``) and one line in the composition root."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

import penstock
from cluster.servers import SHARDS as CLUSTER_SHARDS
from cluster.servers import in_memory, two_servers
from penstock.auth.authorize import policy_that_allows
from penstock.auth.policy.vocabulary import is_unknown
from penstock.migrate.stores.migration import Migration
from penstock.migrate.stores.opened import opened
from penstock.names import QueueName, Space, shard_of
from penstock.server import compose
from penstock.server.settings.config import Config
from penstock.store.sqlite.site import SqliteSite
from services.toy import SERVICE, Toy
from services.toy.topics import POSTS, TopicName
from support.composed import Server, serving
from support.harness import run, until
from support.identities import HOME, Accounts, allow, document

SHARDS = 3
REGION = "us-east-1"
JSON = {"Content-Type": "application/x-amz-json-1.0", "Host": "localhost:9324"}
OPEN = Space("000000000000", REGION)  # of a server without credentials
TO_QUEUES = {"ArnLike": {"toy:endpoint": "arn:aws:sqs:*:*:*"}}

REGISTERED = compose.SERVICES
ROW = (SERVICE, lambda parts: Toy(parts.broker, parts.webhooks.post))


@pytest.fixture(autouse=True)
def with_toy() -> Iterator[None]:
    """All that is patched is one row: every list of services is computed from them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compose, "SERVICES", (*REGISTERED, ROW))
        yield
    compose.declare_services()  # for other tests, whose policies know the services of the last start


async def ask(
    server: Server,
    target: str,
    members: Mapping[str, Any],
    keys: Credentials | None = None,
    service: str = "toy",
) -> tuple[int, dict[str, Any]]:
    body = json.dumps(members).encode()
    request = AWSRequest("POST", "http://localhost:9324/", {**JSON, "X-Amz-Target": target}, body)
    if keys is not None:
        SigV4Auth(keys, service, REGION).add_auth(request)
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    head = "\r\n".join(["POST / HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
    response = await server.ask(head.encode() + body)
    return response.status, json.loads(response.body) if response.body else {}


async def done(server: Server, target: str, **members: Any) -> dict[str, Any]:
    status, answer = await ask(server, target, members)
    assert status == 200, answer
    return answer


async def topic(server: Server, *endpoints: str, name: str = "news") -> str:
    arn: str = (await done(server, "ToyTopics.CreateTopic", Name=name))["TopicArn"]
    for endpoint in endpoints:
        await done(server, "ToyTopics.Subscribe", TopicArn=arn, Endpoint=endpoint)
    return arn


async def queue(server: Server, name: str) -> str:
    attributes = {"Attributes": {"FifoQueue": "true"}} if name.endswith(".fifo") else {}
    await done(server, "AmazonSQS.CreateQueue", QueueName=name, **attributes)
    return QueueName(OPEN.account, REGION, name).arn


def queue_in(shard: int, ending: str = "") -> str:
    """The name of a queue that belongs to a shard."""
    names = (f"q{number}{ending}" for number in range(100))
    return next(name for name in names if shard_of(QueueName(OPEN.account, REGION, name), SHARDS) == shard)


async def received(server: Server, name: str) -> list[str]:
    """The messages that a queue gets, from whichever shard they come."""
    members = {"QueueUrl": name, "WaitTimeSeconds": 5, "MaxNumberOfMessages": 10}
    found = await done(server, "AmazonSQS.ReceiveMessage", **members)
    return [message["Body"] for message in found.get("Messages", [])]


async def sums(server: Server, name: str = "news") -> dict[str, float]:
    """The metrics of a topic, as CloudWatch has them."""
    target = "GraniteServiceVersion20100801"
    dimensions = [{"Name": "TopicName", "Value": name}]
    listed = await done(server, f"{target}.ListMetrics", Namespace="Example/Toy", Dimensions=dimensions)
    metrics = {f"m{number}": metric for number, metric in enumerate(listed["Metrics"])}
    if not metrics:
        return {}
    queries = [
        {"Id": id, "MetricStat": {"Metric": metric, "Period": 3600, "Stat": "Sum"}}
        for id, metric in metrics.items()
    ]
    now_s = int(time.time())
    times = {"StartTime": now_s - 1800, "EndTime": now_s + 1800}
    found = await done(server, f"{target}.GetMetricData", MetricDataQueries=queries, **times)
    return {
        metrics[result["Id"]]["MetricName"]: sum(result["Values"]) for result in found["MetricDataResults"]
    }


async def until_sums(server: Server, **expected: float) -> None:
    async with asyncio.timeout(10):
        while await sums(server) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Receiver:
    """A web server that answers each path with its statuses in turn, and with the last one again and again."""

    def __init__(self, **statuses: list[int]) -> None:
        self.got: Counter[str] = Counter()
        self.texts: set[str] = set()
        self._statuses = statuses
        self.url = ""
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(line for line in head.split("\r\n") if line.startswith("Content-Length: "))
        self.texts.add((await reader.readexactly(int(length.partition(": ")[2]))).decode())
        path = head.split(" ")[1].removeprefix("/")
        statuses = self._statuses[path]
        status = statuses[min(self.got[path], len(statuses) - 1)]
        self.got[path] += 1
        await self.may_answer.wait()
        writer.write(f"HTTP/1.1 {status} Any\r\nContent-Length: 0\r\n\r\n".encode())
        writer.close()


@asynccontextmanager
async def receiving(**statuses: list[int]) -> AsyncIterator[Receiver]:
    receiver = Receiver(**statuses)
    async with await asyncio.start_server(receiver.serve, "127.0.0.1", 0) as listening:
        receiver.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
        yield receiver


def test_no_file_of_the_source_names_it() -> None:
    assert mentions("toy") == []
    assert "server/compose.py" in mentions("sqs"), "the search finds what is there"


def mentions(name: str) -> list[str]:
    """The files of the source that have a word which begins with this name."""
    source = Path(penstock.__file__).parent
    word = re.compile(rf"(?<![a-zA-Z]){name}", re.IGNORECASE)
    return [
        file.relative_to(source).as_posix()
        for file in sorted(source.rglob("*"))
        if file.suffix in (".py", ".sql", ".js", ".html", ".toml", ".json") and word.search(file.read_text())
    ]


def test_its_own_question_is_answered_by_the_shards_of_all_processes() -> None:
    async def scene() -> None:
        async with two_servers(in_memory) as servers:
            names = sorted(f"news-{number}" for number in range(12))
            homes = {TopicName(OPEN, name).home.shard(CLUSTER_SHARDS) for name in names}
            assert homes == set(range(CLUSTER_SHARDS))
            for number, name in enumerate(names):
                await topic(servers[number % 2], name=name)
            for server in servers:
                assert (await done(server, "ToyTopics.ListTopics"))["Names"] == names
                assert (await done(server, "ToyTopics.ListTopics", After=names[4]))["Names"] == names[5:]

    run(scene)


def test_a_message_reaches_queues_of_all_shards_and_refusals_come_back() -> None:
    async def scene() -> None:
        async with serving(Config(memory=True, shards=SHARDS)) as server:
            here = TopicName(OPEN, "news").home.shard(SHARDS)
            names = [queue_in(shard) for shard in range(SHARDS)]
            refusing = [
                queue_in(shard, ".fifo") for shard in (here, (here + 1) % SHARDS)
            ]  # they want a group
            arns = [await queue(server, name) for name in (*names, *refusing)]
            arn = await topic(server, *arns)
            await done(server, "ToyTopics.Publish", TopicArn=arn, Message="first")
            assert [await received(server, name) for name in names] == [["first"]] * SHARDS
            # One of the two was on its way to another shard before that refused it.
            await until_sums(server, Published=1, Delivered=SHARDS + 1, Failed=2)
            await done(server, "AmazonSQS.DeleteQueue", QueueUrl=names[here])
            await done(server, "ToyTopics.Publish", TopicArn=arn, Message="second")
            others = [name for name in names if name != names[here]]
            assert [await received(server, name) for name in others] == [["second"]] * (SHARDS - 1)
            await until_sums(server, Published=2, Delivered=2 * SHARDS + 1, Failed=5)

    run(scene)


def test_urls_are_called_by_jobs_that_are_tried_again_and_given_up() -> None:
    async def scene() -> None:
        async with receiving(slow=[503, 503, 200], down=[500], never=[404]) as receiver:
            urls = [f"{receiver.url}{path}" for path in ("slow", "down", "never")]
            config = Config(memory=True, shards=SHARDS, alarm_webhooks=(receiver.url,))
            async with serving(config) as server:
                arn = await topic(server, *urls)
                await done(server, "ToyTopics.Publish", TopicArn=arn, Message="first")
                await until_sums(server, Published=1, Delivered=1, Failed=2)
                assert receiver.got == {"slow": 3, "down": 1 + len(POSTS.pauses_ms), "never": 1}
                assert receiver.texts == {"first"}

    run(scene)


def test_operators_see_its_jobs_while_they_wait() -> None:
    async def scene() -> None:
        async with receiving(held=[200]) as receiver:
            receiver.may_answer.clear()
            config = Config(memory=True, shards=SHARDS, alarm_webhooks=(receiver.url,))
            async with serving(config) as server:
                arn = await topic(server, f"{receiver.url}held")
                await done(server, "ToyTopics.Publish", TopicArn=arn, Message="first")
                await until(lambda: receiver.got["held"] == 1)
                page = b"GET /admin/v1/internal-queues HTTP/1.1\r\nHost: localhost\r\n\r\n"
                (shown,) = (await server.ask(page)).json()["queues"]
                assert (shown["kind"], shown["running"]) == (POSTS.name, 1)
                receiver.may_answer.set()
                await until_sums(server, Published=1, Delivered=1)

    run(scene)


def test_its_metrics_are_its_own() -> None:
    async def scene() -> None:
        async with serving(Config(memory=True, shards=SHARDS)) as server:
            assert await sums(server) == {}
            await done(server, "ToyTopics.Publish", TopicArn=await topic(server), Message="first")
            assert await sums(server) == {"Published": 1}
            put = "GraniteServiceVersion20100801.PutMetricData"
            data = {"Namespace": "Example/Toy", "MetricData": [{"MetricName": "Published", "Value": 9}]}
            status, error = await ask(server, put, data)
            assert (status, error["__type"].partition("#")[2]) == (400, "InvalidParameterValueException")
            await done(server, put, **{**data, "Namespace": "Example/Other"})
            assert await sums(server) == {"Published": 1}

    run(scene)


def test_it_is_authorised_and_audited_like_every_other(tmp_path: Path) -> None:
    compose.declare_services()  # as each command does that writes credentials
    accounts = Accounts(tmp_path)
    own_topics = f"arn:aws:toy:{REGION}:{HOME}:topic/ann-*"
    own_queues = f"arn:aws:sqs:{REGION}:{HOME}:ann-*"
    accounts.user(
        "ann",
        document(
            allow("toy:CreateTopic", Resource=own_topics),
            allow("toy:Subscribe", Resource=own_topics, Condition=TO_QUEUES),
            allow("sqs:CreateQueue", Resource="*"),
            allow("sqs:SendMessage", Resource=own_queues),
        ),
        "toy-publish",
    )
    root_key = tmp_path / "root.key"
    root_key.write_text(bytes(range(32)).hex())  # identities.ROOT_KEY
    root_key.chmod(0o600)
    config = Config(credentials=accounts.path, root_key_file=root_key, data=tmp_path / "data", port=0)
    keys = Credentials(accounts.keys["ann"], accounts.secrets[accounts.keys["ann"]])

    async def scene() -> None:
        async with serving(config) as server:
            for name in ("ann-queue", "bob-queue"):
                assert (await ask(server, "AmazonSQS.CreateQueue", {"QueueName": name}, keys, "sqs"))[
                    0
                ] == 200
            status, created = await ask(server, "ToyTopics.CreateTopic", {"Name": "ann-1"}, keys)
            assert status == 200
            on_topic, message = {"TopicArn": created["TopicArn"]}, {"Message": "secret"}
            queue_arn = f"arn:aws:sqs:{REGION}:{HOME}:ann-queue"
            other_arn = f"arn:aws:sqs:{REGION}:{HOME}:bob-queue"
            subscribe, publish = "ToyTopics.Subscribe", "ToyTopics.Publish"
            assert (await ask(server, subscribe, {**on_topic, "Endpoint": queue_arn}, keys))[0] == 200
            assert (await ask(server, publish, on_topic | message, keys))[0] == 200
            for refused in (
                await ask(server, subscribe, {**on_topic, "Endpoint": "http://a.test/"}, keys),
                await ask(server, subscribe, {**on_topic, "Endpoint": other_arn}, keys),
                await ask(server, "ToyTopics.CreateTopic", {"Name": "bob-1"}, keys),
                await ask(server, publish, on_topic | message),
            ):
                assert (refused[0], refused[1]["message"]) == (403, "Not your topic.")

    run(scene)
    lines = (tmp_path / "data/audit/audit.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["eventSource"] == "toy.example.com"]
    recorded = [(event["eventName"], event["additionalEventData"]["decision"]) for event in events]
    assert recorded == [
        ("CreateTopic", "allowed"), ("Subscribe", "allowed"),
        ("Subscribe", "denied"), ("Subscribe", "denied"), ("CreateTopic", "denied"), ("Publish", "denied"),
    ]  # fmt: skip
    assert events[0]["resources"][0]["type"] == "Example::Toy::Topic"
    assert "secret" not in json.dumps(events), "the text is not on the list"


def test_it_is_announced_and_pages_of_the_console_may_call_it() -> None:
    async def scene() -> None:
        async with serving(Config(memory=True, console=True)) as server:
            shown = await server.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert json.loads(shown.body)["speaks"] == ["sqs", "cloudwatch", "sns", "sts", "toy"]
            body = b'{"Name": "news"}'
            head = "POST /console/api/topics/CreateTopic HTTP/1.1\r\nHost: localhost\r\nX-Penstock-Console: 1\r\n"
            answered = await server.ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert answered.status == 200
            arn = json.loads(answered.body)["TopicArn"]
            assert await done(server, "ToyTopics.ListSubscriptions", TopicArn=arn) == {"Endpoints": []}

    run(scene)


def test_policies_know_its_condition_keys_and_its_builtin_policies() -> None:
    compose.declare_services()  # as each command does that checks policies
    assert not is_unknown("toy:Endpoint")
    assert is_unknown("toy:Endpiont")
    assert policy_that_allows("toy:Publish") == "toy-publish"


def test_its_records_survive_a_restart_and_move_to_a_store_with_other_shards(tmp_path: Path) -> None:
    names = [queue_in(shard) for shard in range(SHARDS)]
    topics = [f"news-{number}" for number in range(10)]
    assert len({TopicName(OPEN, name).home.shard(SHARDS) for name in topics}) == SHARDS
    before, after = tmp_path / "before", tmp_path / "after"

    async def fill() -> None:
        async with serving(Config(data=before, shards=1)) as server:
            arns = [await queue(server, name) for name in names]
            for name in topics:
                await topic(server, *arns, name=name)

    async def look(data: Path) -> None:
        async with serving(Config(data=data)) as server:
            for number, name in enumerate(topics):
                arn = TopicName(OPEN, name).arn
                found = await done(server, "ToyTopics.ListSubscriptions", TopicArn=arn)
                assert found["Endpoints"] == [QueueName(OPEN.account, REGION, each).arn for each in names]
                await done(server, "ToyTopics.Publish", TopicArn=arn, Message=str(number))
                assert [await received(server, each) for each in names] == [[str(number)]] * SHARDS
            status, error = await ask(server, "ToyTopics.ListSubscriptions", {"TopicArn": f"{arn}-missing"})
            assert (status, error["__type"]) == (404, "example.toy#TopicNotFound")

    run(fill)

    async def look_at_metrics() -> None:
        async with serving(Config(data=after)) as server:
            for name in topics:
                assert await sums(server, name) == {"Published": 2, "Delivered": 2 * SHARDS}

    run(lambda: look(before))
    migrate(SqliteSite(before, None), SqliteSite(after, SHARDS))
    run(lambda: look(after))
    run(look_at_metrics)


def migrate(source: SqliteSite, target: SqliteSite) -> None:
    with opened(source) as sources, opened(target) as targets:
        silent: Callable[[int], None] = lambda progress: None  # noqa: E731
        Migration(sources, target.shards, lambda: None).run(targets, lambda step, total: nullcontext(silent))
