"""PutNote and GetNote."""

from __future__ import annotations

from functools import cached_property

import msgspec

from penstock.auth.authorize import AccessDenied, Resource
from penstock.broker.shard import RecordTable, Shard
from penstock.errors import PenstockError, SignatureMissing
from penstock.names import Home
from penstock.server.shards import OpenShards
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.wire.faults import access_denied
from penstock.wire.service import Call, Fault


class Note(msgspec.Struct, frozen=True):
    text: str


NOTES = RecordKind("note", Note, by_home)


def key_of(arn: str) -> str:
    return Home.of("note", arn).key(arn)


class NoteMissing(PenstockError):
    pass


class Notes:
    """What the handlers need: the notes, and the shard that makes them durable, which opens after the services."""

    def __init__(self, shards: OpenShards) -> None:
        self._shards = shards

    @property
    def shard(self) -> Shard:
        return self._shards[0]

    @cached_property
    def table(self) -> RecordTable[Note]:
        return self.shard.table(NOTES)


class PutNoteRequest(msgspec.Struct):
    Name: str
    Text: str
    Color: str | None = None


class GetNoteRequest(msgspec.Struct):
    Name: str


class GetNoteResult(msgspec.Struct):
    Text: str


def note_of_name(notes: Notes, request: PutNoteRequest | GetNoteRequest, call: Call) -> Resource:
    account, region = call.space.account, call.space.region
    keys = {"notes:color": request.Color or ""} if isinstance(request, PutNoteRequest) else {}
    return Resource(f"arn:aws:notes:{region}:{account}:note/{request.Name}", account, keys=keys)


async def put_note(notes: Notes, request: PutNoteRequest, call: Call) -> None:
    notes.table.put(key_of(call.resource.arn), Note(request.Text))
    await notes.shard.settled()


async def get_note(notes: Notes, request: GetNoteRequest, call: Call) -> GetNoteResult:
    note = notes.table.get(key_of(call.resource.arn))
    if note is None:
        raise NoteMissing
    await notes.shard.settled()
    return GetNoteResult(Text=note.text)


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, NoteMissing):
        return Fault("NoteNotFound", "NoteNotFound", 404, "There is no such note.", modelled=True)
    if isinstance(error, AccessDenied | SignatureMissing):
        return access_denied("Not your note.")
    return None
