"""Runs the commands for users, roles and policies in a temporary directory."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner, Result

from penstock.auth.encryption.root_key import read_root_key_file
from penstock.auth.identity import Credentials
from penstock.cli import main
from penstock.testing.clock import ManualClock
from support.identities import allow, document

HOME = "000000000000"
QUEUE = f"arn:aws:sqs:us-east-1:{HOME}:orders"


class IdentityCommands:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "credentials.toml"
        self.key_path = folder / "penstock-root.key"

    def __call__(self, *arguments: str, given: str | bytes = "", **environment: str) -> Result:
        """``given`` is passed on standard input."""
        variables = {"PENSTOCK_CREDENTIALS": str(self.path), **environment}
        return CliRunner().invoke(main, arguments, env=variables, input=given)

    def done(self, *arguments: str, **environment: str) -> str:
        """The output of a command that must succeed."""
        result = self(*arguments, **environment)
        assert result.exit_code == 0, result.output
        return result.stdout

    def failed(self, *arguments: str, **environment: str) -> str:
        """The one line of a command that must fail."""
        result = self(*arguments, **environment)
        assert result.exit_code == 2, result.output
        assert result.stderr.count("\n") == 1 and result.stdout == ""
        return result.stderr.removeprefix("penstock: ").strip()

    def user(self, name: str, *options: str) -> tuple[str, str]:
        """Add a user; returns key and secret."""
        return new_key(self.done("user", "create", name, *options))

    def credentials(self) -> Credentials:
        """Reads the file as a server does."""
        return Credentials(self.path, read_root_key_file(self.key_path), ManualClock())

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


def new_key(output: str) -> tuple[str, str]:
    found = re.fullmatch(r"AWS_ACCESS_KEY_ID=(AKIA\w{16})\nAWS_SECRET_ACCESS_KEY=(\S{40})\n", output)
    assert found is not None, output
    return found[1], found[2]


SEND = document(allow("sqs:SendMessage", Resource=QUEUE))
