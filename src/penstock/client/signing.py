"""Signs requests with AWS Signature Version 4."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from urllib.parse import urlsplit

from penstock.auth.sigv4.canonical import canonical_path, canonical_query, read_parameters
from penstock.client.credentials import SigningKeys

_ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes,
    credentials: SigningKeys,
    region: str,
    service: str,
    now: datetime | None = None,
) -> dict[str, str]:
    """These headers, and those that make the request a signed one."""
    time = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    parts = urlsplit(url)
    digest = sha256(body).hexdigest()
    signed = {name.lower(): value for name, value in headers.items()}
    signed |= {"host": parts.netloc, "x-amz-date": time, "x-amz-content-sha256": digest}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    canonical = "\n".join((
        method,
        canonical_path(parts.path.encode() or b"/").decode(),
        canonical_query(read_parameters(parts.query.encode())).decode(),
        *(f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)),
        "",
        names,
        digest,
    ))  # fmt: skip
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    to_sign = f"{_ALGORITHM}\n{time}\n{scope}\n{sha256(canonical.encode()).hexdigest()}"
    key = _signing_key(credentials.secret_key, time[:8], region, service)
    signature = hmac.new(key, to_sign.encode(), sha256).hexdigest()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return signed


@lru_cache(64)
def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = b"AWS4" + secret.encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return key
