"""Everything behind HTTP in one process: a real broker with a store in memory, SQS and STS, and a clock that moves
only while a request waits.

Each input finds a server in the same state: one that an input has changed is replaced. Every request must be answered
once, and not with a status of 500 or more; an error in the server's log is a failure too.
"""

from __future__ import annotations

import atexit
import logging
import tempfile
from collections.abc import Set
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode
from xml.etree import ElementTree

from penstock.auth.authorize import authorize
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.broker.broker import Broker
from penstock.broker.shard import Shard
from penstock.errors import StoreError
from penstock.limits import Limits
from penstock.names import Space
from penstock.services import sqs, sts
from penstock.store.changes import Changes
from penstock.store.memory import MemoryStore
from penstock.store.port import Mark
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from support.http_requests import PlainRequest, form_request, json_request
from support.identities import ABROAD, HOME, Accounts, allow, document

REGION = "us-east-1"
LONGEST_POLL_MS = 20_000
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{HOME}:q"
ROLE_ARN = f"arn:aws:iam::{HOME}:role/worker"

ASSUME = urlencode(
    {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE_ARN,
        "RoleSessionName": "w1",
        "Policy": document(allow("sqs:*", Resource=QUEUE_ARN), allow("sts:*", Resource="*")),
        "Tags.member.1.Key": "team",
        "Tags.member.1.Value": "red",
        "TransitiveTagKeys.member.1": "team",
    }
).encode()

_SETUP = [
    ("CreateQueue", b'{"QueueName":"dead"}'),
    ("CreateQueue", b'{"QueueName":"q","tags":{"team":"red"},"Attributes":{"RedrivePolicy":'
     b'"{\\"maxReceiveCount\\":2,\\"deadLetterTargetArn\\":\\"arn:aws:sqs:us-east-1:111122223333:dead\\"}"}}'),
    ("CreateQueue", b'{"QueueName":"q.fifo","Attributes":{"FifoQueue":"true","ContentBasedDeduplication":"true"}}'),
    ("AddPermission", b'{"QueueUrl":"q","Label":"l","AWSAccountIds":["444455556666"],"Actions":["SendMessage"]}'),
    ("SendMessage", b'{"QueueUrl":"q","MessageBody":"first"}'),
    ("SendMessage", b'{"QueueUrl":"q","MessageBody":"second","MessageAttributes":'
     b'{"a":{"DataType":"Binary","BinaryValue":"AAE="}}}'),
    ("SendMessage", b'{"QueueUrl":"dead","MessageBody":"dead"}'),
    ("SendMessage", b'{"QueueUrl":"q.fifo","MessageBody":"first","MessageGroupId":"g"}'),
]  # fmt: skip


class LoggedErrors(logging.Handler):
    """Fails if the server logs an error while this is entered."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._messages: list[str] = []
        self._log = logging.getLogger("penstock")

    def __enter__(self) -> None:
        self._log.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
        messages, self._messages = self._messages, []
        assert not messages, "\n".join(messages)

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(self.format(record))


class CountingStore(MemoryStore):
    """Counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        self.appends += 1
        return super().append(changes, mark)


@cache
def accounts() -> Accounts:
    """Its keys differ in each process; no input depends on them."""
    folder = tempfile.TemporaryDirectory(prefix="penstock-fuzz-")
    atexit.register(folder.cleanup)
    made = Accounts(Path(folder.name))
    made.user("alice", document(allow("*", Resource="*")), tags={"team": "red"})
    careful = allow("sqs:*", Resource=f"arn:aws:sqs:*:{HOME}:${{aws:username}}*")
    condition = {"StringEquals": {"aws:ResourceTag/team": "${aws:PrincipalTag/team}"}}
    made.user("q", document(careful, allow("sqs:Send*", Resource="*", Condition=condition)))
    made.user("mallory", document(allow("sqs:*", Resource="*")), account=ABROAD)
    principal = {"AWS": [f"arn:aws:iam::{HOME}:user/alice", ROLE_ARN, ABROAD]}
    trust = allow(["sts:AssumeRole", "sts:TagSession"], Principal=principal)
    made.role("worker", document(trust), document(allow("sqs:*", Resource="*")))
    return made


class TemporaryCredentials(NamedTuple):
    """Temporary credentials."""

    access_key: str
    secret: str
    token: str


def credentials_in(answer: Response) -> TemporaryCredentials:
    found = {
        element.tag.rpartition("}")[2]: element.text or ""
        for element in ElementTree.fromstring(answer.body).iter()
    }
    return TemporaryCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


class FuzzServer:
    def __init__(self) -> None:
        self._logged_errors = LoggedErrors()
        self.clock = ManualClock()
        self.runtime = SimulatedRuntime(self.clock)
        self.store = CountingStore()
        shard = Shard(self.store, self.runtime, self.clock, Limits(), self.store.open(), _stop)
        self.broker = Broker(Limits())
        self.broker.open_shard(shard)
        self._principals: dict[bytes, Principal] = {
            b"anonymous": ANONYMOUS,
            **{name.encode(): accounts().principal(name) for name in accounts().keys},
        }
        queues = sqs.SERVICE.with_context(sqs.Sqs(self.broker, sqs.ACTIONS))
        open_sts = sts.SERVICE.with_context(sts.Sts(None, accounts().clock))
        secured_sts = sts.SERVICE.with_context(sts.Sts(accounts().credentials, accounts().clock))
        self._open = Dispatcher([queues, open_sts])
        self._secured = Dispatcher([queues, secured_sts], authorize=authorize)
        worker = credentials_in(self.ask_sts(b"alice", ASSUME))
        self._principals[b"worker"] = accounts().credentials.directory.principal(
            worker.access_key, worker.token
        )
        for action, body in _SETUP:
            answer = self.ask(b"open", json_request(f"AmazonSQS.{action}", body))
            assert answer.status == 200, answer.body
        self._initial_state = self._state()

    @property
    def is_unchanged(self) -> bool:
        return self._state() == self._initial_state

    def _state(self) -> tuple[int, int]:
        return self.store.appends, self.clock.now_ms()

    def ask_sts(self, who: bytes, form: bytes) -> Response:
        return self.ask(who, form_request(form))

    def principal(self, who: bytes) -> Principal | None:
        """None for an open server."""
        return self._principals.get(who)

    def ask(self, who: bytes, request: PlainRequest) -> Response:
        """A request of the principal with that name; an unknown name calls an open server."""
        principal = self.principal(who)
        space = Space(principal.account if principal and principal.account else HOME, REGION)
        call = Call(request_id="rid", space=space, sender="S", base_url="http://localhost")
        call.principal, call.source_ip = principal, "192.0.2.7"
        answers: list[Response] = []
        dispatcher = self._open if principal is None else self._secured
        with self._logged_errors:
            dispatcher.answer(request, call, answers.append)
            self.runtime.run_until_idle()
            if not answers:
                self.runtime.advance(LONGEST_POLL_MS)
                self.runtime.run_until_idle()
        (answer,) = answers
        assert answer.status < 500, (who, request)
        for name, value in answer.headers:
            assert not set(b"\r\n\0") & set(name + value), "a header contains a line break"
        return answer

    def close(self) -> None:
        self.store.close()


def _stop(error: StoreError) -> None:
    raise AssertionError("the store failed") from error


_server: FuzzServer | None = None


def unchanged_server() -> FuzzServer:
    global _server
    if _server is None or not _server.is_unchanged:
        if _server is not None:
            _server.close()
        _server = FuzzServer()
    return _server
