"""Clients of SQS as tests use them: boto3 without repetitions, and calls that wait in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config

_session = boto3.session.Session()  # knows the model of SQS once it has read it


def sqs_client(url: str, account: str, region: str = "us-east-1") -> Any:
    """Nothing is repeated: a request that fails is to be seen."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=40, max_pool_connections=64)
    return _session.client(
        "sqs", endpoint_url=url, region_name=region, config=config,
        aws_access_key_id=account, aws_secret_access_key="any",
    )  # fmt: skip


class Background:
    """A call that waits in a thread; ``result`` waits for its answer and raises its error."""

    def __init__(self, call: Callable[..., Any], **request: Any) -> None:
        self._outcome: list[Any] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(call, request), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[..., Any], request: dict[str, Any]) -> None:
        try:
            self._outcome.append(call(**request))
        except BaseException as error:
            self._error.append(error)

    def result(self, timeout: float = 30) -> Any:
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "no answer"
        if self._error:
            raise self._error[0]
        return self._outcome[0]
