"""The plugin for pytest, as its users have it: pytest in a process and a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.texts import says

Outcome = subprocess.CompletedProcess[str]
RunPytest = Callable[..., Outcome]


@pytest.fixture
def run_pytest(tmp_path: Path) -> RunPytest:
    """Runs pytest on a file with this text. Every warning is an error, as in strict projects."""

    def run(text: str, *arguments: str, module: str = "pytest") -> Outcome:
        (tmp_path / "test_orders.py").write_text(text)
        command = [sys.executable, "-m", module, *arguments]
        if module == "pytest":
            command += ["-p", "no:cacheprovider", "-W", "error", "-rA"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )

    return run


def test_every_fixture_works_without_any_import(run_pytest: RunPytest) -> None:
    done = run_pytest("""
import asyncio, os, urllib.request

def test_boto3(penstock, sqs):
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="one", DelaySeconds=900)
    penstock.clock.advance(minutes=15)
    assert sqs.receive_message(QueueUrl=queue)["Messages"][0]["Body"] == "one"
    penstock.assert_received("orders", "one", times=1)

def test_each_test_begins_without_queues(penstock, sqs, sqs_url):
    assert "QueueUrls" not in sqs.list_queues()
    assert penstock.clock.frozen is False
    assert urllib.request.urlopen(sqs_url + "/health/ready").status == 200

def test_own_client(penstock, penstock_client):
    penstock_client.send_message(penstock_client.create_queue("orders"), "two")
    penstock.assert_sent("orders", "two", count=1)

def test_asyncio(penstock, penstock_async_client):
    async def send():
        async with penstock_async_client as client:
            await client.send_message(await client.create_queue("orders"), "three")
    asyncio.run(send())
    penstock.assert_sent("orders", "three", count=1)

def test_environment(penstock, sqs_environment):
    import boto3
    sqs = boto3.client("sqs")
    sqs.create_queue(QueueName="orders")
    sqs.close()
    assert os.environ["AWS_ENDPOINT_URL_SQS"] == penstock.url
    penstock.assert_empty("orders")

def test_the_environment_is_as_before():
    assert "AWS_ENDPOINT_URL_SQS" not in os.environ
""")
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_a_failure_shows_the_queue_and_not_the_plugin(run_pytest: RunPytest) -> None:
    done = run_pytest("""
def test_orders(penstock, penstock_client):
    penstock_client.send_message(penstock_client.create_queue("orders"), "two lattes")
    penstock.assert_sent("orders", "one espresso", count=2)
""")
    assert done.returncode == 1
    assert "expected 2 messages sent to orders with the body 'one espresso', found 0" in done.stdout
    assert "visible           0  'two lattes'" in done.stdout
    assert "assertions.py" not in done.stdout and "broker.py:" not in done.stdout


@pytest.mark.slow
def test_workers_of_xdist_have_a_broker_each(run_pytest: RunPytest, tmp_path: Path) -> None:
    done = run_pytest(
        """
import os, pytest

@pytest.mark.parametrize("n", range(20))
def test_orders(n, penstock, penstock_client, tmp_path_factory):
    queue = penstock_client.create_queue("orders")
    penstock_client.send_message(queue, str(n), delay_seconds=60)
    penstock.clock.advance(minutes=1)
    assert [each.body for each in penstock_client.receive_message(queue)] == [str(n)]
    penstock.assert_sent("orders", count=1)
    with open("urls", "a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {penstock.url}\\n")
""",
        "-n",
        "2",
    )
    assert done.returncode == 0, done.stdout
    pairs = {tuple(line.split()) for line in (tmp_path / "urls").read_text().splitlines()}
    assert len(pairs) == len({worker for worker, _ in pairs}) == len({url for _, url in pairs}) == 2


def test_unittest_without_pytest(run_pytest: RunPytest) -> None:
    done = run_pytest(
        """
import sys, unittest
from penstock.testing import Broker

class OrdersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = cls.enterClassContext(Broker())

    def setUp(self):
        self.addCleanup(self.broker.reset)
        self.client = self.enterContext(self.broker.client())

    def test_sent(self):
        self.client.send_message(self.client.create_queue("orders"), "one")
        self.broker.assert_sent("orders", "one", count=1)

    def test_nothing_is_left(self):
        self.assertEqual(self.client.list_queues().queue_urls, [])

    def test_pytest_is_not_needed(self):
        self.assertNotIn("pytest", sys.modules)
""",
        "-v",
        "test_orders",
        module="unittest",
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 3 tests" in done.stderr


def test_a_missing_boto3_is_named(run_pytest: RunPytest) -> None:
    done = run_pytest("""
import sys
sys.modules["boto3"] = None

def test_orders(sqs):
    pass

def test_others(penstock, penstock_client):
    penstock_client.create_queue("orders")
""")
    assert "1 passed, 1 error" in done.stdout
    says(done.stdout, "boto3", "pip install 'penstock-mq[testing]'")


def test_a_plugin_that_is_not_used_loads_nothing(run_pytest: RunPytest) -> None:
    done = run_pytest("""
import sys

def test_nothing_is_loaded(request):
    assert request.config.pluginmanager.has_plugin("penstock")
    loaded = {name for name in sys.modules if name.startswith("penstock.") and name.count(".") == 1}
    assert loaded == {"penstock.testing"}
    assert not {"penstock.testing.broker", "msgspec", "uvloop", "boto3"} & sys.modules.keys()
""")
    assert done.returncode == 0, done.stdout


def test_the_plugin_can_be_turned_off(run_pytest: RunPytest) -> None:
    done = run_pytest("def test_orders(penstock): pass", "-p", "no:penstock")
    assert "fixture 'penstock' not found" in done.stdout


def test_a_fixture_of_the_project_comes_first(run_pytest: RunPytest) -> None:
    done = run_pytest("""
import pytest

@pytest.fixture
def sqs():
    return "mine"

def test_orders(sqs):
    assert sqs == "mine"
""")
    assert done.returncode == 0, done.stdout


def test_assertions_of_the_server_are_not_rewritten(run_pytest: RunPytest) -> None:
    """pytest does that to all modules of a distribution with a plugin. For the server it takes a second."""
    done = run_pytest("""
import sys
from _pytest.assertion.rewrite import AssertionRewritingHook
from penstock.testing import Broker

def test_orders():
    (finder,) = [each for each in sys.meta_path if isinstance(each, AssertionRewritingHook)]
    finder.mark_rewrite("penstock.queues", "penstock.server")  # as if it was installed
    with Broker():
        pass
    loaders = [type(sys.modules[name].__loader__) for name in ("penstock.queues.fifo", "penstock.server.compose")]
    assert AssertionRewritingHook not in loaders
    assert sys.meta_path[0] is finder
""")
    assert done.returncode == 0, done.stdout
