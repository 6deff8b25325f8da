"""docs/authentication.md is true: its credentials file is valid, and its commands work in the order of the page."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.identity_commands import SEND
from penstock.auth.identity.file import parse_credentials
from penstock.auth.identity.principals import check_content
from penstock.auth.policy.vocabulary import builtin_policies
from penstock.cli import main
from support.documents import ROOT, blocks

PAGE = ROOT / "docs/authentication.md"


def test_the_credentials_file_of_the_page_is_one() -> None:
    (example,) = blocks(PAGE, "text")
    content = parse_credentials(example)
    check_content(content)
    assert content.accounts["000000000000"].roles["deployer"].max_session == 7200


def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("orders.json", "shipping.json"):
        Path(name).write_text(SEND)
    Path("policy-of-the-queue.json").write_text(SEND.replace('"Effect"', '"Principal": "*", "Effect"'))
    Path("secret.txt").write_text("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n")
    script = "\n".join(blocks(PAGE, "sh")).replace("\\\n", " ")
    commands = [line for line in script.splitlines() if re.match("penstock (user|role|policy) ", line)]
    assert len(commands) > 15
    for command in commands:
        command, _, file = command.partition(" < ")
        given = Path(file).read_text() if file else ""
        result = CliRunner().invoke(main, shlex.split(command)[1:], input=given)
        assert result.exit_code == 0, f"{command}: {result.output}"


def test_the_built_in_policies_are_all_on_the_page() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", PAGE.read_text(), re.MULTILINE) == list(builtin_policies())
