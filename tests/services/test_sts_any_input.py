"""No input causes an internal error of STS."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sts_client import ROLE, TRUST_ALICE, Sts
from support.identities import Accounts

_SCALARS = ("RoleArn", "RoleSessionName", "Policy", "DurationSeconds", "ExternalId", "SourceIdentity", "Tags")
_MEMBERS = (
    "Tags.member.1.Key",
    "Tags.member.1.Value",
    "Tags.member.2.Key",
    "TransitiveTagKeys.member.1",
    "PolicyArns.member.1.arn",
)
names = st.sampled_from(_SCALARS + _MEMBERS)
texts = st.text(max_size=40) | st.sampled_from(
    [ROLE, "job", "900", "{}", '{"Statement": []}', "[" * 3000, "k"]
)


@pytest.fixture(scope="module")
def sts(tmp_path_factory: pytest.TempPathFactory) -> Sts:
    accounts = Accounts(tmp_path_factory.mktemp("accounts"))
    accounts.user("alice")
    accounts.role("worker", TRUST_ALICE)
    return Sts(accounts)


@given(st.sampled_from(["AssumeRole", "GetSessionToken", "GetCallerIdentity"]), st.dictionaries(names, texts))
def test_any_parameters_get_an_answer(sts: Sts, action: str, members: dict[str, str]) -> None:
    given = {"RoleArn": ROLE, "RoleSessionName": "job", **members}
    form = {"Action": action, "Version": "2011-06-15", **given}
    answer = sts.answer(sts.accounts.principal("alice"), urlencode(form, errors="surrogatepass").encode())
    assert answer.status in (200, 400, 403), answer.body


@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(sts: Sts, rest: bytes) -> None:
    answer = sts.answer(sts.accounts.principal("alice"), b"Action=AssumeRole&Version=2011-06-15&" + rest)
    assert answer.status in (200, 400, 403), answer.body
