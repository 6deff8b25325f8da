"""The unit of the benchmark: the least that an HTTP server in Python does for one SendMessage.

uvloop, httptools and msgspec, and nothing between them: parse the request, decode the JSON, make a UUID and an MD5,
answer. No queue, no checks, no store, no limits. A cost in multiples of this one can be compared between machines.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from typing import cast

import httptools
import msgspec
import uvloop


class Entry(msgspec.Struct):
    Id: str
    MessageBody: str


class Send(msgspec.Struct):
    MessageBody: str = ""
    Entries: list[Entry] = []


class Sent(msgspec.Struct, omit_defaults=True):
    MessageId: str
    MD5OfMessageBody: str
    Id: str = ""


class SentBatch(msgspec.Struct):
    Successful: list[Sent]


_decode = msgspec.json.Decoder(Send).decode
_encode = msgspec.json.Encoder().encode


def _sent(body: str, entry_id: str = "") -> Sent:
    return Sent(str(uuid.uuid4()), hashlib.md5(body.encode()).hexdigest(), entry_id)


def respond(body: bytes) -> bytes:
    """The response to SendMessage or SendMessageBatch; every other request gets the URL of a queue."""
    send = _decode(body)
    if send.MessageBody:
        return _encode(_sent(send.MessageBody))
    if send.Entries:
        return _encode(SentBatch([_sent(entry.MessageBody, entry.Id) for entry in send.Entries]))
    return b'{"QueueUrl":"http://echo/000000000000/queue"}'


class BareEcho(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._body = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body = respond(self._body)
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(BareEcho, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
