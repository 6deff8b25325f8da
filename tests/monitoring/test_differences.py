"""docs/compatibility.md is true: each request that it says is refused is refused with that code and text."""

from __future__ import annotations

import json

from monitoring.differences import REFUSED, Refused
from monitoring.world import MonitoringWorld
from support.http_requests import json_request
from support.rows import every_row


@every_row("row", REFUSED)
def test_a_request_is_refused_as_documented(world: MonitoringWorld, row: Refused) -> None:
    request = json_request(f"GraniteServiceVersion20100801.{row.action}", json.dumps(row.members).encode())
    response = world.answer(request)
    headers = dict(response.headers)
    assert response.status == 400
    assert headers[b"x-amzn-query-error"] == f"{row.code};Sender".encode()
    assert json.loads(response.body)["message"] == row.text
