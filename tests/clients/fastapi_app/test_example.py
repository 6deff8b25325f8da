"""The example of docs/recipes/fastapi.md."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx

from clients.programs import Program
from support.documents import copy_example
from support.process import ServerProcess


def test_orders_are_placed_and_fulfilled(server: ServerProcess, tmp_path: Path) -> None:
    folder = copy_example("fastapi", tmp_path, server.port)
    start = partial(Program, folder=folder, environment={"AWS_ENDPOINT_URL_SQS": server.url})
    with start("-m", "uvicorn", "app:app", "--port", "0") as application:
        url = application.printed(r"running on (http://127\.0\.0\.1:\d+)")[1]
        answer = httpx.post(f"{url}/orders", json={"item": "espresso", "quantity": 2}, timeout=30)
        assert answer.status_code == 202 and answer.json()["message_id"]
        assert httpx.post(f"{url}/orders", json={"quantity": 2}, timeout=30).status_code == 422
        with start("-m", "penstock", "worker", "worker:worker") as worker:
            worker.printed("2 x espresso")
            assert worker.stop() == 0
        application.stop()
        application.printed("Application shutdown complete")
