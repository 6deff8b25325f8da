"""One row per action."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from penstock.wire.service import Action, Call

from .faults import ThingMissing
from .structs import (
    DownloadRequest,
    DownloadResult,
    NameRequest,
    NewestRequest,
    PutThingRequest,
    Thing,
    UploadRequest,
    UploadResult,
)

Things = dict[str, Any]


async def put_thing(things: Things, request: PutThingRequest, call: Call) -> Thing:
    things[request.Name or ""] = thing = msgspec.convert(request, Thing, from_attributes=True)
    return thing


async def get_thing(things: Things, request: NameRequest, call: Call) -> Thing:
    if request.Name not in things:
        raise ThingMissing(request.Name)
    return things[request.Name]  # type: ignore[no-any-return]


async def get_newest(things: Things, request: NewestRequest, call: Call) -> Thing:
    return things[next(reversed(things))]  # type: ignore[no-any-return]


async def delete_thing(things: Things, request: NameRequest, call: Call) -> None:
    things.pop(request.Name or "", None)


async def upload(things: Things, request: UploadRequest, call: Call) -> UploadResult:
    things[f"file {request.Key}"] = request.Content or b""
    return UploadResult(Size=len(request.Content or b""))


async def download(things: Things, request: DownloadRequest, call: Call) -> DownloadResult:
    content: bytes = things[f"file {request.Key}"]

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 4):
            yield content[at : at + 4]

    return DownloadResult(Type="file", Content=pieces())


async def read_file(things: Things, request: DownloadRequest, call: Call) -> DownloadResult:
    return DownloadResult(Content=things[f"file {request.Key}"])


ROWS = [
    Action("PutThing", PutThingRequest, Thing, put_thing, http="PUT /things/{Name}", status=201),
    Action("GetThing", NameRequest, Thing, get_thing, http="GET /things/{Name}", read_only=True),
    Action("GetNewest", NewestRequest, Thing, get_newest, http="GET /things/newest", read_only=True),
    Action("DeleteThing", NameRequest, None, delete_thing, http="DELETE /things/{Name}", status=204),
    Action("Upload", UploadRequest, UploadResult, upload, http="POST /files/{Key+}"),
    Action("Download", DownloadRequest, DownloadResult, download, http="GET /files/{Key+}", read_only=True),
    Action("ReadFile", DownloadRequest, DownloadResult, read_file, http="GET /whole/{Key+}", read_only=True),
]

ACTIONS = {row.name: row for row in ROWS}
