"""STS on an open server, where SDKs and Terraform start with GetCallerIdentity and AssumeRole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.auth.identity.sessions import open_account
from services.sts_client import Sts, assume
from support.identities import ABROAD, HOME, Accounts


@pytest.fixture
def sts(tmp_path: Path) -> Sts:
    return Sts(Accounts(tmp_path), is_open=True)


def test_every_caller_is_the_root_of_its_account(sts: Sts) -> None:
    reply = sts(None, "GetCallerIdentity")
    assert (reply["UserId"], reply["Account"], reply["Arn"]) == (HOME, HOME, f"arn:aws:iam::{HOME}:root")


def test_a_role_acts_in_its_own_account(sts: Sts) -> None:
    reply = sts(None, "AssumeRole", **assume(f"arn:aws:iam::{ABROAD}:role/ci/deployer", DurationSeconds=900))
    given = reply["Credentials"]
    assert open_account(given["SessionToken"]) == ABROAD
    assert given["AccessKeyId"].startswith("ASIA") and len(given["SecretAccessKey"]) == 40
    assert given["Expiration"] == datetime.fromtimestamp(sts.accounts.clock.ms / 1000, UTC) + timedelta(
        minutes=15
    )
    assert reply["AssumedRoleUser"]["Arn"] == f"arn:aws:sts::{ABROAD}:assumed-role/deployer/job-7"
    assert reply["AssumedRoleUser"]["AssumedRoleId"].startswith("AROA")


def test_a_session_token_stays_in_the_account(sts: Sts) -> None:
    assert open_account(sts(None, "GetSessionToken")["Credentials"]["SessionToken"]) == HOME


def test_invalid_requests_are_refused_as_on_a_secured_server(sts: Sts) -> None:
    assert sts.refused(None, "AssumeRole", **assume("r" * 20))[1] == "ValidationError"
    role = f"arn:aws:iam::{HOME}:role/worker"
    assert sts.refused(None, "AssumeRole", **assume(role, Policy="{"))[1] == "MalformedPolicyDocument"
    assert sts.refused(None, "GetSessionToken", DurationSeconds=1)[1] == "ValidationError"
