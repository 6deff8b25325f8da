"""``penstock env``: the environment variables with which a client acts as a user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping

import click

from penstock.auth.identity.access_keys import decrypted_secret
from penstock.auth.identity.admin import find_user
from penstock.cli.failure import Failure
from penstock.cli.security.identity import CredentialsFile, account_option, with_file


def _lines(line: Callable[[str, str], str]) -> Callable[[Mapping[str, str]], str]:
    return lambda values: "\n".join(line(name, value) for name, value in values.items())


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _powershell_quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_FORMATS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "sh": _lines(lambda name, value: f"export {name}={shlex.quote(value)}"),
    "fish": _lines(lambda name, value: f"set -gx {name} {_fish_quoted(value)}"),
    "powershell": _lines(lambda name, value: f"$env:{name} = {_powershell_quoted(value)}"),
    "dotenv": _lines(lambda name, value: f"{name}={value}"),
    "json": lambda values: json.dumps(values, indent=2),
}


@click.command("env")
@click.argument("name")
@account_option
@click.option("--region", metavar="REGION", help="AWS_DEFAULT_REGION.  [the broker's]")
@click.option("--url", metavar="URL", help="AWS_ENDPOINT_URL.  [public_url, or where the broker listens]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(_FORMATS)),
    default="sh",
    show_default=True,
    help="Output format.",
)
@with_file
def command(
    file: CredentialsFile, name: str, account: str | None, region: str | None, url: str | None, format_: str
) -> None:
    """Print what a client needs to call the broker as this user: key, secret, region and URL.

    The newest active key is printed. The command needs read access to the credentials file and the root key.

    \b
    Examples:
      eval "$(penstock env alice)"
      penstock env alice --format fish | source
      penstock env worker --format dotenv --url https://queues.example.com > worker.env
    """
    found = find_user(file.read(), name, account)
    active = [key for key in found.keys if key.active]
    if not active:
        raise Failure(f'"{name}" has no active key: create one with penstock user rotate')
    config = file.config
    values = {
        "AWS_ACCESS_KEY_ID": active[-1].id,
        "AWS_SECRET_ACCESS_KEY": decrypted_secret(file.root_key(), active[-1]),
        "AWS_DEFAULT_REGION": region or config.region,
        "AWS_ENDPOINT_URL": url or config.endpoint_url(config.addresses[0]),
    }
    click.echo(_FORMATS["json" if file.out.as_json else format_](values))
