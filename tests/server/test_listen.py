"""Several listening addresses: how they are written, which are refused, how they are reported, and that all serve."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from penstock import __version__
from penstock.cli import main
from penstock.server.settings.address import Address, parse_address
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from penstock.server.startup_report import Recovered, banner, startup_report
from support.harness import get, run, serving
from support.process import ServerProcess
from support.rows import every_row
from support.texts import says

NOTHING = Recovered(0, 0, 0, 0.0)
A, B, C = Address("127.0.0.1", 9324), Address("127.0.0.1", 4566), Address("::1", 4566)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9324", A),
        ("[::1]:4566", C),
        ("[::]:0", Address("::", 0)),
        ("queues.internal:65535", Address("queues.internal", 65535)),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


WRONG = [
    "9324", "127.0.0.1", "127.0.0.1:", ":9324", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "::1:9324",
    "[::1]", "[1:2]:3", "[127.0.0.1]:x", "http://127.0.0.1:9324", "a b:1", "a:1/b",
]  # fmt: skip


@every_row("text", WRONG)
def test_one_line_names_the_invalid_address_and_what_is_expected(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({}, {"PENSTOCK_LISTEN": f"127.0.0.1:9324,{text}"})
    line = str(caught.value)
    says(line, f'invalid value "{text}"', "PENSTOCK_LISTEN", "127.0.0.1:9324")
    assert "\n" not in line


def test_an_address_may_be_given_once_but_free_ports_many_times() -> None:
    with pytest.raises(ConfigError, match=r'"127\.0\.0\.1:9324" for listen'):
        load_config({"listen": "127.0.0.1:9324,127.0.0.1:9324"}, {})
    assert len(load_config({"listen": "127.0.0.1:0,127.0.0.1:0"}, {}).addresses) == 2


def test_every_source_takes_several(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('listen = ["127.0.0.1:9324", "[::1]:4566"]')
    assert load_config({"config": str(file)}, {}).addresses == (A, C)
    assert load_config({}, {"PENSTOCK_LISTEN": "127.0.0.1:9324, 127.0.0.1:4566"}).addresses == (A, B)
    assert load_config({"listen": "127.0.0.1:4566"}, {}).addresses == (B,)
    assert load_config({}, {}).addresses == (A,)
    assert load_config({"host": "::1", "port": "4566"}, {}).addresses == (C,)


def test_the_stronger_source_counts_and_within_one_source_the_list(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('listen = ["[::1]:4566"]\nport = 1')
    flags = {"config": str(file)}
    assert load_config(flags, {}).addresses == (C,)
    assert load_config(flags | {"port": "4566"}, {}).addresses == (B,)
    assert load_config(flags, {"PENSTOCK_PORT": "4566"}).addresses == (B,)
    assert load_config(flags | {"listen": "127.0.0.1:9324"}, {"PENSTOCK_PORT": "4566"}).addresses == (A,)


def check(**environment: str) -> Result:
    return CliRunner().invoke(main, ["check"], env=environment)


def test_check_shows_them() -> None:
    shown = check(PENSTOCK_LISTEN="127.0.0.1:9324,[::1]:4566").output
    assert "127.0.0.1:9324, [::1]:4566  PENSTOCK_LISTEN\n" in shown


def test_the_flag_is_given_several_times_and_its_mistake_is_one_line() -> None:
    arguments = ["serve", "--listen", "127.0.0.1:0", "--listen", "nowhere"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert 'invalid value "nowhere" for listen (--listen)' in done.stderr


def test_the_report_shows_all_addresses_and_who_has_access() -> None:
    shown = startup_report(Config(memory=True), [A, C], NOTHING, "off", "none")
    assert shown["listening"] == "http://127.0.0.1:9324"
    assert shown["addresses"] == ["http://127.0.0.1:9324", "http://[::1]:4566"]
    says(str(shown["access"]), "open:", "from this machine only")
    assert "http://127.0.0.1:9324, http://[::1]:4566\n" in banner(shown)
    outside = startup_report(Config(memory=True), [A, Address("0.0.0.0", 4566)], NOTHING, "off", "none")
    assert "WARNING" in str(outside["access"]) and "port 4566 " in str(outside["access"])
    both = startup_report(
        Config(memory=True), [Address("::", 9324), Address("0.0.0.0", 4566)], NOTHING, "off", "none"
    )
    assert "ports 4566 or 9324 " in str(both["access"])
    assert "http://[::1]:9324 " in str(both["try"])
    assert both["console"] == "http://[::1]:9324/console/"
    assert "  console     http://[::1]:9324/console/\n" in banner(both)
    assert "console" not in startup_report(Config(memory=True, console=False), [A], NOTHING, "off", "none")


def test_a_second_address_of_the_listener_serves_and_closes_with_the_first() -> None:
    async def scenario() -> None:
        async with serving() as running:
            second = await running.listener.listen("127.0.0.1", 0)
            assert second != running.port
            for port in (running.port, second):
                running.port = port
                assert (await running.ask(get("/health/live"))).status == 200
        for port in (running.port, second):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0

    run(scenario)


def ask(url: str, path: str) -> tuple[int, dict[str, object]]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    page = json.loads(response.read())
    connection.close()
    return response.status, page


def test_a_server_serves_all_its_addresses() -> None:
    with ServerProcess("--memory", "--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0") as server:
        first, second = server.facts["addresses"]
        assert server.facts["listening"] == first != second
        for url in (first, second):
            assert ask(url, "/health")[0] == 200
            result = CliRunner().invoke(main, ["health"], env={"PENSTOCK_LISTEN": urlsplit(url).netloc})
            assert result.output == "ready\n"
        assert server.stop() == 0


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "penstock",
            "serve",
            "--memory",
            "--listen",
            f"127.0.0.1:0,127.0.0.1:{port}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    says(done.stderr, "penstock:", f"127.0.0.1:{port}", "another process")
    assert done.stderr.count("\n") == 1


def test_health_names_an_invalid_variable() -> None:
    done = CliRunner().invoke(main, ["health"], env={"PENSTOCK_LISTEN": "nowhere"})
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    says(done.stderr, "penstock:", '"nowhere"', "PENSTOCK_LISTEN", "127.0.0.1:9324", "--url")


def test_the_health_page_that_scripts_for_localstack_wait_for() -> None:
    async def scenario() -> None:
        async with serving() as running:
            page = await running.ask(get("/_localstack/health"))
            assert page.status == 200
            assert page.json() == {
                "services": {"test": "running"},
                "edition": "penstock",
                "version": __version__,
            }
            assert b'"test": "running"' in page.body, "people look for this text"
            running.health.expect("the store is being loaded")
            page = await running.ask(get("/_localstack/health"))
            assert page.status == 503
            assert b"running" not in page.body and b"available" not in page.body
            assert (await running.ask(get("/_localstack/health", method="HEAD"))).status == 503

    run(scenario)


@pytest.mark.parametrize(("flags", "printed"), [((), ""), (("--print-ready",), "Ready.\n")])
def test_ready_is_printed_on_request(flags: tuple[str, ...], printed: str) -> None:
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--memory",
        "--port",
        "0",
        "--log-format",
        "json",
        *flags,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    assert '"ready"' in process.stderr.readline()
    if printed:
        assert process.stdout.readline() == printed
    process.terminate()
    output, _ = process.communicate(timeout=20)
    assert output == ""
    assert process.returncode == 0
