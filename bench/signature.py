"""What it costs the server to verify one signature: ``python -m bench.signature``.

CPU time, on one core and without a socket, of a signed SendMessage as botocore sends it. The least of several rounds
is shown, because other load on the machine can only add to it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from penstock.auth.sigv4.verify import Verifier

_KEY, _SECRET = "AKIDEXAMPLE", "bench-secret"
_BODY = b'{"QueueUrl":"http://localhost:9324/123456789012/orders","MessageBody":"%b"}' % (b"m" * 140)
_HEADERS = {
    "X-Amz-Target": "AmazonSQS.SendMessage",
    "x-amzn-query-mode": "true",
    "Content-Type": "application/x-amz-json-1.0",
    "User-Agent": "Boto3/1.42 md/Botocore#1.42 ua/2.1 os/linux#6.1 md/arch#x86_64 lang/python#3.11",
    "amz-sdk-invocation-id": "b1a0d7a6-3d2f-4d6b-9d3b-4d1b6d1c2e3f",
    "amz-sdk-request": "attempt=1",
    "Host": "localhost:9324",
}


def signed_headers(body: bytes) -> list[tuple[bytes, bytes]]:
    request = AWSRequest("POST", "http://localhost:9324/", headers=_HEADERS, data=body)
    SigV4Auth(Credentials(_KEY, _SECRET), "sqs", "us-east-1").add_auth(request)
    headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    return [*headers, (b"Content-Length", b"%d" % len(body)), (b"Accept-Encoding", b"identity")]


def rounds(count: int, requests: int) -> Iterator[float]:
    """Microseconds of CPU for one verification, a figure for each round."""
    verifier = Verifier(lambda key, token: _SECRET)
    headers = {name.lower(): value for name, value in signed_headers(_BODY)}
    now_s = time.time()
    for _ in range(count):
        begun = time.process_time()
        for _ in range(requests):
            verifier.verify(b"POST", b"/", headers, _BODY, now_s)
        yield (time.process_time() - begun) / requests * 1e6


if __name__ == "__main__":
    print(f"{min(rounds(10, 10_000)):.2f} µs of CPU for each signed SendMessage of {len(_BODY)} bytes")
