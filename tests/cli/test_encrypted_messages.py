"""Messages whose encryption key was disabled: commands list them without their content, and say so."""

from __future__ import annotations

from pathlib import Path

from cli.queues_for_commands import new_queue
from e2e.test_encryption import Installation
from support.command_line import CommandLine
from support.texts import says
from support.waiting import until


def test_messages_that_cannot_be_decrypted(tmp_path: Path) -> None:
    place = Installation(tmp_path)
    place.start()
    assert place.server is not None
    with place.server:
        place.key("create", "--alias", "alias/orders")
        penstock = CommandLine(place.server.url)
        queue = new_queue(penstock, KmsMasterKeyId="alias/orders")
        until(lambda: penstock("message", "send", queue, "secret").exit_code == 0, "the key is known")
        place.key("disable", "alias/orders")
        until(lambda: "unreadable" in penstock.done("message", "ls", queue, "--json"), "the key is disabled")
        (message,) = penstock.json_lines("message", "ls", queue)
        assert "body" not in message
        line = penstock.done("message", "ls", queue).splitlines()[1]
        assert line.split()[2].endswith("s")
        says(line, "encrypted", "key")
        text = penstock.done("message", "show", queue, message["id"])
        assert "1970" not in text
        says(text.splitlines()[-1], "encrypted", "key")
        file = tmp_path / "dump.jsonl"
        noted = penstock("dump", queue, str(file)).stderr
        says(noted, "without a body", "key", ": 1", "wrote 1 message")
        says(penstock("load", new_queue(penstock), str(file)).stderr, "line 1", "JSON object")
