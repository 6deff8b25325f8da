"""The examples of docs/topics.md, as a reader copies them: in the order of the page, on one server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.services.sns import SnsLimits
from penstock.services.sns.limits import POLICY_STATEMENTS_MAX, TAGS_MAX
from support.documents import ROOT, blocks_of
from support.process import ServerProcess, free_port
from support.secured import Secured
from support.waiting import until

PAGE = (ROOT / "docs/topics.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HOOKS = "HTTP endpoints"
_SECURED = "Permissions"
_PATIENCE_S = 60
_REGION, _ACCOUNT, _PARTNER = "us-east-1", "000000000000", "222222222222"


def masked(text: str) -> str:
    """Output without ids and times, and without the width of columns."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    return re.sub(r"127\.0\.0\.1:\d+", "SERVER", re.sub(r" +", " ", text))


class Reader:
    """Pastes blocks of the page, with other ports."""

    def __init__(self, folder: Path, server: ServerProcess, **environment: str) -> None:
        self._folder = folder
        self._ports = {"9324": str(server.port), "8080": str(free_port())}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {
            **os.environ, "PATH": path, "XDG_CONFIG_HOME": str(folder), "AWS_ENDPOINT_URL": server.url,
            **environment,
        }  # fmt: skip

    def run(self, language: str, text: str) -> str:
        command = [sys.executable, "-"] if language == "python" else ["bash", "-eu"]
        done = subprocess.run(
            command, input=self._with_ports(text), cwd=self._folder, env=self._environment, text=True,
            capture_output=True, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, text: str) -> subprocess.Popen[bytes]:
        """Start a program that runs until it is ended. Its output is in the file ``output``."""
        (self._folder / "program.py").write_text(self._with_ports(text))
        with (self._folder / "output").open("w") as output, (self._folder / "log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "program.py"],
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=log,
            )

    def printed(self) -> str:
        return (self._folder / "output").read_text()

    def _with_ports(self, text: str) -> str:
        for port, actual in self._ports.items():
            text = text.replace(port, actual)
        return text


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with ServerProcess("--memory") as server:
        yield Reader(tmp_path, server)


def test_the_examples_run_and_print_what_the_page_says(reader: Reader) -> None:
    checked = 0
    for title, section in SECTIONS.items():
        if title == _SECURED:
            continue
        program: subprocess.Popen[bytes] | None = None
        output = ""
        for language, text in _BLOCK.findall(section):
            if language == "python" and title == _HOOKS:
                program = reader.start(text)
            elif language != "text":
                output = reader.run(language, text)
            elif program is not None:
                until(lambda: reader.printed().count("\n") >= 2, "messages of the topic", _PATIENCE_S)
                program.terminate()
                program.wait()
                assert reader.printed() == text
                checked += 1
            else:
                assert masked(output) == masked(text)
                checked += 1
    assert checked == PAGE.count("```text") > 4


def test_filters_decide_as_the_page_says(reader: Reader) -> None:
    for language, text in _BLOCK.findall(SECTIONS["One message, several queues"] + SECTIONS["Filters"]):
        if language == "sh":
            printed = reader.run(language, text)
    assert "the message passes: " in printed
    found = {queue: reader.run("sh", f"penstock tail {queue}") for queue in ("billing", "shipping")}
    bodies = {queue: re.findall(r"order (\d+)", text) for queue, text in found.items()}
    assert bodies == {"billing": ["17", "18", "20"], "shipping": ["17", "18", "19", "20"]}


# -- a server with credentials -------------------------------------------------------------------------------------


def _receive(sqs: Any, url: str, wait_s: int) -> list[str]:
    got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=wait_s, MaxNumberOfMessages=10)
    return [message["Body"] for message in got.get("Messages", [])]


def test_a_queue_lets_a_topic_send_and_a_topic_another_account(tmp_path: Path) -> None:
    (policy,) = blocks_of(SECTIONS[_SECURED], "json")
    allow, share = blocks_of(SECTIONS[_SECURED], "sh")
    secured = Secured(tmp_path)
    secured.add("alice", "administrator", account=_ACCOUNT)
    secured.add("partner", "administrator", account=_PARTNER)
    with secured.running() as server:
        sns, sqs = (secured.client("alice", each, region_name=_REGION) for each in ("sns", "sqs"))
        url = sqs.create_queue(QueueName="billing")["QueueUrl"]
        sqs.create_queue(QueueName="undelivered")
        topic = sns.create_topic(Name="orders")["TopicArn"]
        queue = f"arn:aws:sqs:{_REGION}:{_ACCOUNT}:billing"
        raw = {"RawMessageDelivery": "true"}
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue, Attributes=raw)
        sns.publish(TopicArn=topic, Message="denied")
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
        sns.publish(TopicArn=topic, Message="allowed")
        assert _receive(sqs, url, 10) == ["allowed"]

        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
        key, secret = secured.keys["alice"]
        keys = {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_DEFAULT_REGION": _REGION,
        }
        reader = Reader(tmp_path, server, **keys)
        reader.run("sh", allow)
        sns.publish(TopicArn=topic, Message="allowed again")
        assert _receive(sqs, url, 10) == ["allowed again"]

        reader.run("sh", share)
        partner = secured.client("partner", "sns", region_name=_REGION)
        own = f"arn:aws:sqs:{_REGION}:{_PARTNER}:orders"
        made = partner.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=own)
        assert made["SubscriptionArn"].startswith(f"{topic}:"), "it is confirmed"
        assert server.stop() == 0


# -- tables ---------------------------------------------------------------------------------------------------------


def test_the_limits_are_those_of_the_server() -> None:
    limits, section = SnsLimits(), SECTIONS["Limits"]
    for text in (
        f"{limits.topics_max:,} standard, {limits.fifo_topics_max:,} FIFO",
        f"{limits.subscriptions_max / 1e6:.1f} million of a standard topic",
        f"{limits.fifo_subscriptions_max} of a FIFO topic",
        f"{limits.topic_bytes_max // 1024**2} MiB in a shard",
        f"{limits.filters_max:,} of a topic",
        f"{POLICY_STATEMENTS_MAX} statements",
        f"| tags | {TAGS_MAX} |",
    ):
        assert text in section, text
