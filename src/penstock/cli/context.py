"""``penstock context``: names for the servers that a user works with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from penstock.cli.arguments import complete_context
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.output import Output, safe
from penstock.client.credentials import ProfileError, read_profile
from penstock.client.endpoint import (
    Context,
    Contexts,
    EndpointError,
    contexts_file,
    endpoint_url,
    read_contexts,
    write_contexts,
)

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each context.")


@click.group("context", cls=CommandGroup)
def command() -> None:
    """Name the servers that you work with, and choose one.

    A context is an endpoint with a region and a profile of ~/.aws; keys stay in the profile. Commands take their
    server from --endpoint-url or --context, then from AWS_ENDPOINT_URL_SQS or AWS_ENDPOINT_URL, then from the context
    in use, then from the profile, and else use http://127.0.0.1:9324.

    \b
    Examples:
      penstock context create prod --endpoint-url https://queues.example.com --profile prod
      penstock context create aws-eu --endpoint-url aws --region eu-central-1
      penstock context use prod
      penstock context set prod --region eu-west-1
      penstock queue ls --context aws-eu
    """


@command.command("create")
@click.argument("name")
@click.option("--endpoint-url", "url", required=True, metavar="URL", help='Server; "aws" is Amazon SQS.')
@click.option("--region", metavar="NAME", help="Region.")
@click.option("--profile", metavar="NAME", help="Profile in ~/.aws with the keys.")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="Certificate authorities (PEM) of the server's certificate.",
)
@click.option("--replace", is_flag=True, help="Replace a context of this name.")
@click.option("--use", "in_use", is_flag=True, help="Use it from now on; the first one is used anyway.")
@_json_option
def add(
    name: str,
    url: str,
    region: str | None,
    profile: str | None,
    ca_file: Path | None,
    replace: bool,
    in_use: bool,
    as_json: bool,
) -> None:
    """Add a server.

    \b
    Examples:
      penstock context create local --endpoint-url http://127.0.0.1:9324
      penstock context create prod --endpoint-url https://queues.example.com --region eu-central-1 --use
      penstock context create lab --endpoint-url https://10.0.0.5:9324 --ca-file ca.pem
    """
    contexts = _read()
    if name in contexts.by_name and not replace:
        raise Failure(f'there is a context "{name}" already: give --replace, or another name')
    added = _checked(Context(url, region, profile, None if ca_file is None else str(ca_file)))
    current = name if in_use or contexts.current is None else contexts.current
    write_contexts(Contexts(current, contexts.by_name | {name: added}))
    _report(
        as_json, name, current, f'added "{name}"' + (", which is used from now on" if current == name else "")
    )


@command.command("set")
@click.argument("name", shell_complete=complete_context)
@click.option("--endpoint-url", "url", metavar="URL", help='Server; "aws" is Amazon SQS.')
@click.option("--region", metavar="NAME", help="Region.")
@click.option("--profile", metavar="NAME", help="Profile in ~/.aws with the keys.")
@click.option(
    "--ca-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="Certificate authorities (PEM) of the server's certificate.",
)
@click.option("--no-region", is_flag=True, help="Remove the region.")
@click.option("--no-profile", is_flag=True, help="Remove the profile.")
@click.option("--no-ca-file", is_flag=True, help="Remove the certificate authorities.")
@_json_option
def set_(
    name: str,
    url: str | None,
    region: str | None,
    profile: str | None,
    ca_file: Path | None,
    as_json: bool,
    **removed: bool,
) -> None:
    """Change a server. What is not given stays as it is, and so does which server is in use.

    \b
    Examples:
      penstock context set prod --endpoint-url https://queues.example.org
      penstock context set prod --profile ops --no-region
    """
    contexts = _read()
    _need(contexts, name)
    given = {
        "endpoint": url,
        "region": region,
        "profile": profile,
        "ca_file": None if ca_file is None else str(ca_file),
    }
    changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    for flag in (flag for flag, is_given in removed.items() if is_given):
        if (field := flag.removeprefix("no_")) in changes:
            option = field.replace("_", "-")
            raise click.UsageError(f"give either --{option} or --no-{option}")
        changes[field] = None
    if not changes:
        raise click.UsageError("nothing to change: give --endpoint-url, --region, --profile or --ca-file")
    changed = _checked(contexts.by_name[name]._replace(**changes))
    changed_contexts = contexts._replace(by_name=contexts.by_name | {name: changed})
    write_contexts(changed_contexts)
    Output(as_json).result(f'changed "{name}"', **_facts(name, changed_contexts))


@command.command("use")
@click.argument("name", shell_complete=complete_context)
@_json_option
def use(name: str, as_json: bool) -> None:
    """Use a server from now on, where no flag and no variable says otherwise.

    \b
    Examples:
      penstock context use prod
    """
    contexts = _read()
    _need(contexts, name)
    write_contexts(contexts._replace(current=name))
    _report(as_json, name, name, f'"{name}" is used from now on')


@command.command("ls")
@_json_option
def ls(as_json: bool) -> None:
    """List the servers; the one in use is marked.

    \b
    Examples:
      penstock context ls
      penstock context ls --json | jq -r 'select(.current) | .endpoint'
    """
    out, contexts = Output(as_json), _read()
    if as_json:
        out.json_lines(_facts(name, contexts) for name in sorted(contexts.by_name))
    elif not contexts.by_name:
        out.note('no contexts: "penstock context create" adds one')
    else:
        rows = (
            ["*" if name == contexts.current else "", name, context.endpoint, context.region, context.profile]
            for name, context in sorted(contexts.by_name.items())
        )
        out.table(["_", "NAME", "ENDPOINT", "REGION", "PROFILE"], rows)


@command.command("show")
@click.argument("name", required=False, shell_complete=complete_context)
@_json_option
def show(name: str | None, as_json: bool) -> None:
    """Show a server; without NAME, the one in use.

    \b
    Examples:
      penstock context show
      penstock context show prod --json | jq -r .endpoint
    """
    contexts = _read()
    if name is None and contexts.current is None:
        raise Failure('no context is in use: "penstock context use" chooses one')
    name = name or str(contexts.current)
    _need(contexts, name)
    out, context = Output(as_json), contexts.by_name[name]
    if as_json:
        out.json(_facts(name, contexts))
        return
    out.facts(
        [
            ("name", name),
            ("in use", "yes" if name == contexts.current else "no"),
            ("endpoint", context.endpoint),
            ("region", context.region),
            ("profile", context.profile),
            ("certificate authorities", context.ca_file),
        ]
    )


@command.command("delete")
@click.argument("name", shell_complete=complete_context)
@_json_option
def rm(name: str, as_json: bool) -> None:
    """Remove a server from the list.

    \b
    Examples:
      penstock context delete lab
    """
    contexts = _read()
    _need(contexts, name)
    left = {other: context for other, context in contexts.by_name.items() if other != name}
    current = None if contexts.current == name else contexts.current
    write_contexts(Contexts(current, left))
    was_used = ", which was in use: none is now" if contexts.current == name else ""
    _report(as_json, name, current, f'removed "{name}"{was_used}')


def _report(as_json: bool, name: str, current: str | None, text: str) -> None:
    if as_json:
        Output(as_json).json({"name": name, "current": name == current})
    else:
        click.echo(safe(text))


def _facts(name: str, contexts: Contexts) -> dict[str, object]:
    given = {key: value for key, value in contexts.by_name[name]._asdict().items() if value is not None}
    return {"name": name, "current": name == contexts.current} | given


def _checked(context: Context) -> Context:
    try:
        endpoint_url(context.endpoint, context.region or "us-east-1")
        if context.profile is not None:
            read_profile(context.profile)
    except (EndpointError, ProfileError) as error:
        raise Failure(str(error)) from None
    return context


def _read() -> Contexts:
    try:
        return read_contexts()
    except EndpointError as error:
        raise Failure(str(error)) from None


def _need(contexts: Contexts, name: str) -> None:
    if name not in contexts.by_name:
        known = ", ".join(sorted(contexts.by_name)) or "none"
        raise Failure(f'there is no context "{name}" in {contexts_file()}; there are: {known}')
