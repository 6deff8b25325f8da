"""Who has access to the server: what is refused, and what the startup report says."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.server.security import check_plain_http
from penstock.server.settings.address import Address
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.load import load_config
from penstock.server.startup_report import describe_access
from support.texts import says

SECURED = {"PENSTOCK_CREDENTIALS": "users.toml"}
TLS = {"PENSTOCK_TLS_CERTIFICATE": "cert.pem", "PENSTOCK_TLS_KEY": "key.pem"}
LOOPBACK, NETWORK = Address("127.0.0.1", 9324), Address("0.0.0.0", 9324)


def test_credentials_on_the_network_need_tls_or_consent() -> None:
    everywhere = {"PENSTOCK_LISTEN": "127.0.0.1:9324,0.0.0.0:4566"}
    with pytest.raises(ConfigError) as caught:
        check_plain_http(load_config({}, SECURED | everywhere))
    line = str(caught.value)
    assert "\n" not in line
    says(line, "0.0.0.0:4566", "network", "tls_certificate", "allow_plain_http")
    check_plain_http(load_config({}, SECURED | everywhere | TLS))
    check_plain_http(load_config({}, SECURED | everywhere | {"PENSTOCK_ALLOW_PLAIN_HTTP": "true"}))
    check_plain_http(load_config({}, everywhere))  # an open server only warns


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_credentials_on_loopback_need_nothing(host: str) -> None:
    check_plain_http(load_config({"host": host}, SECURED))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"PENSTOCK_TLS_CLIENT_AUTH": "required"} | TLS, "tls_client_auth = required .*tls_client_ca"),
        (
            {"PENSTOCK_TLS_CLIENT_CA": "ca.pem"} | TLS,
            "tls_client_ca .*tls_client_auth .*required or optional",
        ),
        (
            {"PENSTOCK_TLS_CLIENT_CA": "ca.pem", "PENSTOCK_TLS_CLIENT_AUTH": "optional"},
            "client certificates need HTTPS",
        ),
        ({"PENSTOCK_REQUESTS_BURST": "5"}, "requests_burst.*requests_per_second"),
    ],
)
def test_settings_without_effect_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config({}, given)


CREDENTIALS, CERTIFICATE = Path("users.toml"), Path("cert.pem")


@pytest.mark.parametrize(
    ("config", "addresses", "words"),
    [
        (Config(), [LOOPBACK], ["open:", "from this machine only"]),
        (
            Config(),
            [LOOPBACK, NETWORK],
            ["WARNING:", "open to the network", "port 9324"],
        ),
        (
            Config(tls_certificate=CERTIFICATE, tls_client_auth="required"),
            [NETWORK],
            ["open", "client with a certificate", "not authenticated"],
        ),
        (
            Config(credentials=CREDENTIALS),
            [LOOPBACK],
            ["secured:", "plain HTTP", "from this machine only"],
        ),
        (
            Config(credentials=CREDENTIALS, tls_certificate=CERTIFICATE, tls_client_auth="optional"),
            [NETWORK],
            ["secured:", "over TLS", "client certificates optional", "from the network"],
        ),
        (
            Config(credentials=CREDENTIALS, allow_plain_http=True),
            [NETWORK],
            ["secured:", "plain HTTP", "from the network", "WARNING:", "proxy", "TLS"],
        ),
    ],
)
def test_access_is_described(config: Config, addresses: list[Address], words: list[str]) -> None:
    access = describe_access(config, addresses)
    says(access, *words)
    assert ("WARNING" in access) == ("WARNING:" in words)
