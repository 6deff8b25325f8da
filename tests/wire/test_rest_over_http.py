"""A REST-JSON service behind the real transport: all HTTP methods reach it, and its responses stream."""

from __future__ import annotations

import asyncio
from http.client import HTTPConnection

from penstock.names import Space
from penstock.server.callers import OpenCallers
from penstock.server.health import Health
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener
from penstock.server.origin import Origins
from penstock.server.routes import RequestHandlers, Routes
from penstock.server.web_pages import Cors
from penstock.wire.dispatch import Dispatcher
from wire.things import things_service


def test_a_rest_service_over_http() -> None:
    async def main() -> None:
        dispatcher = Dispatcher([things_service("json-1.0", "rest-json")])
        origins = Origins(None, ())
        callers = OpenCallers(Space("000000000000", "us-east-1"), origins)
        routes = Routes(callers=callers, origins=origins, cors=Cors(()), health=Health())
        routes.open(RequestHandlers(dispatcher.answer, dispatcher.refusal, dispatcher.methods))
        listener = Listener(routes.serve, HttpLimits())
        port = await listener.listen("127.0.0.1", 0, None)
        try:
            await asyncio.to_thread(call_all_methods, port)
        finally:
            await listener.close(grace_s=0.05)

    asyncio.run(main())


def call_all_methods(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)

    def ask(method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()

    assert ask("PUT", "/things/a?count=3", b'{"Note":"n"}') == (201, b'{"Name":"a","Count":3,"Note":"n"}')
    assert ask("GET", "/things/a") == (200, b'{"Name":"a","Count":3,"Note":"n"}')
    assert ask("DELETE", "/things/a") == (204, b"")
    assert ask("GET", "/things/a") == (404, b'{"message":"No thing a."}')
    content = b"0123456789" * 1000
    assert ask("POST", "/files/dir/f", content) == (200, b'{"Size":10000}')
    assert ask("GET", "/files/dir/f") == (200, content)
    assert ask("PATCH", "/things/a")[0] == 405
    connection.close()
