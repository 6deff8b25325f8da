"""The benchmark notices wrong answers, and its figures are those of the rounds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmark is beside the package, not in it

from bench import document, load, poll_cases  # noqa: E402
from bench.client import CLIENTS, SENDERS  # noqa: E402
from bench.jobs import Done, Job, merged  # noqa: E402
from bench.load_client import ACCESS_KEY, REGION, SECRET_KEY, Signer, Wrong  # noqa: E402
from bench.payloads import body, md5, number_of  # noqa: E402
from bench.results import BARE_ECHO, PENSTOCK, CaseRecord, Results, SystemRecord  # noqa: E402
from bench.results import load as load_results  # noqa: E402
from bench.systems import Penstock  # noqa: E402


@pytest.fixture(scope="module")
def system() -> Iterator[Penstock]:
    system = Penstock("in memory", None)
    system.start()
    yield system
    system.stop()


def job(system: Penstock, kind: Any, queue: str, **more: Any) -> Job:
    return Job(kind=kind, url=system.url, pid=system.pid, queues=[queue], **more)


def at_once() -> None:
    """Does nothing, which is enough for a single generator process: there is no other to wait for."""


def test_what_is_sent_is_received_checked_and_deleted(system: Penstock) -> None:
    queue = system.create("send")
    sent = asyncio.run(load.send(job(system, "send", queue, count=40, connections=4), at_once))
    batches = job(system, "send", queue, count=40, connections=2, batch=10, first=40)
    sent_batches = asyncio.run(load.send(batches, at_once))
    drained = asyncio.run(load.drain(job(system, "drain", queue, count=80, connections=3), at_once))
    assert (sent.messages, sent.requests, len(sent.latencies)) == (40, 40, 40)
    assert (sent_batches.messages, sent_batches.requests) == (40, 4)
    assert drained.messages == 80
    assert not system.call("ReceiveMessage", {"QueueUrl": queue}).get("Messages")


@pytest.mark.parametrize("groups", [0, 1, 5])
def test_a_full_life(system: Penstock, groups: int) -> None:
    name = f"life-{groups}"
    queue = system.create(f"{name}.fifo", FifoQueue="true") if groups else system.create(name)
    done = asyncio.run(load.life(job(system, "life", queue, count=30, connections=4, groups=groups), at_once))
    assert done.messages == 30
    assert len(done.latencies) == 30


def test_polls_and_queues(system: Penstock) -> None:
    queue = system.create("wake")
    woken = asyncio.run(poll_cases.wake(job(system, "wake", queue, count=3), at_once))
    assert len(woken.latencies) == 3
    asked = Job(kind="queues", url=system.url, queues=["a", "b", "c"], connections=2)
    made = asyncio.run(load.create_queues(asked, at_once))
    assert made.messages == 3


def test_a_signature_is_what_botocore_makes_of_the_same_request() -> None:
    raw = Signer("localhost:9324").request("SendMessage", b'{"MessageBody":"x"}')
    head, _, payload = raw.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    headers = {name: value for name, value in lines if name not in ("Authorization", "Content-Length")}
    signature = dict(lines)["Authorization"].rpartition("=")[2]
    request = AWSRequest("POST", "http://localhost:9324/", headers, payload)
    request.context["timestamp"] = headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "sqs", REGION)
    canonical = signer.canonical_request(request)
    assert signature == signer.signature(signer.string_to_sign(request, canonical), request)


def test_wrong_answers_are_noticed() -> None:
    sent = Job(kind="send", url="", count=1)
    right = b'{"MessageId":"a","MD5OfMessageBody":"%b"}' % md5(body(0, 200)).encode()
    load.check_sends([(0, right)], sent)
    with pytest.raises(Wrong, match="does not fit"):
        load.check_sends([(1, right)], sent)
    with pytest.raises(Wrong, match="given twice"):
        load.check_sends([(0, right), (0, right)], sent)
    received = {"Body": body(7, 200), "MD5OfBody": md5(body(7, 200))}
    assert number_of(received, 200) == 7
    with pytest.raises(Wrong, match="not sent"):
        number_of({**received, "Body": body(7, 200)[:-1] + "?"}, 200)
    with pytest.raises(Wrong, match="MD5OfBody"):
        number_of({**received, "MD5OfBody": "0" * 32}, 200)


def test_processes_are_added_up() -> None:
    one = Done(messages=10, begun=1.0, ended=3.0, server_cpu=(5.0, 6.0), own_cpu=1.0, latencies=[0.1])
    two = Done(messages=20, begun=1.5, ended=3.5, server_cpu=(5.1, 6.2), own_cpu=0.5, latencies=[0.2, 0.3])
    both = merged([one, two])
    assert (both.messages, both.seconds, both.server_cpu) == (30, 2.5, (5.0, 6.2))
    assert both.latencies == [0.1, 0.2, 0.3]


def results() -> Results:
    case = CaseRecord(
        name="send", title="Send", headline="cpu_us",
        rounds={
            PENSTOCK: [{"cpu_us": 50.0, "rate": 9000.0}, {"cpu_us": 60.0, "rate": 8000.0}],
            BARE_ECHO: [{"cpu_us": 25.0, "rate": 20_000.0}, {"cpu_us": 20.0, "rate": 21_000.0}],
            "slow": [{"cpu_us": 500.0, "rate": 900.0}, {"cpu_us": 900.0, "rate": 800.0}],
        },
        failed={"broken": "status 500: <oops>"},
    )  # fmt: skip
    systems = [SystemRecord(name=PENSTOCK, version="1"), SystemRecord(name="gone", absent="no java")]
    return Results(
        mode="test", machine={"processor": "one"}, generator_processes=1, systems=systems, cases=[case]
    )


def test_figures_are_medians_and_ratios_of_rounds(tmp_path: Path) -> None:
    results().save(tmp_path / "results.json")
    case = load_results(tmp_path / "results.json").cases[0]
    assert case.value(PENSTOCK, "cpu_us") == (55.0, 50.0, 60.0)
    assert case.ratio("slow", PENSTOCK) == (12.5, 10.0, 15.0)
    assert case.ratio(PENSTOCK, BARE_ECHO) == (2.5, 2.0, 3.0)


def test_the_key_figures_compare_with_an_earlier_checkout_and_with_the_best_peer() -> None:
    life = CaseRecord(
        name="life", title="Life", headline="cpu_us",
        rounds={PENSTOCK: [{"cpu_us": 75.0}], "Penstock (old)": [{"cpu_us": 100.0}]},
    )  # fmt: skip
    wake = CaseRecord(
        name="wake", title="Wake", headline="p50_ms",
        rounds={PENSTOCK: [{"p50_ms": 1.0}], "slow": [{"p50_ms": 4.0}], "fast": [{"p50_ms": 2.0}]},
    )  # fmt: skip
    systems = [
        SystemRecord(name=PENSTOCK, before="Penstock (old)"),
        *(SystemRecord(name=name, is_peer=True) for name in ("slow", "fast")),
    ]
    run = Results(mode="test", machine={}, generator_processes=1, systems=systems, cases=[life, wake])
    assert {title: value.median for title, value in run.key_figures()} == {
        "Life: CPU of Penstock / of Penstock (old)": 0.75,
        "Wake: latency of Penstock / of fast": 0.5,
    }


def test_the_document_gets_table_and_chart() -> None:
    text = document.figures(results())
    assert "| slow | 700 (500-900) | 32.5 (20.0-45.0) | 12.5 (10.0-15.0) |" in text
    assert "| Send: CPU of Penstock / of the bare echo | 2.50 (2.00-3.00) |" in text
    assert "absent: no java" in text
    assert "broken failed: status 500: &lt;oops>" in text
    drawing = xml.etree.ElementTree.fromstring(document.drawn(results()))
    assert (
        len([dot for dot in drawing.iter("{http://www.w3.org/2000/svg}circle") if dot.get("r") == "5"]) == 6
    )


def test_the_document_has_its_markers() -> None:
    text = document.DOCUMENT.read_text()
    assert text.count(document.BEGIN) == text.count(document.END) == 1


def test_the_command_measures_and_writes_its_results(tmp_path: Path) -> None:
    flags = ["--quick", "--only", "send", "--systems", "memory,bare,echo", "--rounds", "1"]
    path = tmp_path / "results.json"
    command = [sys.executable, "-m", "bench", *flags, "--results", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    outcome = load_results(path)
    assert outcome.cases[0].failed == {}
    assert outcome.cases[0].rounds[BARE_ECHO][0]["cpu_us"] > 0
    assert outcome.cases[0].rounds["echo on our transport"][0]["cpu_us"] > 0
    assert outcome.cases[0].rounds["Penstock, open, in memory"][0]["rate"] > 0
    assert (tmp_path / "benchmark.svg").exists()


def test_what_scaling_out_costs_is_measured() -> None:
    command = [sys.executable, "-m", "bench.scaling", "--rounds", "1", "--count", "200"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("one process", "two processes, passed on", "16 queues", "one node on PostgreSQL"):
        assert name in done.stdout


def test_clients_are_compared() -> None:
    command = [sys.executable, "-m", "bench.client", "--messages", "3", "--rounds", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    tables = [table.splitlines() for table in done.stdout.split("| client |")[1:]]
    assert [len(table) for table in tables] == [2 + len(CLIENTS), 2 + len(SENDERS)]
    for table in tables:
        boto3, *own = [line.split(" | ") for line in table[2:]]
        assert boto3[0] == "| boto3" and boto3[2] == ""
        assert all(float(row[2].split()[0]) > 0 for row in own)


def test_the_path_of_a_request_is_counted() -> None:
    command = [sys.executable, "-m", "bench.path", "--access", "open", "--trace", "--by-file"]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout
    for action in ("SendMessage", "ReceiveMessage", "DeleteMessage"):
        row = next(line for line in printed.splitlines() if line.startswith(f"| {action} | open |"))
        calls, functions, files = (int(cell) for cell in row.split("|")[3:6])
        assert calls >= functions > files > 10
        if action == "SendMessage":  # the path must not grow again unnoticed
            assert calls <= 100
            assert files <= 28
    assert "wire/dispatch.py" in printed
