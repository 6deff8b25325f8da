"""Completion in shells: the scripts, and what Tab offers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pexpect
import pytest

from support.command_line import CommandLine
from support.texts import says


def offered(command: CommandLine, line: str) -> list[str]:
    """What bash would be offered for the last word."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-c", "from penstock.cli import main; main(prog_name='penstock')"],
        text=True, capture_output=True, check=False,
        env={
            **os.environ, **command.environment,
            "_PENSTOCK_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1),
        },
    )  # fmt: skip
    assert done.stderr == ""
    return [item.partition(",")[2] for item in done.stdout.splitlines() if item]


def test_commands_and_flags(penstock: CommandLine) -> None:
    assert offered(penstock, "penstock que") == ["queue"]
    assert {"ls", "show", "create", "set", "purge", "delete", "stat", "scale"} == set(
        offered(penstock, "penstock queue ")
    )
    assert "--endpoint-url" in offered(penstock, "penstock queue show --")
    assert offered(penstock, "penstock queue ls --kind ") == ["standard", "fifo", "dlq"]


def test_queue_names_come_from_the_server(penstock: CommandLine) -> None:
    for name in ("orders", "orders-dlq", "payments"):
        penstock.done("queue", "create", name)
    assert offered(penstock, "penstock queue show or") == ["orders", "orders-dlq"]
    assert offered(penstock, "penstock redrive start --to pay") == ["payments"]
    nowhere = CommandLine("http://127.0.0.1:1")
    assert offered(nowhere, "penstock queue show or") == []
    flag = f"penstock queue show --endpoint-url {penstock.endpoint} pay"
    assert offered(nowhere, flag) == ["payments"]


def test_names_that_a_shell_would_run_are_not_offered() -> None:
    class Hostile(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            names = ["orders", "o;reboot", "o$(reboot)", "o\nx", "o*", "o\x1b[2J"]
            body = json.dumps({"QueueUrls": [f"http://sqs/000000000000/{name}" for name in names]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        hostile = CommandLine(f"http://127.0.0.1:{server.server_port}")
        assert offered(hostile, "penstock queue show o") == ["orders"]
        server.shutdown()


def test_context_names(penstock: CommandLine) -> None:
    penstock.done("context", "create", "prod", "--endpoint-url", "aws")
    assert offered(penstock, "penstock context use p") == ["prod"]
    assert offered(penstock, "penstock queue ls --context p") == ["prod"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_the_shell(penstock: CommandLine, shell: str, tmp_path: Path) -> None:
    script = penstock.done("completion", shell)
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in script
    if found := shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([found, "-n", str(tmp_path / "script")], check=True)


def test_the_tab_key_in_bash(penstock: CommandLine, tmp_path: Path) -> None:
    penstock.done("queue", "create", "tabbed-queue")
    (tmp_path / "script").write_text(penstock.done("completion", "bash"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = pexpect.spawn(
        "bash", ["--norc", "--noprofile"], encoding="utf-8", timeout=30,
        env={**os.environ, **penstock.environment, "PATH": path, "TERM": "dumb", "PS1": "> "},
    )  # fmt: skip
    shell.expect_exact("> ")
    shell.sendline(f"source {tmp_path}/script && echo loaded")
    shell.expect_exact("\r\nloaded")
    shell.send("penstock queue stat tabb\t")
    shell.expect_exact("tabbed-queue")
    shell.sendline("visible")
    shell.expect_exact("\r\n0\r\n")
    shell.close()


def test_an_unknown_shell(penstock: CommandLine) -> None:
    result = penstock("completion", "tcsh")
    assert result.exit_code == 2
    says(result.stderr, "'tcsh'", "'bash', 'zsh', 'fish'")
