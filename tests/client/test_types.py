"""Type checkers and editors see the parameters and results of both clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parent.parent.parent

# An error that is expected and missing is an error, too: the comment is not used then.
SCRIPT = """\
from typing import assert_type

from penstock.client import Client, Message, QueuePage, SyncClient
from penstock.client import Klient  # type: ignore[attr-defined]

def blocking(client: SyncClient) -> None:
    assert_type(client.receive_message("q", max_number_of_messages=10), list[Message])
    assert_type(client.send_message("q", "x", message_attributes={"a": 1}).sequence_number, str | None)
    for page in client.list_queue_pages("prefix"):
        assert_type(page, QueuePage)
    client.send_message("q")  # type: ignore[call-arg]
    client.send_message("q", 3)  # type: ignore[arg-type]
    client.receive_message("q", max_number=3)  # type: ignore[call-arg]

async def asynchronous(client: Client) -> None:
    assert_type(await client.receive_message("q"), list[Message])
    await client.delete_message("q")  # type: ignore[call-arg]
"""


@pytest.mark.slow
def test_signatures_are_seen(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(SCRIPT)
    output, problems, code = api.run([
        "--strict", "--config-file", "", "--cache-dir", str(ROOT / ".mypy_cache/programs"),
        "--ignore-missing-imports", "--follow-imports", "silent", str(file),
    ])  # fmt: skip
    assert (output, problems, code) == ("Success: no issues found in 1 source file\n", "", 0)
