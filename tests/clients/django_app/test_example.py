"""The example of docs/recipes/django.md."""

from __future__ import annotations

import json
import sqlite3
import urllib.request
from contextlib import closing
from functools import partial
from pathlib import Path

from clients.programs import Program
from support.documents import copy_example
from support.process import ServerProcess, free_port


def test_orders_are_stored_and_fulfilled(server: ServerProcess, tmp_path: Path) -> None:
    folder = copy_example("django", tmp_path, server.port)
    start = partial(Program, folder=folder, environment={"AWS_ENDPOINT_URL_SQS": server.url})
    url = f"http://127.0.0.1:{free_port()}"
    assert start("manage.py", "migrate", "--run-syncdb").ended() == 0
    assert start("-m", "penstock", "queue", "create", "orders").ended() == 0
    with start("manage.py", "runserver", "--noreload", url.removeprefix("http://")) as application:
        application.printed(f"server at {url}")
        with urllib.request.urlopen(f"{url}/orders", data=b"item=espresso", timeout=30) as answer:
            order = json.loads(answer.read())["order"]
        with start("-m", "penstock", "worker", "shop.worker:worker") as worker:
            worker.printed(f"order {order} is fulfilled")
            assert worker.stop() == 0
    with closing(sqlite3.connect(folder / "shop.sqlite3")) as database:
        rows = database.execute("SELECT item, fulfilled FROM shop_order WHERE id = ?", (order,)).fetchall()
    assert rows == [("espresso", 1)]
