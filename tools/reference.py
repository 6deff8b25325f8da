"""Writes docs/cli.md and the man page from the commands themselves.

.venv/bin/python tools/reference.py
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import click

from penstock import __version__
from penstock.cli import SECTIONS, main
from penstock.cli.server.setting_sections import show_all_settings
from penstock.server.settings.config import settings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"
MAN_PAGE = ROOT / "share" / "man" / "man1" / "penstock.1"

COMMON = {
    "endpoint_url",
    "context",
    "profile",
    "region",
    "as_json",
}  # flags that stand once, not with each command
Rows = list[tuple[str, str]]

SERVER = """\
Commands about queues and messages work on any server that speaks SQS, those about topics on one that speaks SNS.
They find it, its region and keys as the
AWS CLI does; keys come from variables, or from a profile in `~/.aws` (`aws_access_key_id`,
`credential_process` or `role_arn`). The server is the first that is given: `--endpoint-url`, `--context` or
`PENSTOCK_CONTEXT`, `AWS_ENDPOINT_URL_SQS`, `AWS_ENDPOINT_URL`, the context in use, `endpoint_url` of the
profile; else it is `http://127.0.0.1:9324`. `aws` instead of a URL is Amazon SQS in the region. A command that
Amazon SQS has no action for says that it needs Penstock; counts of Amazon SQS are approximate."""

OUTPUT = """\
In a terminal output is laid out and coloured, elsewhere it is plain text. `--json` prints one object, or for a
list one object a line, with the member names of the admin API; times are RFC 3339. Durations are given as
`30s`, `15m`, `2h` or `4d`, rates as `50/s` or `600/m`, queues by name, URL or ARN. Commands that destroy
something show how much it is and ask; `--yes` answers, and without a terminal it has to be given. An error is
one line on standard error; wrong usage also shows the right one."""

EXIT_CODES: Rows = [
    ("0", "It is done; a check found nothing."),
    (
        "1",
        "The server refused or could not be reached, a wait timed out, or a check failed (`doctor`: warnings).",
    ),
    ("2", "Wrong usage, or something that has to be changed first: trying again does not help."),
    ("3", "`doctor` found problems."),
    ("130", "Interrupted."),
]
VARIABLES: Rows = [
    ("AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS", "URL of the server."),
    ("AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN", "Keys to sign requests with."),
    ("AWS_PROFILE, AWS_REGION, AWS_DEFAULT_REGION", "Profile and region."),
    ("AWS_CA_BUNDLE", "File with certificate authorities (PEM) for HTTPS."),
    ("PENSTOCK_CONTEXT", "Name of a context."),
    ("PENSTOCK_…", "Settings of the server: see `penstock serve --help-all`."),
    ("NO_COLOR", "If it is set, nothing is coloured."),
]
FILES: Rows = [
    ("~/.config/penstock/contexts.json", "Contexts; no secrets."),
    ("~/.aws/config, ~/.aws/credentials", "Profiles with keys and regions."),
]


class Reference(NamedTuple):
    """Everything about one command."""

    path: str  # "penstock queue ls"
    usage: str
    prose: list[str]  # paragraphs
    blocks: Rows  # a title such as "Examples", and lines as they are
    options: Rows
    has_target: bool  # it takes the common options


def references(command: click.Command, ctx: click.Context) -> Iterator[Reference]:
    """Yields the references of a command and of those below it."""
    show_all_settings(ctx)
    formatter = click.HelpFormatter(width=10_000)
    command.format_usage(ctx, formatter)
    usage = formatter.getvalue().removeprefix("Usage: ").strip()
    prose, blocks = _parts(inspect.cleandoc(command.help or ""))
    names = {param.name for param in command.params}
    options = [
        param for param in command.params if isinstance(param, click.Option) and param.name not in COMMON
    ]
    records = [record for option in options if (record := option.get_help_record(ctx))]
    yield Reference(ctx.command_path, usage, prose, blocks, records, names >= COMMON)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            if not below.hidden:
                yield from references(below, click.Context(below, info_name=name, parent=ctx))


def _parts(help: str) -> tuple[list[str], Rows]:
    prose, blocks = [], []
    for paragraph in help.split("\n\n"):
        if paragraph.startswith("\b"):
            title, _, lines = paragraph.lstrip("\b\n").partition("\n")
            blocks.append((title.rstrip(":"), textwrap.dedent(lines).rstrip()))
        else:
            prose.append(" ".join(paragraph.split()))
    return prose, blocks


def sections() -> Iterator[tuple[str, list[Reference]]]:
    ctx = click.Context(main, info_name="penstock")
    for title, names in SECTIONS.items():
        found: list[Reference] = []
        for name in names:
            command = main.get_command(ctx, name)
            assert command is not None
            if command.name == name:  # not a second name of one
                found += references(command, click.Context(command, info_name=name, parent=ctx))
        yield title, found


def common_options() -> Rows:
    ctx = click.Context(main, info_name="penstock")
    wait = main.get_command(ctx, "wait")
    assert wait is not None
    return [
        record for param in wait.params if param.name in COMMON and (record := param.get_help_record(ctx))
    ]


# -- Markdown ----------------------------------------------------------------------------------------------------


def page() -> str:
    parts = [
        "# The command line",
        "<!-- Written by `tools/reference.py` (`make docs`) from the help of the commands. -->",
        "Every command explains itself: `penstock queue ls --help`. `man penstock` has the same in one page, and "
        "[completion](#penstock-completion) offers commands and queue names on the Tab key.",
        "\n".join(
            f"- [{title}](#{_anchor(title)})"
            for title in ["Servers and keys", "Output", "Exit codes", *SECTIONS]
        ),
        f"## Servers and keys\n\n{SERVER}",
        _table("option", common_options()),
        _table("variable", VARIABLES),
        f"## Output\n\n{OUTPUT}",
        f"## Exit codes\n\n{_table('code', EXIT_CODES)}",
    ]
    for title, found in sections():
        parts.append(f"## {title}")
        parts += (_markdown(reference) for reference in found)
    return "\n\n".join(parts) + "\n"


def _markdown(reference: Reference) -> str:
    parts = [f"### {reference.path}", *map(_wrapped, reference.prose), f"```text\n{reference.usage}\n```"]
    for title, lines in reference.blocks:
        parts.append(
            f"```sh\n{lines}\n```" if title.startswith("Example") else f"{title}:\n\n```sh\n{lines}\n```"
        )
    options = reference.options
    if reference.path in ("penstock serve", "penstock check"):
        flags = {setting.flag for setting in settings().values()}
        options = [(name, text) for name, text in options if re.split(r"[ /]", name)[0] not in flags]
        parts.append("All settings are flags: [configuration](configuration.md#settings).")
    if options:
        parts.append(_table("option", options))
    if reference.has_target:
        parts.append("Also takes the [options of a server](#servers-and-keys) and `--json`.")
    return "\n\n".join(parts)


def _table(heading: str, rows: Rows) -> str:
    lines = [f"| {heading} | meaning |", "|---|---|"]
    for name, text in rows:
        code = f"`{name}`".replace("|", "\\|")
        lines.append(f"| {code} | {_escaped(text)} |")
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(_escaped(text), 120, break_on_hyphens=False, break_long_words=False)


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)([|<>*])", r"\\\1", text)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


# -- the man page ------------------------------------------------------------------------------------------------


def man_page() -> str:
    parts = [
        '.\\" Written by tools/reference.py from the help of the commands.',
        f'.TH PENSTOCK 1 "" "penstock {__version__}"',
        ".SH NAME\npenstock \\- a message broker for Amazon SQS clients, and its command line",
        ".SH SYNOPSIS\n.B penstock\n[\\fIcommand\\fR] [\\fIoptions\\fR] [\\fIarguments\\fR]",
        f".SH DESCRIPTION\n{_roff(main.help.partition(chr(8))[0] if main.help else '')}",
        f".SH SERVERS AND KEYS\n{_roff(SERVER)}\n{_list(common_options())}",
        f".SH OUTPUT\n{_roff(OUTPUT)}",
    ]
    for title, found in sections():
        parts.append(f'.SH "{title.upper()}"')
        parts += map(_man, found)
    parts.append(f".SH EXIT STATUS\n{_list(EXIT_CODES)}")
    parts.append(f".SH ENVIRONMENT\n{_list(VARIABLES)}")
    parts.append(f".SH FILES\n{_list(FILES)}")
    return "\n".join(parts) + "\n"


def _man(reference: Reference) -> str:
    parts = [f'.SS "{_roff(reference.path)}"', f".B {_roff(reference.usage)}"]
    parts += (f".PP\n{_roff(paragraph)}" for paragraph in reference.prose)
    for title, lines in reference.blocks:
        literal = "\n".join(_roff(line) for line in lines.splitlines())
        parts.append(f".PP\n{_roff(title)}:\n.RS 4\n.nf\n{literal}\n.fi\n.RE")
    if reference.options:
        parts.append(_list(reference.options))
    return "\n".join(parts)


def _list(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f".TP\n.B {_roff(name)}\n{_roff(text)}" for name, text in rows)


def _roff(text: str) -> str:
    text = text.replace("`", "").replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").strip()
    text = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found[0]):04X}]", text)
    # At the beginning of a line, these would be requests.
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    MAN_PAGE.parent.mkdir(parents=True, exist_ok=True)
    MAN_PAGE.write_text(man_page(), encoding="utf-8")
