"""The interactive shell: in a real terminal, and with commands from a pipe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pexpect
import pytest

from support.command_line import COLOURS, CommandLine
from support.process import ServerProcess
from support.texts import says

PROMPT = ">> Enter command:"
_JSON = re.compile(r"^\{.*?^\}|^\[.*?^\]|^\{\}", re.MULTILINE | re.DOTALL)


def queue_with_dead_letters(penstock: CommandLine, name: str) -> None:
    """A queue with the dead-letter queue NAME-dlq."""
    penstock.done("queue", "create", f"{name}-dlq")
    penstock.done("queue", "create", name, "--dead-letter-queue", f"{name}-dlq", "--max-receives", "5")


class Piped:
    """A shell with lines from a pipe."""

    def __init__(self, penstock: CommandLine, queue: str) -> None:
        self._penstock = penstock
        self._queue = queue

    def __call__(self, *lines: str) -> str:
        """What the lines printed."""
        output = self._penstock.done("shell", self._queue, given="\n".join(lines) + "\n")
        begun, _, rest = output.partition(f"QueueName: {self._queue}\n")
        assert "... AWS session is properly established!" in begun
        assert rest.endswith("... Interactive is ending\n")
        return rest.removesuffix("... Interactive is ending\n")

    def objects(self, *lines: str) -> list[Any]:
        return [json.loads(text) for text in _JSON.findall(self(*lines))]


@pytest.fixture
def shell(penstock: CommandLine, request: pytest.FixtureRequest) -> Piped:
    name = re.sub(r"\W", "-", request.node.name)[:70]
    queue_with_dead_letters(penstock, name)
    return Piped(penstock, name)


def test_it_says_where_it_is(penstock: CommandLine) -> None:
    lines = penstock.done("shell", given="q\n").splitlines()
    assert "[INTERACTIVE MODE]" in lines[1]
    assert lines[-4:] == [
        "... AWS session is properly established!",
        "AWSRegion: us-east-1",
        f"EndpointURL: {penstock.endpoint}",
        "... Interactive is ending",
    ]


def test_it_does_not_begin_without_a_server() -> None:
    text = CommandLine("http://127.0.0.1:1").failed("shell", given="qstat\n")
    says(text, "http://127.0.0.1:1")


def test_statistics_of_the_test_messages(shell: Piped) -> None:
    output = shell("enqueue-test", "QSTAT")
    names = re.findall(r"^\* ID: (A-\d+) \(([\w-]{36})\)$", output, re.MULTILINE)
    assert [name for name, _ in names] == ["A-101", "A-202", "A-303", "A-404"]
    assert "Send a message with IDs:\n" in output and "Queue status:\n" in output
    (stats,) = shell.objects("qstat")
    assert list(stats) == [
        "first_100_IDs_in_queue", "first_100_IDs_in_queue_processing", "total_messages_in_queue",
        "total_messages_in_queue_processing", "total_messages_in_queue_ready",
    ]  # fmt: skip
    assert stats["first_100_IDs_in_queue"] == [id for _, id in names]
    assert [stats[f"total_messages_in_queue{part}"] for part in ("", "_processing", "_ready")] == [4, 0, 4]


def test_test_messages_replace_earlier_ones(shell: Piped) -> None:
    assert shell.objects("et", "et", "qstat")[0]["total_messages_in_queue"] == 4


def test_a_message_is_found_by_its_name_and_by_its_id(shell: Piped) -> None:
    (found,) = shell.objects("et", "id A-202")
    assert list(found)[:10] == [
        "id", "data", "receive_count", "queue_type", "version", "created_at", "updated_at", "sent_at",
        "received_at", "invisible_until_at",
    ]  # fmt: skip
    assert found["data"] == {
        "id": "A-202",
        "items": [{"SKU": f"Item-{number}", "is_packed": True} for number in (1, 2, 3)],
        "data_1": "Data 1", "data_2": "Data 2", "data_3": "Data 3",
    }  # fmt: skip
    assert (found["receive_count"], found["queue_type"], found["version"]) == (0, "STANDARD", 1)
    assert (found["received_at"], found["invisible_until_at"]) == ("", "")
    output = shell(f"id {found['id']}", "id")
    assert f"Message's [{found['id']}] record dump:\n" in output
    assert "Going back to standard Interactive mode!\n" in output


def test_looking_at_the_current_message(shell: Piped) -> None:
    output = shell("et", "id A-101", "sys", "data", "info")
    assert output.index("ID's system info:") < output.index("Data info:") < output.index("Record's dump:")
    _, system, data, info = (json.loads(text) for text in _JSON.findall(output))
    assert system["status"] == "READY" and "data" not in system
    assert data["id"] == "A-101" and info["data"] == data


def test_listing(shell: Piped) -> None:
    assert "Queue is empty!\n" in shell("ls")
    output = shell("et", "receive", "ls")
    assert "List messages of first 10 IDs:\n" in output
    assert re.findall(r"^\* ID: [\w-]{36}, status: (\w+)$", output, re.MULTILINE) == [
        "PROCESSING", "READY", "READY", "READY",
    ]  # fmt: skip


def test_a_received_message_is_deleted_by_its_receipt(shell: Piped) -> None:
    output = shell("et", "receive", "delete", "sys")
    id = re.search(r"ReceiveMessage was successful \.\.\. record peeked is: \[(.+)\]", output)
    assert id is not None
    assert f"Processing for ID [{id[1]}] is deleted successfully! Remove from the queue!\n" in output
    system, received, deleted = (json.loads(text) for text in _JSON.findall(output))
    assert (system["status"], system["receive_count"]) == ("PROCESSING", 1)
    assert system["invisible_until_at"] > system["received_at"] > ""
    assert received["first_100_IDs_in_queue_processing"] == [id[1]]
    assert (deleted["total_messages_in_queue"], deleted["total_messages_in_queue_processing"]) == (3, 0)
    assert output.endswith(
        "ERROR: `system` command can be only used in the Interactive mode. Call first `id`\n"
    )  # the current message is gone


def test_a_failed_message_is_visible_at_once(shell: Piped) -> None:
    output = shell("et", "receive", "fail", "sys")
    assert "has failed! Put the record back to the queue!\n" in output
    *_, stats, system = (json.loads(text) for text in _JSON.findall(output))
    assert stats["total_messages_in_queue_ready"] == 4
    assert (system["status"], system["receive_count"]) == ("READY", 1)


def test_an_invalid_message_goes_to_the_dead_letter_queue_and_back(shell: Piped) -> None:
    output = shell("et", "receive", "invalid", "dlq", "info", "ls", "redrive", "dlq")
    assert "has failed .. invalid data! Send record to DLQ!\n" in output
    received, _, stats, dead, info, redriven, empty = (json.loads(text) for text in _JSON.findall(output))
    assert stats["total_messages_in_queue"] == 3
    assert dead == {"first_100_IDs_in_queue": [received["id"]], "total_messages_in_DLQ": 1}
    assert (info["id"], info["queue_type"]) == (received["id"], "DLQ")
    assert f"* ID: {received['id']}, status: READY, queue_type: DLQ\n" in output
    assert redriven["RedroveMessage"]["queue_type"] == "STANDARD"
    assert redriven["RedroveMessage"]["id"] == received["id"]
    assert empty["total_messages_in_DLQ"] == 0


def test_a_reset_message_is_as_just_sent(shell: Piped) -> None:
    *_, reset = shell.objects("et", "receive", "reset")
    assert (reset["status"], reset["receive_count"], reset["received_at"]) == ("READY", 0, "")
    *_, stats = shell.objects("id A-303", "invalid", "reset", "qstat")
    assert stats["total_messages_in_queue"] == 4  # a dead letter is back


def test_a_message_that_another_consumer_holds_stays_with_it(penstock: CommandLine, shell: Piped) -> None:
    (found,) = shell.objects("et", "id A-101")
    assert found["id"] in penstock.done("message", "receive", shell._queue, "--max", "4")
    for line in ("delete", "fail", "invalid", "reset"):
        assert "ERROR: MessageInFlight: " in shell("id A-101", line), line


def test_only_dead_letters_are_redriven(shell: Piped) -> None:
    output = shell("et", "id A-101", "redrive")
    assert "ERROR: operation redrive failed for status READY: can only redrive messages from DLQ.\n" in output


def test_purging(shell: Piped) -> None:
    assert "Message table is empty ... nothing to remove!\n" in shell("purge")
    refused = shell("et", "purge")
    assert "ERROR: Remove all 4 messages of " in refused and "--yes" in refused
    output = shell("purge --yes", "qstat")
    assert output.startswith("List messages of removed IDs:\n") and output.count("* ID: ") == 4
    assert json.loads(_JSON.findall(output)[0])["total_messages_in_queue"] == 0


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("frobnicate", 'unrecognized command "frobnicate"'),
        ("qsat", 'unrecognized command "qsat": did you mean "qstat"?'),
        ("pek orders", 'unrecognized command "pek": did you mean "peek"?'),
        ("shell", "this is the shell"),
        ("fail orders 1", '"fail" takes no arguments'),
        ("show orders", 'which one, "message show" or "queue show"?'),
        ("set orders 1", 'which one, "message set" or "queue set"?'),
        ("use", "which queue? use QUEUE"),
        ("use nothing-of-this-name", 'there is no queue "nothing-of-this-name"'),
        ("id 12345", "message not found, ID: 12345"),
        ("receive", "Cannot proceed, queue is empty."),
        ("delete", "`delete` command can be only used in the Interactive mode. Call first `id`"),
        ("queue frobnicate", 'No such command "frobnicate"'),
        ('id "open', "No closing quotation"),
        ("id A-101 A-202", "which message? id ID"),
    ],
)
def test_an_error_is_shown_and_the_next_line_follows(shell: Piped, line: str, error: str) -> None:
    output = shell(line, "qstat")
    assert output.startswith(f"ERROR: {error}")
    assert "Queue status:" in output


def test_commands_of_the_command_line_work_on_the_same_server(shell: Piped) -> None:
    assert shell._queue in shell("queue ls")
    shell(f"message send {shell._queue} hello")
    peeked = shell(f"message peek {shell._queue} --json")
    assert json.loads(peeked)["body"] == "hello"
    assert shell(f"peek {shell._queue} --json") == peeked, "the group can be left out"
    id = json.loads(peeked)["id"]
    says(shell(f"edit {shell._queue} {id} --body bye"), f"edited {id}")


def test_a_queue_that_is_named_is_not_the_chosen_one(penstock: CommandLine, shell: Piped) -> None:
    penstock.done("queue", "create", "named-in-the-shell")
    output = shell("et", "purge named-in-the-shell --yes", "qstat")
    assert "ERROR" in output and '"total_messages_in_queue": 4' in output
    penstock.done("message", "send", "named-in-the-shell", "x")
    output = shell("queue purge named-in-the-shell --yes", "qstat")
    assert '"total_messages_in_queue": 4' in output
    assert penstock.done("queue", "stat", "named-in-the-shell", "visible") == "0\n"


def test_queues_of_two_processes() -> None:
    with ServerProcess("--memory", "--processes", "2") as running:
        penstock = CommandLine(running.url)
        for number in range(4):  # some dead-letter queues are in shards of the other process
            queue_with_dead_letters(penstock, f"orders-{number}")
            shell = Piped(penstock, f"orders-{number}")
            output = shell("et", "id A-202", "invalid", "dlq", "reset", "qstat")
            assert '"total_messages_in_DLQ": 1' in output and "ERROR" not in output
            assert '"total_messages_in_queue": 4' in output


def test_a_fifo_queue(penstock: CommandLine) -> None:
    penstock.done("queue", "create", "shell.fifo", "--fifo")
    received, *_ = Piped(penstock, "shell.fifo").objects("et", "et", "qstat", "receive")
    assert received["total_messages_in_queue"] == 4
    assert "A-101" in Piped(penstock, "shell.fifo")("id A-101", "data")


def test_what_amazon_sqs_can_do(amazon: CommandLine, penstock: CommandLine) -> None:
    penstock.done("queue", "create", "shell-amazon")
    lines = (
        "et",
        "qstat",
        "receive",
        "sys",
        "fail",
        "receive",
        "delete",
        "qstat",
        "invalid",
        "ls",
        "id A-101",
        "purge --yes",
    )
    session = Piped(amazon, "shell-amazon")(*lines)
    assert '"total_messages_in_queue": 3' in session and '"first_100_IDs_in_queue": null' in session
    assert session.count("ERROR: ") == 3  # no message is chosen, ls, and id
    assert "ERROR: ls needs Penstock" in session
    assert penstock.done("queue", "stat", "shell-amazon", "visible") == "0\n"


def test_a_secured_server(as_root: CommandLine, as_guest: CommandLine) -> None:
    queue_with_dead_letters(as_root, "secured-shell")
    session = as_root.done(
        "shell", "secured-shell", given="et\nid A-101\ninvalid\nredrive\nqueue ls secured-shell\n"
    )
    assert "ERROR" not in session and session.count("secured-shell-dlq") == 2
    assert "ERROR: AccessDenied" in as_guest.done("shell", given="queue ls\n")  # and the shell goes on


def test_help_names_every_command(shell: Piped) -> None:
    output = shell("help")
    assert shell("h") == shell("?") == output
    for name in ("qstat", "dlq", "ls", "receive", "purge", "enqueue-test", "id", "sys", "queue", "doctor"):
        assert re.search(rf"\b{name}\b", output), name


# -- in a terminal -------------------------------------------------------------------------------------------------


def opened(penstock: CommandLine, *arguments: str, **environment: Any) -> pexpect.spawn[str]:
    process = penstock.spawn(*arguments, **environment)
    process.expect_exact(PROMPT)
    return process


def until_prompt(process: pexpect.spawn[str], line: str) -> str:
    process.sendline(line)
    process.expect_exact("\r\n")
    process.expect_exact(PROMPT)
    return COLOURS.sub("", process.before or "")


def ended(process: pexpect.spawn[str]) -> int:
    process.expect_exact("... Interactive is ending")
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus is not None
    return process.exitstatus


def test_penstock_alone_in_a_terminal_is_the_shell(penstock: CommandLine, tmp_path: Path) -> None:
    process = opened(penstock, XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1")
    assert "frobnicate" not in until_prompt(process, "help")
    assert "ERROR: unrecognized command" in until_prompt(process, "frobnicate")
    process.sendcontrol("d")
    assert ended(process) == 0


def test_a_session_in_a_terminal(penstock: CommandLine, shell: Piped, tmp_path: Path) -> None:
    process = opened(penstock, "shell", XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1")
    assert "ERROR: no queue is chosen. Call first `use QUEUE`" in until_prompt(process, "qstat")
    until_prompt(process, f"use {shell._queue}")
    until_prompt(process, "et")
    assert "ID <" in until_prompt(process, "id A-101")  # in the prompt
    process.sendline("purge")
    process.expect_exact("[y/N]: ")
    process.sendline("n")
    process.expect_exact("ERROR: nothing was changed")
    process.expect_exact(PROMPT)
    assert '"total_messages_in_queue": 4' in until_prompt(process, "qstat")
    process.sendcontrol("c")  # gives up a line
    process.expect_exact(PROMPT)
    process.sendline("quit")
    assert ended(process) == 0


def test_history_is_kept_for_its_owner(penstock: CommandLine, tmp_path: Path) -> None:
    for line in ("help", None):
        process = opened(penstock, "shell", XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1")
        if line:
            until_prompt(process, line)
        else:
            process.send("\x1b[A\x1b[A")  # up, beyond the "q" that ended it
            process.expect_exact("help")
            process.sendcontrol("c")
            process.expect_exact(PROMPT)
        process.sendline("q")
        assert ended(process) == 0
    file = tmp_path / "penstock/history"
    assert "+help\n" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_shell_without_a_place_for_its_history(penstock: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    process = opened(penstock, "shell", XDG_STATE_HOME=str(tmp_path / "file"), PROMPT_TOOLKIT_NO_CPR="1")
    assert "... this is Interactive help:" in until_prompt(process, "help")
    process.sendline("q")
    assert ended(process) == 0


def test_an_interrupted_command_does_not_end_the_shell(
    penstock: CommandLine, shell: Piped, tmp_path: Path
) -> None:
    shell("et")
    process = opened(penstock, "shell", XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1")
    process.sendline(f"tail -f {shell._queue}")
    process.expect_exact("A-404")
    process.sendcontrol("c")
    process.expect_exact(PROMPT)
    assert "ERROR: unrecognized command" in until_prompt(process, "frobnicate")
    process.sendline("q")
    assert ended(process) == 0


def test_completion_of_commands_queues_and_ids(penstock: CommandLine, shell: Piped, tmp_path: Path) -> None:
    (message,) = shell.objects("et", "id A-101")
    process = opened(penstock, "shell", XDG_STATE_HOME=str(tmp_path), PROMPT_TOOLKIT_NO_CPR="1")
    for typed, added in (
        ("enq", "ueue-test"),
        ("doct", "or"),
        (f"use {shell._queue[:-4]}", shell._queue[-4:]),
        ("queue cre", "ate"),
        (f"message show {shell._queue} {message['id'][:8]}", message["id"][8:]),
    ):
        process.send(f"{typed}\t")
        process.expect_exact(added)
        process.sendcontrol("c")
        process.expect_exact(PROMPT)
    until_prompt(process, f"use {shell._queue}")
    process.send(f"id {message['id'][:8]}\t")
    process.expect_exact(message["id"][8:])
    process.sendcontrol("c")
    process.expect_exact(PROMPT)
    process.sendline("q")
    assert ended(process) == 0
