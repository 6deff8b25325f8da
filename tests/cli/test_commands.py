"""The command line: fast help, errors of one line, exit codes for scripts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from penstock import __version__
from penstock.cli import main
from penstock.cli.server.setting_sections import MOST_USED, SECTIONS
from penstock.server.settings.config import settings
from support.process import ServerProcess
from support.rows import every_row
from support.sqs import sqs_client
from support.texts import says

ROOT = Path(__file__).parent.parent.parent


def penstock(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=dict(environment))


def test_version() -> None:
    assert penstock("--version").output == f"penstock {__version__}\n"


def test_help_names_the_commands_and_shows_examples() -> None:
    text = penstock("--help").output
    for part in ("serve", "health", "check", "Examples:", "penstock serve --memory --port 0"):
        assert part in text


def test_without_a_command_and_a_terminal_the_help_is_an_error() -> None:
    result = penstock()
    assert (result.exit_code, result.stdout) == (2, "") and "Queues:" in result.stderr


HEAVY = {
    "asyncio", "cryptography", "httptools", "msgspec", "penstock.server.settings.config", "prompt_toolkit",
    "regex", "rich", "sqlite3", "uvloop",
}  # fmt: skip


def loaded(*arguments: str, **environment: str) -> tuple[int, set[str]]:
    """Exit code of a command, and which heavy modules it imported."""
    script = (
        "import sys; from penstock.cli import main\n"
        f"try: main({list(arguments)!r})\n"
        "except SystemExit as end: code = end.code\n"
        f"print(code, *sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    code, *modules = done.stderr.splitlines()[-1].split()
    return int(code), set(modules)


@every_row("command", ["", "queue", "queue ls", "redrive start", "wait", "context", "completion", "worker"])
def test_help_does_not_load_the_server(command: str) -> None:
    assert loaded(*command.split(), "--help") == (0, set())


def test_health_loads_neither_server_nor_settings() -> None:
    assert loaded("health", "--url", "http://127.0.0.1:1") == (1, set())


@pytest.mark.parametrize(
    "command", ["queue ls", "queue ls --json", "queue create started", "wait", "redrive ls"]
)
def test_commands_on_a_server_start_without_heavy_modules(broker: ServerProcess, command: str) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    code, modules = loaded(*command.split(), AWS_ENDPOINT_URL=broker.url, **keys)
    assert (code, modules) == (0, {"httptools"})  # of the client, and cheaper to load than http.client


def test_every_setting_is_a_flag_with_its_variable_in_the_help_of_all() -> None:
    text = " ".join(penstock("serve", "--help-all").output.split())
    for setting in settings().values():
        assert f" {setting.flag}" in text and setting.variable in text
    assert "Other settings" not in text, "list new settings in cli/server/setting_sections.py"


def test_the_help_of_serve_shows_ten_settings_and_where_the_rest_is() -> None:
    text = " ".join(penstock("serve", "--help").output.split())
    _, _, options = text.partition("Options:")
    shown = {setting.name for setting in settings().values() if re.search(rf"{setting.flag}[ /]", options)}
    assert shown == set(MOST_USED) and len(shown) == 10
    assert f"All {len(settings())} settings: " in text and "serve --help-all" in text


def test_the_sections_of_settings_are_those_of_the_documentation() -> None:
    documented: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "docs/configuration.md").read_text().splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif found := re.match(r"\| `(\w+)` `--", line):
            documented.setdefault(heading, []).append(found[1])
    assert {title: sorted(names) for title, names in SECTIONS.items()} == {
        title: sorted(names) for title, names in documented.items()
    }


BAD_PORT = '"x" port --port 0 65535'
NO_FILE = "config /nowhere --config No such file"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", "x"], BAD_PORT),
        (["serve", "--config", "/nowhere"], NO_FILE),
        (["check", "/nowhere"], NO_FILE),
        (["health", "--config", "/nowhere"], NO_FILE),
        (["health", "--url", "nonsense"], '"nonsense" --url http://127.0.0.1:9324'),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_status_2(arguments: list[str], words: str) -> None:
    result = penstock(*arguments)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, "")
    says(result.stderr, "penstock:", *words.split())


def test_check_prints_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        'port = 1234\nquota_bytes = 1000\nidle_timeout = "1.5m"\n'
        '[queues.a]\ndead_letter = {queue = "b", max_receives = 2}\n[queues.b.tags]\nx = "y"'
    )
    result = penstock("check", str(file), PENSTOCK_REGION="eu-west-1")
    lines = result.output.splitlines()
    assert result.exit_code == 0
    assert lines[0] == "in order: 4 settings and 2 declared queues"
    found = [line.split() for line in lines]
    assert ["*", "port", "1234", str(file)] in found
    assert ["*", "region", "eu-west-1", "PENSTOCK_REGION"] in found
    assert ["*", "quota_bytes", "1000", str(file)] in found
    assert ["*", "idle_timeout", "90s", str(file)] in found, "with units, as it could be given"
    assert ["memory_budget", "96MB"] in found, "a default"
    assert "queue a" in lines and "queue b" in lines and "  tag x = y" in lines
    assert any("arn:aws:sqs:eu-west-1:000000000000:b" in line for line in lines)
    shown = json.loads(penstock("check", str(file), "--json", PENSTOCK_REGION="eu-west-1").output)
    assert shown["verdict"] == lines[0]
    assert shown["settings"]["idle_timeout"] == {"value": "90s", "given": str(file)}
    assert shown["settings"]["credentials"] == {"value": None, "given": None}
    assert [queue["name"] for queue in shown["queues"]] == ["a", "b"]
    assert shown["queues"][1]["tags"] == {"x": "y"}


@pytest.mark.parametrize(
    "text",
    [f"port = {'[' * 5000}{']' * 5000}", f"port{'.a' * 5000} = 1", f"queues.q.Policy{'.a' * 5000} = 1"],
    ids=["arrays", "a setting", "a policy"],
)
def test_check_of_a_file_that_nests_too_deep_is_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    result = penstock("check", str(file))
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, "")
    says(result.stderr, str(file), "nested", "32")


def test_check_takes_the_flags_of_serve_and_says_which_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("port = 1234\nprocesses = 2\n")
    result = penstock(
        "check", "--config", str(file), "--port", "99", PENSTOCK_PORT="98", PENSTOCK_PROCESSES="3"
    )
    found = [line.split() for line in result.output.splitlines()]
    assert ["*", "port", "99", "--port"] in found
    assert ["*", "processes", "3", "PENSTOCK_PROCESSES"] in found
    both = penstock("check", str(file), "--config", str(file))
    assert both.exit_code == 2
    says(both.stderr, "config file", "once")


@pytest.mark.parametrize(
    "arguments, variables, text, where",
    [
        (("--workers", "3"), {}, "", "--workers"),
        ((), {"PENSTOCK_WORKERS": "3"}, "", "PENSTOCK_WORKERS"),
        ((), {}, "workers = 3\n", "penstock.toml"),
    ],
    ids=["flag", "variable", "file"],
)
def test_a_former_name_of_a_setting_works_and_warns(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], text: str, where: str
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    done = penstock("check", str(file), *arguments, **variables)
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith("* ")]
    assert row[1:3] == ["processes", "3"] and row[3].endswith(where)
    says(done.stderr, "warning", "workers", where, "processes")


def test_a_setting_is_not_given_under_both_names() -> None:
    done = penstock("check", "--workers", "3", "--processes", "4")
    assert done.exit_code == 2
    says(done.stderr, "processes", "twice", "--workers")


def test_check_looks_for_dead_letter_queues_in_the_store(tmp_path: Path) -> None:
    """It does so like serve: one that is neither declared nor there is refused, even if a server uses the store."""
    data, file = tmp_path / "data", tmp_path / "penstock.toml"
    file.write_text(f'data = "{data}"\n[queues.orders]\ndead_letter = {{queue = "dead", max_receives = 3}}\n')
    missing = penstock("check", str(file))
    assert missing.exit_code == 2 and missing.stderr.count("\n") == 1
    assert "queues.orders" in missing.stderr and "does not exist" in missing.stderr
    assert not data.exists(), "nothing is created"
    with ServerProcess("--data", str(data), "--shards", "3") as server:
        sqs_client(server.url, "000000000000").create_queue(QueueName="dead")
        assert penstock("check", str(file)).exit_code == 0
        server.stop()
    before = sorted(path.name for path in data.rglob("*"))
    assert penstock("check", str(file)).exit_code == 0
    assert sorted(path.name for path in data.rglob("*")) == before
    file.write_text(file.read_text().replace("[queues.orders]", '[queues."orders.fifo"]'))
    other_kind = penstock("check", str(file))
    assert other_kind.exit_code == 2 and "must be same type" in other_kind.stderr


@pytest.mark.parametrize(
    "setting", ["credentials", "tls_certificate", "root_key_file", "cluster_secret_file"]
)
def test_a_file_that_cannot_be_read_is_one_line_for_check_and_serve(tmp_path: Path, setting: str) -> None:
    """A directory in its place, since root may read every file."""
    file, place = tmp_path / "penstock.toml", tmp_path / "place"
    place.mkdir()
    (tmp_path / "key.pem").write_text("x")
    more = {
        "credentials": f'root_key_file = "{place}"\n',
        "tls_certificate": f'tls_key = "{tmp_path / "key.pem"}"\n',
        "cluster_secret_file": 'store = "postgresql://x@127.0.0.1:1/x"\nadvertise = "127.0.0.1:9999"\n',
    }
    file.write_text(f'{setting} = "{place}"\ndata = "{tmp_path / "data"}"\nport = 0\n{more.get(setting, "")}')
    for name in ("check", "serve"):
        command = [sys.executable, "-m", "penstock", name, "--config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("penstock: ") and done.stderr.count("\n") == 1, done.stderr
        assert str(place) in done.stderr


def test_check_finds_an_invalid_queue(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[queues.a]\nDelaySeconds = 901")
    result = penstock("check", str(file))
    assert result.exit_code == 2
    assert "queues.a" in result.stderr and "DelaySeconds" in result.stderr


class Page:
    status = 200
    body = b'{"status": "ready"}'


@pytest.fixture
def page() -> Iterator[tuple[Page, str]]:
    shown = Page()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/health/ready"
            self.send_response(shown.status)
            self.end_headers()
            self.wfile.write(shown.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield shown, str(server.server_port)
    server.shutdown()
    server.server_close()


def test_health_of_a_ready_server(page: tuple[Page, str]) -> None:
    _, port = page
    assert penstock("health", "--url", f"http://127.0.0.1:{port}").exit_code == 0
    assert penstock("health", PENSTOCK_PORT=port).output == "ready\n"
    assert penstock("health", PENSTOCK_PORT=port, PENSTOCK_HOST="0.0.0.0").exit_code == 0


def test_health_of_a_server_that_refuses_sends(page: tuple[Page, str]) -> None:
    shown, port = page
    shown.body = b'{"status": "ready", "sends": "accepted"}'
    assert penstock("health", PENSTOCK_PORT=port).output == "ready\n"
    shown.body = b'{"status": "ready", "sends": "refused: the disk is full"}'
    result = penstock("health", PENSTOCK_PORT=port)
    assert result.exit_code == 0, "restarting a container would not free any space"
    says(result.output, "ready", "sends", "refused: the disk is full")
    shown_json = json.loads(penstock("health", "--json", PENSTOCK_PORT=port).output)
    assert shown_json == {"status": "ready", "sends": "refused: the disk is full", "ready": True}


def test_health_uses_the_address_in_the_settings(page: tuple[Page, str], tmp_path: Path) -> None:
    _, port = page
    file = tmp_path / "penstock.toml"
    file.write_text(f'host = "0.0.0.0"\nport = {port}\n')
    assert penstock("health", "--config", str(file)).output == "ready\n"
    assert penstock("health", PENSTOCK_CONFIG=str(file)).output == "ready\n"
    file.write_text("port = 1\n")
    assert penstock("health", "--config", str(file), PENSTOCK_PORT=port).output == "ready\n", "as for serve"
    says(penstock("health", "--config", str(file)).stderr, "http://127.0.0.1:1")
    file.write_text('port = 1\ntls_certificate = "a"\ntls_key = "b"\n')
    says(penstock("health", "--config", str(file)).stderr, "https://127.0.0.1:1")


def test_health_of_a_server_that_is_not_ready(page: tuple[Page, str]) -> None:
    shown, port = page
    shown.status, shown.body = 503, json.dumps({"reasons": ["loading", "declaring"]}).encode()
    result = penstock("health", PENSTOCK_PORT=port)
    assert (result.exit_code, result.stderr) == (1, "not ready: loading; declaring\n")
    shown.body = b"<html>"
    assert penstock("health", PENSTOCK_PORT=port).exit_code == 1


@pytest.mark.parametrize("status", [200, 503])
def test_health_prints_no_control_characters_of_the_server(page: tuple[Page, str], status: int) -> None:
    shown, port = page
    hostile = "\x1b]0;owned\x07\x9b2J"
    shown.status, shown.body = status, json.dumps({"sends": hostile, "reasons": [hostile]}).encode()
    result = penstock("health", PENSTOCK_PORT=port)
    assert "owned" in result.output and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.output)


TOO_LONG = f"/tmp/{'x' * 300}/file"  # as a directory that may not be entered, it cannot even be examined


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--port", "0", "--data", TOO_LONG],
        ["serve", "--port", "0", "--keyring", TOO_LONG],
        ["serve", "--port", "0", "--memory", "--credentials", TOO_LONG],
        ["check", TOO_LONG],
        ["audit", TOO_LONG],
        ["user", "ls", "--credentials", TOO_LONG],
        ["key", "ls", "--keyring", TOO_LONG],
    ],
    ids=["data", "keyring", "credentials", "config", "audit", "user", "key"],
)
def test_a_path_that_cannot_be_used_is_one_line_and_status_2(arguments: list[str]) -> None:
    result = penstock(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("penstock: ") and result.stderr.count("\n") == 1
    assert "File name too long" in result.stderr


def test_health_without_a_server() -> None:
    result = penstock("health", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert "no response from" in result.stderr and "Traceback" not in result.stderr
    result = penstock("health", "--url", "http://127.0.0.1:1", "--json")
    assert result.exit_code == 1
    page = json.loads(result.output)
    assert page["ready"] is False and "no response from" in page["reasons"][0]


def leaves(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, *path, name)
        else:
            yield " ".join((*path, name)), found


def test_every_command_can_print_json() -> None:
    without = {
        name for name, found in leaves(main) if not any("--json" in each.opts for each in found.params)
    }
    assert without == {"serve", "completion"}
