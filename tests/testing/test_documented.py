"""docs/testing.md is true: its examples run, its recipes ask for what exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.client.api import ApiSession
from penstock.server.settings.load import load_config
from penstock.testing import Broker
from support.documents import ROOT, blocks
from support.process import ServerProcess

PAGE = ROOT / "docs/testing.md"
TEXT = PAGE.read_text()
PYTHON = blocks(PAGE, "python")


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_page_begins_with_six_lines() -> None:
    assert TEXT.index("```python") < 50
    assert PYTHON[0].count("\n") == 6


@pytest.mark.parametrize("example", PYTHON, ids=lambda text: re.findall(r"(?:def|class) (\w+)", text)[-1])
def test_an_example_in_python_runs(example: str, tmp_path: Path) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(example)
    if "asyncio.run" in example:
        done = run(str(file), folder=tmp_path)
    elif "unittest" in example:
        done = run("-m", "unittest", "-v", file.stem, folder=tmp_path)
        assert "Ran 1 test" in done.stderr
    else:
        done = run("-m", "pytest", "-W", "error", "-p", "no:cacheprovider", file.name, folder=tmp_path)
        assert "1 passed" in done.stdout
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_kind_of_example_is_there() -> None:
    kinds = ("(penstock", "unittest", "asyncio.run")
    assert [sum(kind in each for each in PYTHON) for kind in kinds] == [6, 1, 2]


def test_a_failure_looks_as_on_the_page() -> None:
    with Broker() as broker, broker.client() as client:
        queue = client.create_queue("orders")
        for body in ("one espresso", "two lattes", "three teas"):
            client.send_message(queue, body)
        client.delete_message(queue, client.receive_message(queue)[0].receipt_handle)
        client.receive_message(queue)
        broker.clock.advance(seconds=30)
        assert client.receive_message(queue)[0].body == "two lattes"
        with pytest.raises(AssertionError) as error:
            broker.assert_sent("orders", "one espresso", count=2)
    assert f"AssertionError: {error.value}\n" in blocks(PAGE, "")[0]


def test_a_failure_of_a_topic_looks_as_on_the_page() -> None:
    with Broker() as broker:
        topic = broker.topic("orders")
        topic.subscribe("kitchen", filter_policy={"drink": ["latte"]})
        topic.publish("one water", attributes={"drink": "water"})
        with pytest.raises(AssertionError) as error:
            broker.assert_delivered("orders", "kitchen")
    assert f"AssertionError: {error.value}\n" == blocks(PAGE, "")[1]


def names_of(table_after: str) -> set[str]:
    table = TEXT.partition(table_after)[2].split("\n\n")[1]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`([\w.]+)", row.split("|")[1])}


def test_the_tables_name_what_exists() -> None:
    broker = Broker()
    for name in names_of("## Assertions"):
        assert hasattr(broker, name), name
    for name in names_of("Assertions know what any client published"):
        assert hasattr(broker, name), name
    for name in names_of("## The clock"):
        assert hasattr(type(broker.clock), name.removeprefix("clock.")), name
    from penstock.testing import plugin

    assert names_of("## pytest") == {
        name
        for name, value in vars(plugin).items()
        if "fixture" in type(value).__name__.lower() and name[0] != "_"
    }


def test_the_requests_and_commands_of_the_page_work(tmp_path: Path) -> None:
    table = TEXT.partition("## Other languages")[2].partition("| to do")[2].split("\n\n")[0].splitlines()[2:]
    commands = blocks(PAGE, "sh")
    serve = next(each for each in commands if each.startswith("penstock serve")).split()[2:]
    serve[serve.index("--port") + 1] = "0"
    with ServerProcess(*serve) as server:
        curl = next(each for each in commands if each.startswith("curl")).strip()
        curl = curl.replace("http://127.0.0.1:9324", server.url).replace("curl ", "curl -sS --fail ", 1)
        done = subprocess.run(curl, shell=True, capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["ahead_s"] > 590, done.stderr
        api = ApiSession(server.url, "us-east-1")
        for row in table:
            request, command = (cell.strip() for cell in row.split("|")[2:4])
            (method, path), body = request.split("`")[1].split(), re.search(r"`(\{.*\})`", request)
            members = json.loads(body[1]) if body else None
            assert api.admin(method, path.removeprefix("/admin/v1"), body=members)
            line = ["-m", *command.strip("`").split(), "--endpoint-url", server.url]
            done = run(*line, folder=tmp_path)
            assert done.returncode == 0, done.stderr
        assert len(table) == 7
        api.close()


def container_commands() -> list[list[str]]:
    """What each recipe has the container run."""
    java = re.search(r"withCommand\((.+?)\)", blocks(PAGE, "java")[0])
    node = re.search(r"withCommand\(\[(.+?)\]\)", blocks(PAGE, "js")[0])
    go = re.search(r"WithCmd\((.+?)\)", blocks(PAGE, "go")[0])
    assert java and node and go
    compose: dict[str, Any] = yaml.safe_load(blocks(PAGE, "yaml")[0])
    found = [json.loads(f"[{each[1]}]") for each in (java, node, go)]
    return [*found, compose["services"]["penstock"]["command"]]


def test_the_containers_run_what_is_tested_here() -> None:
    """The image sets these variables, and its entry point is ``penstock serve``."""
    assert container_commands() == [["--memory", "--test-clock"]] * 4
    image = (ROOT / "deploy/Dockerfile").read_text()
    assert 'ENTRYPOINT ["penstock", "serve"]' in image
    variables = dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", image))
    config = load_config({"memory": "true", "test_clock": "true"}, variables)
    assert config.test_clock and not config.addresses[0].is_loopback


def test_a_program_in_the_container_turns_the_clock(tmp_path: Path) -> None:
    """It starts as in the image: on every interface. The command in the container uses the loopback interface."""
    exec_commands = [
        re.search(r'"penstock", "test", "advance", "(\w+)"', blocks(PAGE, language)[0])
        for language in ("java", "js", "go")
    ]
    assert [found and found[1] for found in exec_commands] == ["10m"] * 3
    with ServerProcess("--host", "0.0.0.0", "--memory", "--test-clock") as server:
        done = run(
            "-m", "penstock", "test", "advance", "10m", "--endpoint-url", server.url, folder=tmp_path
        )  # fmt: skip
        assert done.stdout.strip().endswith("10m ahead, running"), done.stderr
