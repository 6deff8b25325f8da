"""Messages whose encryption key was disabled: commands list them without their content, and say so."""

from __future__ import annotations

from pathlib import Path

from cli.command_line import CommandLine
from cli.queues_for_commands import new_queue
from e2e.test_encryption import Installation
from e2e.waiting import until


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
        assert line.endswith("(encrypted with a key that cannot be used)") and line.split()[2].endswith("s")
        text = penstock.done("message", "get", queue, message["id"])
        assert text.endswith("(encrypted with a key that cannot be used)\n") and "1970" not in text
        file = tmp_path / "dump.jsonl"
        noted = penstock("dump", queue, str(file)).stderr
        assert noted == "without a body, because its key cannot be used: 1\nwrote 1 message\n"
        assert "line 1: expected a JSON object" in penstock("load", new_queue(penstock), str(file)).stderr
