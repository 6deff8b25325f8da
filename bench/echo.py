"""The bare echo's work on Penstock's own HTTP layer: what the transport costs with nothing behind it."""

from __future__ import annotations

import asyncio

import uvloop

from bench.bare_echo import respond
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.http.request import Request
from penstock.server.http.response import REQUEST_ID
from penstock.wire.service import Response

TYPE = (b"Content-Type", b"application/x-amz-json-1.0")


def serve(request: Request) -> None:
    request.respond(Response(200, [TYPE, (REQUEST_ID, request.id.encode())], respond(request.body)))


async def main() -> None:
    listener = Listener(serve, HttpLimits())
    port = await listener.listen("127.0.0.1", 0)
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
