"""Clients of SQS over a broker that only records its calls, and of STS with a few users and roles."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from penstock.auth.authorize import authorize
from penstock.auth.principal import Principal
from penstock.broker.move_tasks import MoveStatus, MoveTaskRecord
from penstock.broker.other_shards import DefinitionQuestion, NamesQuestion, SourcesQuestion
from penstock.broker.waiting import Ask
from penstock.errors import PenstockError, QueueMissing
from penstock.limits import Limits
from penstock.names import QueueName, Requester, Space
from penstock.queues.messages import Counts, Outgoing, Received, Sent
from penstock.queues.settings import QueueSettings
from penstock.services.sqs import ACTIONS, SERVICE, Sqs
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from services.sts_client import Sts
from support.http_requests import json_request
from support.identities import Accounts

ACCOUNT, REGION = "123456789012", "eu-west-1"
SPACE = Space(ACCOUNT, REGION)


class FakeBroker:
    def __init__(self) -> None:
        self.limits = Limits()
        self.queues: dict[QueueName, Any] = {}
        self.by_name = self.queues
        self.sent: list[Outgoing] = []
        self.commits = 0
        self.receivable: list[Received] = []
        self.asked: dict[str, Any] = {}
        self.outcomes: dict[str, PenstockError] = {}
        self.tasks: list[MoveTaskRecord] = []
        self.raises: PenstockError | None = None

    def find(self, name: QueueName) -> Any:
        try:
            return self.queues[name]
        except KeyError:
            raise QueueMissing from None

    async def ask(self, question: Any) -> Any:
        match question:
            case DefinitionQuestion(name=name):
                return self.queues.get(name)
            case NamesQuestion(space=space, prefix=prefix):
                found = [name for name in self.queues if name.space == space and name.name.startswith(prefix)]
            case SourcesQuestion(target=target):
                redrives = [(each.name, each.settings.redrive) for each in self.queues.values()]
                found = [name for name, redrive in redrives if redrive and redrive.target == target]
            case _:
                raise NotImplementedError
        return sorted(name for name in found if name.name > question.after)[: question.names_max]

    def partition_of(self, queue: Any) -> Any:
        return SimpleNamespace(moves=FakeMoves(self))

    def check_owned(self, name: QueueName) -> None:
        pass

    async def settled(self) -> None:
        pass

    async def create(self, name: QueueName, settings: QueueSettings, tags: dict[str, str]) -> Any:
        self.refuse()
        self.queues[name] = FakeQueue(
            broker=self,
            shard=self,
            id=len(self.queues) + 1,
            name=name,
            arn=name.arn,
            settings=settings,
            tags=tags,
            created_ms=1_700_000_000_999,
            modified_ms=1_700_000_001_999,
        )
        return self.queues[name]

    async def configure(self, queue: Any, settings: QueueSettings) -> None:
        queue.settings = settings

    async def tag(self, queue: Any, tags: dict[str, str]) -> None:
        queue.tags = tags

    async def drop(self, queue: Any) -> None:
        del self.queues[queue.name]

    async def purge(self, queue: Any) -> None:
        self.refuse()

    async def receive(self, ask: Ask, wait_ms: int | None) -> list[Received]:
        self.refuse()
        self.asked = {
            "count": ask.messages_max,
            "visibility_ms": ask.visibility_ms,
            "wait_ms": wait_ms,
            "attempt_id": ask.attempt_id,
        }
        return self.receivable

    def refuse(self) -> None:
        if self.raises is not None:
            raise self.raises


class FakeQueue(SimpleNamespace):
    async def counts(self, *, is_use: bool) -> Counts:
        return Counts(visible=4, in_flight=2, delayed=1)

    async def send(self, messages: list[Outgoing], requester: Requester | None) -> list[Sent]:
        self.broker.refuse()
        self.broker.commits += 1
        self.broker.sent += messages
        sequence = 7 if self.settings.fifo else None
        return [Sent(f"id-{message.body[:20]}", sequence) for message in messages]

    async def receive(self, ask: Ask, call: Call, wait_ms: int | None) -> list[Received]:
        received: list[Received] = await self.broker.receive(ask, wait_ms)
        return received

    async def delete(self, handles: list[str], requester: Requester | None) -> list[PenstockError | None]:
        return [self.broker.outcomes.get(handle) for handle in handles]

    async def change_visibility(
        self, changes: list[tuple[str, int]], requester: Requester | None
    ) -> list[PenstockError | None]:
        self.broker.asked = dict(changes)
        return [self.broker.outcomes.get(handle) for handle, _ in changes]


class FakeMoves:
    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def begin(
        self, source: Any, destination: Any, rate: int | None, only_to: Any = None
    ) -> MoveTaskRecord:
        self._broker.refuse()
        task = MoveTaskRecord(
            id=f"task-{len(self._broker.tasks)}",
            source=source.name,
            destination=destination,
            rate=rate,
            status=MoveStatus.RUNNING,
            started_ms=1_700_000_000_000,
            to_move=5,
            only_to=only_to,
        )
        self._broker.tasks.insert(0, task)
        return task

    def of(self, source: Any) -> list[MoveTaskRecord]:
        return self._broker.tasks

    async def cancel(self, source: Any, task_id: str) -> MoveTaskRecord:
        self._broker.refuse()
        return msgspec.structs.replace(self._broker.tasks[0], status="CANCELLING", moved=2)


class Reply:
    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.raw = answer.body
        self.headers = dict(answer.headers)
        self.body: dict[str, Any] = json.loads(answer.body) if answer.body else {}

    @property
    def code(self) -> str:
        return self.headers[b"x-amzn-query-error"].decode().partition(";")[0]

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def error(self) -> tuple[str, str]:
        return self.code, self.message


class SqsClient:
    """A client without a transport: ``sqs("SendMessage", QueueUrl="q", MessageBody="x")``."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.trace: str | None = None
        self.base_url = "http://localhost:9324"
        self.principal: Principal | None = None  # None: an open server
        self.space = SPACE
        self.source_ip = ""
        context = Sqs(self.broker, ACTIONS)  # type: ignore[arg-type]
        self._dispatcher = Dispatcher([SERVICE.with_context(context)], authorize=authorize)

    def __call__(self, action: str, **members: Any) -> Reply:
        (answer,) = self.start(action, json.dumps(members).encode())
        return Reply(answer)

    def start(self, action: str, body: bytes) -> list[Response]:
        """The answer, as soon as it is there."""
        answers: list[Response] = []
        call = Call(
            request_id="rid", space=self.space, sender="AIDASENDER", base_url=self.base_url, trace=self.trace
        )
        call.principal, call.source_ip = self.principal, self.source_ip
        self._dispatcher.answer(json_request(f"AmazonSQS.{action}", body), call, answers.append)
        return answers

    def make(self, name: str, **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        reply = self("CreateQueue", QueueName=name, Attributes=attributes)
        assert reply.status == 200, reply.body
        return str(reply.body["QueueUrl"])

    def attributes(self, name: str) -> dict[str, str]:
        reply = self("GetQueueAttributes", QueueUrl=name, AttributeNames=["All"])
        assert reply.status == 200, reply.body
        return dict(reply.body["Attributes"])


@pytest.fixture
def sqs() -> SqsClient:
    return SqsClient()


def arn(name: str, region: str = REGION, account: str = ACCOUNT) -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"


@pytest.fixture(name="arn")
def arn_fixture() -> Any:
    return arn


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    accounts = Accounts(tmp_path)
    accounts.user("alice")
    return accounts


@pytest.fixture
def sts(accounts: Accounts) -> Sts:
    return Sts(accounts)
