"""A real server with a certificate: served to boto3, renewed while it runs, and quiet about failed handshakes."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
import time
from pathlib import Path

import boto3
import pytest
from botocore.client import BaseClient
from botocore.config import Config
from botocore.exceptions import ClientError, SSLError

from support.certificates import ServerFiles, write_certificate
from support.process import ServerProcess

ACCESS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


def serving(files: ServerFiles, *more: str) -> ServerProcess:
    return ServerProcess(
        "--memory", "--tls-certificate", str(files.certificate), "--tls-key", str(files.key), *more
    )


def client(server: ServerProcess, authority: Path, **config: object) -> BaseClient:
    url = f"https://localhost:{server.port}"
    return boto3.client("sqs", endpoint_url=url, verify=str(authority), config=Config(**config), **ACCESS)


def shown(server: ServerProcess) -> bytes:
    """The certificate that a new connection gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw,
        context.wrap_socket(raw) as sock,
    ):
        certificate = sock.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_a_certificate_is_renewed_while_a_client_stays_connected(
    server_files: ServerFiles, tmp_path: Path
) -> None:
    with serving(server_files) as server:
        sqs = client(server, server_files.authority)
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        before = shown(server)
        renewed = write_certificate(tmp_path / "renewed")
        shutil.copy(renewed.certificate, server_files.certificate)
        shutil.copy(renewed.key, server_files.key)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while shown(server) == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sqs.send_message(QueueUrl=url, MessageBody="over the old connection")["MessageId"]
        assert client(server, renewed.authority).list_queues()["QueueUrls"] == [url]
        with pytest.raises(SSLError):
            client(server, server_files.authority).list_queues()
        assert server.stop() == 0
    assert any("certificate loaded" in line for line in server.log)


def test_failed_handshakes_log_no_traceback(server_files: ServerFiles) -> None:
    with serving(server_files) as server:
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b""):
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as sock:
                sock.sendall(noise)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(4096):
                    pass
        shown(server)
        assert server.stop() == 0
    assert not [line for line in server.log if "rror" in line or "raceback" in line]


def test_a_quota_as_boto3_sees_it(server_files: ServerFiles) -> None:
    limits = ("--quota-queues", "1", "--quota-messages", "2")
    with serving(server_files, *limits) as server:
        sqs = client(server, server_files.authority)
        url = sqs.create_queue(QueueName="one")["QueueUrl"]
        with pytest.raises(sqs.exceptions.OverLimit):
            sqs.create_queue(QueueName="two")
        entries = [{"Id": str(number), "MessageBody": "m"} for number in range(3)]
        with pytest.raises(sqs.exceptions.OverLimit, match="may have 2 messages"):
            sqs.send_message_batch(QueueUrl=url, Entries=entries)
        assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries[:2])["Successful"]) == 2
        assert server.stop() == 0


@pytest.mark.slow
def test_boto3_adapts_to_the_rate_limit_by_itself(server_files: ServerFiles) -> None:
    with serving(server_files, "--requests-per-second", "10", "--requests-burst", "1") as server:
        hasty = client(server, server_files.authority, retries={"max_attempts": 0})
        with pytest.raises(ClientError) as caught:
            for _ in range(20):
                hasty.list_queues()
        response = caught.value.response
        assert response["Error"]["Code"] == "RequestThrottled"
        assert response["ResponseMetadata"]["HTTPStatusCode"] == 403
        patient = client(server, server_files.authority, retries={"max_attempts": 8})
        for _ in range(5):
            patient.list_queues()
        assert server.stop() == 0
