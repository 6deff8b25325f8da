"""Which server is chosen: a flag, a named context, a variable, the current context, a profile, the local broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client.credentials import PLACEHOLDER_KEYS, ProfileError, SigningKeys
from penstock.client.endpoint import (
    Context,
    Contexts,
    Endpoint,
    EndpointError,
    contexts_file,
    find_endpoint,
    read_contexts,
    write_contexts,
)

PROD = Context("https://prod.example.com", "eu-central-1", "prod", "/etc/prod.pem")
STAGING = Context("http://staging:9324")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "config"
    config.write_text(
        "[profile prod]\nregion = us-west-2\naws_access_key_id = AKIAPROD\naws_secret_access_key = s\n"
        "[profile local]\nendpoint_url = http://profile:9324\nregion = eu-north-1\n"
    )
    return {
        "XDG_CONFIG_HOME": str(tmp_path),
        "AWS_CONFIG_FILE": str(config),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }


@pytest.fixture
def contexts(environment: dict[str, str]) -> dict[str, str]:
    """The environment, with two contexts of which the second is the current one."""
    write_contexts(Contexts("staging", {"prod": PROD, "staging": STAGING}), environment)
    return environment


def test_nothing_is_configured(environment: dict[str, str]) -> None:
    local = Endpoint("http://127.0.0.1:9324", "us-east-1", None, "default", None)
    assert find_endpoint(environment=environment) == local


def test_a_region_is_signed_for_without_keys(environment: dict[str, str]) -> None:
    """Only a signature names it. Without one and without keys, the server chooses, as it did before."""
    asked = [
        find_endpoint(region="eu-west-1", environment=environment),
        find_endpoint(environment=environment | {"AWS_REGION": "eu-west-1"}),
        find_endpoint(environment=environment | {"AWS_DEFAULT_REGION": "eu-west-1"}),
    ]
    for found in asked:
        assert (found.region, found.credentials, found.has_keys) == ("eu-west-1", PLACEHOLDER_KEYS, False)
        assert found.place == "eu-west-1 of http://127.0.0.1:9324"
    none = find_endpoint(environment=environment)
    assert (none.credentials, none.has_keys) == (None, False)
    assert none.place == "the default region of http://127.0.0.1:9324"
    assert find_endpoint(profile="prod", environment=environment).has_keys


def test_what_is_no_region(environment: dict[str, str]) -> None:
    for region in ("EU-WEST-1", "eu west", "zürich", "-", "a" * 64, "eu/sqs", "eu\n"):
        with pytest.raises(EndpointError, match="eu-central-1"):
            find_endpoint(region=region, environment=environment)


def test_contexts_are_stored(contexts: dict[str, str]) -> None:
    assert read_contexts(contexts) == Contexts("staging", {"prod": PROD, "staging": STAGING})


def test_the_order_of_precedence(contexts: dict[str, str]) -> None:
    steps = [
        ({}, "context staging", "http://staging:9324"),
        ({"AWS_ENDPOINT_URL": "http://variable:1"}, "AWS_ENDPOINT_URL", "http://variable:1"),
        ({"AWS_ENDPOINT_URL_SQS": "http://sqs:1"}, "AWS_ENDPOINT_URL_SQS", "http://sqs:1"),
        ({"PENSTOCK_CONTEXT": "prod"}, "context prod", "https://prod.example.com"),
    ]
    environment = dict(contexts)
    for variables, chosen_by, url in steps:
        environment |= variables
        found = find_endpoint(environment=environment)
        assert (found.chosen_by, found.url) == (chosen_by, url)
    assert find_endpoint(context="staging", environment=environment).url == STAGING.endpoint
    flag = find_endpoint(url="http://flag:1", environment=environment)
    assert (flag.chosen_by, flag.url) == ("--endpoint-url", "http://flag:1")


def test_a_context_gives_region_profile_and_ca(contexts: dict[str, str]) -> None:
    found = find_endpoint(context="prod", environment=contexts | {"AWS_REGION": "ap-south-1"})
    assert (found.region, found.ca_file) == ("eu-central-1", "/etc/prod.pem")
    assert isinstance(found.credentials, SigningKeys) and found.credentials.access_key == "AKIAPROD"
    assert find_endpoint(context="prod", region="sa-east-1", environment=contexts).region == "sa-east-1"


def test_a_url_alone_does_not_take_the_keys_of_the_current_context(contexts: dict[str, str]) -> None:
    write_contexts(Contexts("prod", {"prod": PROD}), contexts)
    assert find_endpoint(url="http://elsewhere:1", environment=contexts).credentials is None


def test_a_profile_with_an_endpoint(environment: dict[str, str]) -> None:
    found = find_endpoint(profile="local", environment=environment)
    assert (found.url, found.region, found.chosen_by) == (
        "http://profile:9324", "eu-north-1", "profile local",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("region", "url"),
    [
        ("eu-central-1", "https://sqs.eu-central-1.amazonaws.com"),
        ("cn-north-1", "https://sqs.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_amazon(environment: dict[str, str], region: str, url: str) -> None:
    assert find_endpoint(url="aws", region=region, environment=environment).url == url


@pytest.mark.parametrize(
    "url", ["localhost:9324", "ftp://host", "http://", "http://[::1", "http://h:99999", ""]
)
def test_what_is_no_url(environment: dict[str, str], url: str) -> None:
    with pytest.raises(EndpointError, match=r"endpoint: .*URL"):
        find_endpoint(url=url, environment=environment)


def test_names_that_do_not_exist(environment: dict[str, str]) -> None:
    with pytest.raises(EndpointError, match=r'no context "prd".*"penstock context ls"'):
        find_endpoint(context="prd", environment=environment)
    with pytest.raises(ProfileError, match='no profile "prd"'):
        find_endpoint(profile="prd", environment=environment)


@pytest.mark.parametrize("text", ["{", "[]", '{"contexts": {"a": {"unknown": 1}}}', '{"contexts": {"a": 1}}'])
def test_a_damaged_file(environment: dict[str, str], text: str) -> None:
    file = contexts_file(environment)
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(EndpointError, match=r"damaged.* remove"):
        read_contexts(environment)
