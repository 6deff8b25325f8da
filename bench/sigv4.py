"""Signature Version 4 from the client's side, for one kind of request: a POST of AWS JSON to SQS.

All but the payload and the time is the same in every request, so that part is prepared once. A signature is good
for five minutes: requests may be signed ahead of the moment they are sent.
"""

from __future__ import annotations

import hashlib
import hmac
import time

REGION = "us-east-1"
ACCESS_KEY = "bench"
SECRET_KEY = "bench-secret"
_SIGNED = "content-type;host;x-amz-date;x-amz-target"
_TYPE = "application/x-amz-json-1.0"


class Signer:
    def __init__(self, host: str) -> None:
        self._host = host
        self._day = ""
        self._key = b""

    def request(self, action: str, body: bytes) -> bytes:
        """A whole HTTP request, signed now."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        target = f"AmazonSQS.{action}"
        scope = f"{stamp[:8]}/{REGION}/sqs/aws4_request"
        canonical = (
            f"POST\n/\n\ncontent-type:{_TYPE}\nhost:{self._host}\nx-amz-date:{stamp}\nx-amz-target:{target}\n\n"
            f"{_SIGNED}\n{hashlib.sha256(body).hexdigest()}"
        )
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        signed = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode()
        signature = hmac.digest(self._key_of(stamp[:8]), signed, "sha256").hex()
        head = (
            f"POST / HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {_TYPE}\r\nX-Amz-Target: {target}\r\n"
            f"X-Amz-Date: {stamp}\r\nAuthorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, "
            f"SignedHeaders={_SIGNED}, Signature={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _key_of(self, day: str) -> bytes:
        if day != self._day:
            key = f"AWS4{SECRET_KEY}".encode()
            for part in (day, REGION, "sqs", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day, self._key = day, key
        return self._key
