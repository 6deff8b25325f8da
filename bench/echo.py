"""The limit: what Penstock's own transport costs with next to nothing behind it.

It reads HTTP with the server's own connection code, decodes the JSON, makes a UUID and an MD5 for each message and
answers. No queue, no checks, no store. Only sends mean something here.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Callable

import msgspec
import uvloop

from penstock.server import process
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Request
from penstock.server.http.response import REQUEST_ID
from penstock.wire.dispatch import Answer

TYPE = (b"Content-Type", b"application/x-amz-json-1.0")


class Entry(msgspec.Struct):
    Id: str
    MessageBody: str


class Send(msgspec.Struct):
    QueueUrl: str = ""
    MessageBody: str = ""
    Entries: list[Entry] = []


_decode = msgspec.json.Decoder(Send).decode
_encode = msgspec.json.Encoder().encode


def sent(body: str) -> dict[str, str]:
    return {"MessageId": str(uuid.uuid4()), "MD5OfMessageBody": hashlib.md5(body.encode()).hexdigest()}


def serve(request: Request, done: Callable[[Answer], None]) -> None:
    asked = _decode(request.body or b"{}")
    if asked.Entries:
        answer: dict[str, object] = {
            "Successful": [{"Id": entry.Id, **sent(entry.MessageBody)} for entry in asked.Entries]
        }
    else:
        answer = {"QueueUrl": "http://echo/0/queue", **sent(asked.MessageBody)}
    done(Answer(200, [TYPE, (REQUEST_ID, request.id.encode())], _encode(answer)))


async def live() -> None:
    listener = Listener(serve, HttpLimits())
    port = await listener.listen("127.0.0.1", 0)
    process.started()
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    process.prepare(20_000)
    uvloop.run(live())
