"""What every test may rely on: nothing of the machine's own settings reaches a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from penstock.server.compose import declare_services
from support.generated import ENDLESS, examples

declare_services()  # as a server or a command does first of all

# The same examples in every run: a check that fails by chance says nothing about the change it judges. Endless runs
# look elsewhere each time.
hypothesis.settings.register_profile(
    "penstock", derandomize=not ENDLESS, max_examples=examples(100), deadline=None
)
hypothesis.settings.load_profile("penstock")

# Hypothesis also draws constants of the modules that are loaded, so that a test would draw other examples in the
# whole suite than alone. It has no setting for that.
providers._get_local_constants = Constants


@pytest.fixture(scope="session", autouse=True)
def bare_environment() -> Iterator[None]:
    """Remove the settings of Penstock, AWS and pytest that the user who runs the tests has."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("PENSTOCK_", "AWS_")) or name == "PYTEST_ADDOPTS":
                patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


SLOW = (
    "cli/test_messages_on_processes.py",
    "cli/test_queues_on_processes.py",
    "client/consumer/test_documented.py",
    "client/test_patterns.py",
    "cluster/test_real_nodes.py",
    "crash/",
    "e2e/admin/test_task_restart.py",
    "e2e/test_aws_cli.py",
    "e2e/test_backup.py",
    "e2e/test_documented_cluster.py",
    "e2e/test_encryption.py",
    "e2e/test_load.py",
    "e2e/test_on_call.py",
    "e2e/test_postgres.py",
    "e2e/test_replace_root_key.py",
    "e2e/test_restart.py",
    "e2e/test_store_migration.py",
    "e2e/worker/",
    "e2e/processes/",
    "fuzz/",
    "server/test_reload.py",
    "server/test_rolling_restart.py",
    "server/test_supervisor.py",
    "server/test_systemd.py",
    "server/test_process_stores.py",
    "server/test_processes.py",
    "store/test_postgres_away.py",
    "test_bench.py",
)
"""Files and folders whose tests start many processes, kill or load them. Other slow tests are marked one by one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(tests) and item.path.relative_to(tests).as_posix().startswith(SLOW):
            item.add_marker("slow")
