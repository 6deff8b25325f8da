"""Shared by the Python suites: one server, and a separate account for each test.

``make test`` runs the suites of boto3. The other clients have separate environments, in which
``make test-clients`` runs their suites: here they are not collected when their package is not installed.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.java_tools import TARGET
from support.process import ServerProcess

PACKAGES = {
    "moto_app": "moto",
    "adapters/test_django.py": "django",
    "adapters/test_dramatiq.py": "dramatiq",
    "adapters/test_faststream.py": "faststream",
    "adapters/test_taskiq.py": "taskiq",
    "aio": "aiobotocore",
    "celery_app": "celery",
    "django_app": "django",
    "dramatiq_app": "dramatiq_sqs",
    "extended_python": "sqs_extended_client",
    "fastapi_app": "fastapi",
    "laravel_app": "tree_sitter_php",
    "validators": "sns_message_validator",
}
collect_ignore = [folder for folder, package in PACKAGES.items() if importlib.util.find_spec(package) is None]
if not Path(sys.prefix).resolve().is_relative_to(TARGET.parents[1]):
    collect_ignore += ["extended_java", "temporary_queues"]

_accounts = itertools.count(500_000_000_000)


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running
        assert running.stop() == 0
        assert not [line for line in running.log if '"error"' in line.lower()], "the server logged an error"


@pytest.fixture
def reach(server: ServerProcess) -> dict[str, str]:
    """The connection settings, as every library on botocore takes them."""
    return {
        "endpoint_url": server.url,
        "region_name": "us-east-1",
        "aws_access_key_id": str(next(_accounts)),
        "aws_secret_access_key": "any",
    }


@pytest.fixture
def sqs(reach: dict[str, str]) -> Any:
    import boto3  # here, because aiobotocore does without

    return boto3.client("sqs", **reach)


@pytest.fixture
def sqs_resource(reach: dict[str, str]) -> Any:
    import boto3

    return boto3.resource("sqs", **reach)


@pytest.fixture
def sns(reach: dict[str, str]) -> Any:
    import boto3

    return boto3.client("sns", **reach)


@pytest.fixture
def sns_resource(reach: dict[str, str]) -> Any:
    import boto3

    return boto3.resource("sns", **reach)
