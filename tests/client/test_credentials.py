"""Profiles and keys are found as the AWS CLI finds them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.client.api import run
from penstock.client.credentials import KeySource, ProfileError, SigningKeys, find_credentials, read_profile
from penstock.client.endpoint import Endpoint
from penstock.client.http.blocking import BlockingNetwork
from penstock.client.session import Session

CONFIG = """\
[default]
region = eu-west-1
[profile ops]
region = eu-central-1
services = local
[services local]
sqs =
  endpoint_url = http://10.0.0.1:9324
[profile process]
credential_process = {python} -c "{script}"
[profile sso]
sso_session = work
[profile percent]
aws_access_key_id = AKIAPERCENT
aws_secret_access_key = 100%s%ecret
"""

KEYS = """\
[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = default-secret
[ops]
aws_access_key_id = AKIAOPS
aws_secret_access_key = ops-secret
aws_session_token = ops-token
"""


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The variables that name them."""
    (tmp_path / "config").write_text(CONFIG.format(python=sys.executable, script="SCRIPT"))
    (tmp_path / "credentials").write_text(KEYS)
    return {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }


def found(files: dict[str, str], name: str | None = None, **variables: str) -> KeySource | None:
    environment = files | variables
    profile = read_profile(name, environment)
    return find_credentials(profile, asked=name is not None, environment=environment)


def keys_of(source: KeySource | None) -> SigningKeys | None:
    """Those that a request is signed with."""
    endpoint = Endpoint("http://127.0.0.1:1", "us-east-1", source, "")
    return run(Session(endpoint, BlockingNetwork(1))._keys.get())


def test_the_default_profile(files: dict[str, str]) -> None:
    assert found(files) == SigningKeys("AKIADEFAULT", "default-secret")
    assert read_profile(None, files).region == "eu-west-1"


def test_a_named_profile_with_a_token_and_an_endpoint(files: dict[str, str]) -> None:
    profile = read_profile("ops", files)
    assert (profile.region, profile.endpoint_url) == ("eu-central-1", "http://10.0.0.1:9324")
    assert found(files, "ops") == SigningKeys("AKIAOPS", "ops-secret", "ops-token")
    assert found(files, AWS_PROFILE="ops") == found(files, AWS_DEFAULT_PROFILE="ops") == found(files, "ops")


def test_variables_come_before_the_usual_profile_and_after_one_that_was_asked_for(
    files: dict[str, str],
) -> None:
    variables = {"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    assert found(files, **variables) == SigningKeys("AKIAENV", "s", "t")
    assert found(files, AWS_PROFILE="ops", **variables) == SigningKeys("AKIAENV", "s", "t")
    assert found(files, "ops", **variables) == SigningKeys("AKIAOPS", "ops-secret", "ops-token")
    assert found(files, AWS_ACCESS_KEY_ID="") == SigningKeys("AKIADEFAULT", "default-secret")


def test_a_percent_sign_is_no_interpolation(files: dict[str, str]) -> None:
    assert found(files, "percent") == SigningKeys("AKIAPERCENT", "100%s%ecret")


def test_no_files_and_no_variables(tmp_path: Path) -> None:
    missing = {"AWS_CONFIG_FILE": str(tmp_path / "a"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "b")}
    assert found(missing) is None


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"AccessKeyId": "AKIAP", "SecretAccessKey": "s"}', SigningKeys("AKIAP", "s")),
        (
            '{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s", "SessionToken": "t"}',
            SigningKeys("A", "s", "t"),
        ),
    ],
)
def test_a_program_that_prints_keys(
    files: dict[str, str], tmp_path: Path, printed: str, expected: SigningKeys
) -> None:
    source = found(with_program(files, tmp_path, f"print('''{printed}''')"), "process")
    assert keys_of(source) == expected


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("print('{}')", "AccessKeyId and SecretAccessKey"),
        ("print('no JSON')", "AccessKeyId and SecretAccessKey"),
        ("import sys; sys.exit('the vault is closed')", "credential_process.*: the vault is closed"),
    ],
)
def test_a_program_that_fails(files: dict[str, str], tmp_path: Path, script: str, problem: str) -> None:
    with pytest.raises(ProfileError, match=problem):
        keys_of(found(with_program(files, tmp_path, script), "process"))


def with_program(files: dict[str, str], folder: Path, script: str) -> dict[str, str]:
    program = folder / "program.py"
    program.write_text(script)
    config = Path(files["AWS_CONFIG_FILE"])
    config.write_text(config.read_text().replace('-c "SCRIPT"', str(program)))
    return files


def test_a_missing_program(files: dict[str, str]) -> None:
    config = Path(files["AWS_CONFIG_FILE"])
    config.write_text("[profile process]\ncredential_process = /nowhere/program\n")
    with pytest.raises(ProfileError, match="credential_process cannot be run"):
        keys_of(found(files, "process"))


def test_what_is_not_supported_says_what_to_do(files: dict[str, str]) -> None:
    with pytest.raises(ProfileError, match=r"sso_session.*aws configure export-credentials --profile sso"):
        found(files, "sso")


def test_a_profile_that_does_not_exist(files: dict[str, str]) -> None:
    with pytest.raises(ProfileError, match='no profile "opps"'):
        read_profile("opps", files)


def test_a_file_that_is_none_of_the_aws_cli(files: dict[str, str]) -> None:
    Path(files["AWS_CONFIG_FILE"]).write_text("region: eu-west-1\n")
    with pytest.raises(ProfileError, match=r"AWS CLI.*\[sections\]"):
        read_profile(None, files)
