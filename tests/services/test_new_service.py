"""A new service with a stored record kind is one folder (``toy``) and one line in the composition root."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penstock.auth.authorize import policy_that_allows
from penstock.auth.policy.vocabulary import is_unknown
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import opened
from penstock.names import Home
from penstock.server import compose
from penstock.server.settings.config import Config
from penstock.store.sqlite.site import SqliteSite
from services.toy import SERVICE, Notes
from support.composed import Server, serving
from support.harness import run
from support.identities import HOME, Accounts, allow, document

NOT_RED = {"StringNotEquals": {"notes:color": "red"}}
JSON = {"Content-Type": "application/x-amz-json-1.0", "Host": "localhost:9324"}


@pytest.fixture(autouse=True)
def with_notes() -> Iterator[None]:
    line = (SERVICE, lambda parts: Notes(parts.shards))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compose, "SERVICES", (*compose.SERVICES, line))
        compose.declare_services()
        yield
    compose.declare_services()


async def ask(
    server: Server, target: str, members: Mapping[str, Any], keys: Credentials | None = None
) -> tuple[int, dict[str, Any]]:
    body = json.dumps(members).encode()
    request = AWSRequest("POST", "http://localhost:9324/", {**JSON, "X-Amz-Target": target}, body)
    if keys is not None:
        SigV4Auth(keys, "notes", "us-east-1").add_auth(request)
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    head = "\r\n".join(["POST / HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
    response = await server.ask(head.encode() + body)
    return response.status, json.loads(response.body) if response.body else {}


def test_its_records_survive_a_restart(tmp_path: Path) -> None:
    config = Config(data=tmp_path / "data")

    async def scene() -> None:
        async with serving(config) as server:
            assert await ask(server, "ToyNotes.PutNote", {"Name": "a", "Text": "first"}) == (200, {})
            assert await ask(server, "ToyNotes.PutNote", {"Name": "a", "Text": "second"}) == (200, {})
            assert (await ask(server, "AmazonSQS.CreateQueue", {"QueueName": "q"}))[0] == 200
        async with serving(config) as server:
            assert await ask(server, "ToyNotes.GetNote", {"Name": "a"}) == (200, {"Text": "second"})
            status, error = await ask(server, "ToyNotes.GetNote", {"Name": "b"})
            assert (status, error["__type"]) == (404, "example.notes#NoteNotFound")
            assert (await ask(server, "AmazonSQS.GetQueueUrl", {"QueueName": "q"}))[0] == 200

    run(scene)


def test_it_is_authorised_and_audited_like_every_other(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    own_notes = f"arn:aws:notes:us-east-1:{HOME}:note/ann-*"
    accounts.user(
        "ann", document(allow("notes:PutNote", Resource=own_notes, Condition=NOT_RED)), "notes-read-only"
    )
    root_key = tmp_path / "root.key"
    root_key.write_text(bytes(range(32)).hex())  # identities.ROOT_KEY
    root_key.chmod(0o600)
    config = Config(credentials=accounts.path, root_key_file=root_key, data=tmp_path / "data", port=0)
    keys = Credentials(accounts.keys["ann"], accounts.secrets[accounts.keys["ann"]])

    async def scene() -> None:
        async with serving(config) as server:
            put = "ToyNotes.PutNote"
            assert await ask(server, put, {"Name": "ann-1", "Text": "x"}, keys) == (200, {})
            assert await ask(server, "ToyNotes.GetNote", {"Name": "ann-1"}, keys) == (200, {"Text": "x"})
            for refused in (
                await ask(server, put, {"Name": "bob-1", "Text": "x"}, keys),
                await ask(server, put, {"Name": "ann-1", "Text": "x", "Color": "red"}, keys),
                await ask(server, put, {"Name": "ann-1", "Text": "x"}),
            ):
                assert (refused[0], refused[1]["message"]) == (403, "Not your note.")

    run(scene)
    lines = (tmp_path / "data/audit/audit.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["eventSource"] == "notes.example.com"]
    recorded = [(event["eventName"], event["additionalEventData"]["decision"]) for event in events]
    assert recorded == [
        ("PutNote", "allowed"), ("PutNote", "denied"), ("PutNote", "denied"), ("PutNote", "denied"),
    ]  # fmt: skip
    assert events[0]["resources"][0]["type"] == "Example::Notes::Note"
    assert events[0]["requestParameters"] == {"name": "ann-1"}, "the text is not on the list"


def test_it_is_announced_and_pages_of_the_console_may_call_it() -> None:
    async def scene() -> None:
        async with serving(Config(memory=True, console=True)) as server:
            shown = await server.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert json.loads(shown.body)["speaks"] == ["sqs", "cloudwatch", "sts", "notes"]
            body = b'{"Name": "a", "Text": "x"}'
            head = "POST /console/api/notes/PutNote HTTP/1.1\r\nHost: localhost\r\nX-Penstock-Console: 1\r\n"
            answered = await server.ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert answered.status == 200
            assert await ask(server, "ToyNotes.GetNote", {"Name": "a"}) == (200, {"Text": "x"})

    run(scene)


def test_policies_know_its_condition_keys_and_its_builtin_policies() -> None:
    assert not is_unknown("notes:Color")
    assert is_unknown("notes:Colour")
    assert policy_that_allows("notes:GetNote") == "notes-read-only"


def test_its_records_move_to_a_store_with_other_shards(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(Config(data=tmp_path / "data")) as server:
            for name in "abcdef":
                await ask(server, "ToyNotes.PutNote", {"Name": name, "Text": "x"})

    run(scene)
    with opened(SqliteSite(tmp_path / "data", None)) as sources:
        moved = [
            (target, record.key)
            for target, record in ShardMapping(sources, 3).records(0)
            if record.kind == "note"
        ]
    assert len(moved) == 6
    assert all(target == Home.of_key(key).shard(3) for target, key in moved)
    assert len({target for target, _ in moved}) > 1
