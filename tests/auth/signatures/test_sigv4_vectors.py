"""AWS's own signatures over AWS's own requests, in both forms."""

from __future__ import annotations

import tomllib
from calendar import timegm
from pathlib import Path
from time import strptime
from typing import Any

import pytest

from penstock.auth.errors import AuthenticationError
from penstock.auth.sigv4.canonical import merged_headers
from penstock.auth.sigv4.verify import MISMATCH, Signed, Verifier
from support.rows import every_row

SUITE = tomllib.loads((Path(__file__).parent / "vectors.toml").read_text())
HOST, SECRET, STAMP = SUITE.pop("host"), SUITE.pop("secret"), SUITE.pop("stamp")
SCOPE = f"{STAMP[:8]}/us-east-1/service/aws4_request"
MADE_S = timegm(strptime(STAMP, "%Y%m%dT%H%M%SZ"))


def verified(
    vector: dict[str, Any], target: str, extra: list[tuple[str, str]], after_s: int
) -> Signed | None:
    given = [("Host", HOST), *vector.get("headers", []), ("X-Amz-Date", STAMP), *extra]
    headers = [(name.encode(), value.encode()) for name, value in given]
    verifier = Verifier(lambda key, token: {"AKIDEXAMPLE": SECRET}[key])
    body = vector.get("body", "").encode()
    method = vector.get("method", "GET").encode()
    return verifier.verify(method, target.encode(), merged_headers(headers), body, MADE_S + after_s)


def token_of(vector: dict[str, Any]) -> str | None:
    sent = dict(vector.get("headers", [])).get("X-Amz-Security-Token")
    return vector.get("token", sent)


@every_row("name", [name for name, vector in SUITE.items() if "header" in vector])
def test_a_signature_in_the_header(name: str) -> None:
    vector = SUITE[name]
    signed = {"host", "x-amz-date", *vector.get("signed", [])}
    extra = []
    if "token" in vector:
        extra = [("X-Amz-Security-Token", vector["token"])]
        signed.add("x-amz-security-token")
    authorization = (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{SCOPE}, SignedHeaders={';'.join(sorted(signed))}, "
        f"Signature={vector['header']}"
    )
    extra.append(("Authorization", authorization))
    target = vector.get("target", "/")
    if vector.get("refused"):
        with pytest.raises(AuthenticationError) as refused:
            verified(vector, target, extra, 0)
        assert str(refused.value) == MISMATCH
    else:
        who = Signed("AKIDEXAMPLE", STAMP[:8], "us-east-1", "service", token_of(vector))
        assert verified(vector, target, extra, 299) == who


@every_row("name", [name for name, vector in SUITE.items() if "presigned" in vector])
def test_a_signature_in_the_query_string(name: str) -> None:
    vector = SUITE[name]
    signed = "%3B".join(sorted({"host", *vector.get("signed", [])}))
    expires = vector.get("expires", 3600)
    parameters = [
        "X-Amz-Algorithm=AWS4-HMAC-SHA256",
        f"X-Amz-Credential=AKIDEXAMPLE%2F{SCOPE.replace('/', '%2F')}",
        f"X-Amz-Date={STAMP}",
        f"X-Amz-SignedHeaders={signed}",
        f"X-Amz-Signature={vector['presigned']}",
    ]
    if expires:
        parameters.append(f"X-Amz-Expires={expires}")
    if "token" in vector:
        parameters.append(f"X-Amz-Security-Token={vector['token']}")
    target = vector.get("target", "/")
    target += ("&" if "?" in target else "?") + "&".join(parameters)
    who = Signed("AKIDEXAMPLE", STAMP[:8], "us-east-1", "service", token_of(vector))
    assert verified(vector, target, [], expires or 300) == who
    with pytest.raises(
        AuthenticationError, match=r"^Signature expired: 20150830T123600Z is now earlier than "
    ):
        verified(vector, target, [], (expires or 300) + 1)
