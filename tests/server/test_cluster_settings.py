"""Settings of a database and of a cluster: what belongs together, and that no password is shown."""

from __future__ import annotations

import pytest

from penstock.server.settings.address import Address
from penstock.server.settings.config import ConfigError
from penstock.server.settings.load import load_config
from penstock.server.settings.types import without_password
from support.rows import every_row

STORE = {"store": "postgresql://penstock@db/penstock"}
NODE = {**STORE, "advertise": "10.0.0.5:9400", "cluster_secret_file": "cluster.secret"}


def test_a_node_needs_an_address_a_secret_and_a_database() -> None:
    config = load_config(NODE, {})
    assert config.advertise == Address("10.0.0.5", 9400)


@pytest.mark.parametrize(
    ("advertise", "given", "listens"),
    [
        ("10.0.0.5:9400", {}, "0.0.0.0:9400"),
        ("node-1.internal:9400", {}, "0.0.0.0:9400"),
        ("[fd00::5]:9400", {}, "[::]:9400"),
        ("node-1.internal:9400", {"cluster_listen": "[::]:9401"}, "[::]:9401"),
        ("127.0.0.1:9400", {}, "127.0.0.1:9400"),
        ("127.0.0.2:9400", {}, "127.0.0.2:9400"),
        ("[::1]:9400", {}, "[::1]:9400"),
        ("localhost:9400", {}, "localhost:9400"),
        ("127.0.0.1:9400", {"cluster_listen": "0.0.0.0:9400"}, "0.0.0.0:9400"),
    ],
)
def test_a_node_listens_where_the_others_can_reach_it(
    advertise: str, given: dict[str, str], listens: str
) -> None:
    assert str(load_config({**NODE, "advertise": advertise, **given}, {}).cluster_address) == listens


@every_row(
    ("flags", "problem"),
    [
        ({"advertise": "a:1"}, "store is not"),
        ({**STORE, "advertise": "a:1"}, "cluster_secret_file is not"),
        ({**NODE, "advertise": "a:0"}, "port 0"),
        ({**STORE, "cluster_secret_file": "x"}, "advertise is not"),
        ({**STORE, "cluster_listen": "0.0.0.0:1"}, "advertise is not"),
        ({**STORE, "memory": "true"}, "memory.*no effect"),
        ({**STORE, "processes": "2"}, "processes.*store"),
        ({**STORE, "durability": "system"}, "durability.*no effect"),
        ({"processes": "9", "shards": "4"}, "shards = 4 .*9 processes"),
        ({"store": "mysql://db/penstock"}, "store.*URL of a PostgreSQL"),
    ],
)
def test_what_does_not_belong_together_is_refused(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_config(flags, {})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://penstock:hunter2@db/penstock",
        "postgresql://penstock:hunter2@db:5432/penstock?sslmode=require",
        "postgresql://db/penstock?user=penstock&password=hunter2",
        "postgresql://penstock:hunter2@one:1,two:2/penstock",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    assert "hunter2" not in without_password(url)
    with pytest.raises(ConfigError) as refused:
        load_config({"store": url.replace("postgresql", "mysql")}, {})
    assert "hunter2" not in str(refused.value)
