"""Settings from every source, and one line for each error."""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path

import pytest

from penstock.names import Space
from penstock.server.settings.config import Config, ConfigError, settings
from penstock.server.settings.load import load_config
from penstock.server.settings.queues import DeadLetter
from support.rows import every_row
from support.texts import says


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.toml"


def load(file: Path, text: str, **flags: object) -> Config:
    file.write_text(text)
    return load_config({"config": str(file), **flags}, {})


def line(file: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(file, text)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults() -> None:
    config = load_config({}, {})
    assert (config.host, config.port, config.data) == ("127.0.0.1", 9324, Path("penstock-data"))
    assert config == Config()
    assert config.idle_timeout > 20 + 10


def test_each_source_wins_over_the_one_before(file: Path) -> None:
    file.write_text("port = 1\nregion = 'eu-west-1'\nmemory = true")
    environment = {"PENSTOCK_CONFIG": str(file), "PENSTOCK_PORT": "2", "PATH": "/bin"}
    config = load_config({"port": "3", "region": None}, environment)
    assert (config.port, config.region, config.memory) == (3, "eu-west-1", True)
    assert load_config({}, environment).port == 2


def test_every_setting_has_a_variable_and_a_flag_that_take_its_default() -> None:
    for setting in settings().values():
        if setting.default in (None, ()):
            continue
        text = str(setting.default)
        assert getattr(load_config({}, {setting.variable: text}), setting.name) == setting.default
        assert getattr(load_config({setting.name: text}, {}), setting.name) == setting.default


@every_row(
    ("name", "text", "value"),
    [
        ("memory_budget", "96MB", 96 * 1024**2),
        ("memory_budget", "1.5 GiB", 1536 * 1024**2),
        ("max_body_size", "4m", 4 * 1024**2),
        ("message_history", "0", 0),
        ("message_history_time", "2h", 7200.0),
        ("idle_timeout", "2m", 120.0),
        ("body_timeout", "1500ms", 1.5),
        ("memory", "yes", True),
        ("memory", "0", False),
        ("trusted_proxies", "10.0.0.0/8, ::1", (ip_network("10.0.0.0/8"), ip_network("::1"))),
        ("cors_origins", "https://a.test,*", ("https://a.test", "*")),
        ("public_url", "https://queues.example.com/", "https://queues.example.com"),
        ("public_url", "http://sqs.{region}.localhost:9324", "http://sqs.{region}.localhost:9324"),
        ("log_format", "JSON", "json"),
        ("account", "123456789012", "123456789012"),
    ],
)
def test_values(name: str, text: str, value: object) -> None:
    assert getattr(load_config({}, {f"PENSTOCK_{name.upper()}": text}), name) == value


@every_row(
    ("name", "text", "expected"),
    [
        ("port", "99999", "integer from 0 to 65535"),
        ("port", "http", "integer from 0 to 65535"),
        ("port", "", "integer"),
        ("memory", "maybe", "true or false"),
        ("memory_budget", "lots", '"96MB"'),
        ("memory_budget", "1MB", "at least 8MB"),
        ("idle_timeout", "5s", "from 30 to 3600 seconds"),
        ("account", "42", "twelve digits"),
        ("region", "Mars!", "us-east-1"),
        ("public_url", "queues.example.com", "https://queues.example.com"),
        ("public_url", "https://sqs.{zone}.example.com", "https://sqs.{region}.example.com"),
        ("public_url", "https://example.com/{region}", "https://sqs.{region}.example.com"),
        ("public_url", "https://{region}.{region}.example.com", "https://sqs.{region}.example.com"),
        ("trusted_proxies", "10.0.0.0/99", "10.0.0.0/8"),
        ("log_level", "loud", "one of debug, info, warning, error"),
        ("cors_origins", "app", "https://app.example.com"),
    ],
)
def test_an_invalid_value_is_named_with_its_source_and_what_is_expected(
    name: str, text: str, expected: str
) -> None:
    for flags, environment, where in (
        ({}, {f"PENSTOCK_{name.upper()}": text}, f"(PENSTOCK_{name.upper()})"),
        ({name: text}, {}, f"(--{name.replace('_', '-')})"),
    ):
        with pytest.raises(ConfigError) as caught:
            load_config(flags, environment)
        message = str(caught.value)
        assert "\n" not in message
        says(message, f'"{text}"', name, where, expected)


def test_an_invalid_value_in_the_file_names_the_file(file: Path) -> None:
    says(line(file, "port = 'x'"), '"x"', "port", str(file), "integer", "0", "65535")
    says(line(file, "port = true"), "True", "port")
    says(line(file, "port = [1]"), "[1]", "port")
    says(line(file, "memory = 3"), "true or false")


def test_unknown_names_get_the_nearest(file: Path) -> None:
    says(line(file, "prot = 1"), 'unknown setting "prot"', str(file), '"port"')
    says(line(file, "[server]\nport = 1"), 'unknown setting "server"')
    says(line(file, "[queue.a]"), '"queues"')
    with pytest.raises(ConfigError, match=r'"PENSTOCK_PRT".*"PENSTOCK_PORT"'):
        load_config({}, {"PENSTOCK_PRT": "1"})
    with pytest.raises(ConfigError, match=r'unknown setting "PENSTOCK_XYZZY_QQ"[^"]*$'):
        load_config({}, {"PENSTOCK_XYZZY_QQ": "1"})


def test_files_that_cannot_be_read(tmp_path: Path, file: Path) -> None:
    with pytest.raises(ConfigError, match=r'config file ".*nowhere.toml" \(--config\): No such file'):
        load_config({"config": str(tmp_path / "nowhere.toml")}, {})
    with pytest.raises(ConfigError, match=r"\(PENSTOCK_CONFIG\): Is a directory"):
        load_config({}, {"PENSTOCK_CONFIG": str(tmp_path)})
    assert "is not valid TOML" in line(file, "port = = 1")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_config({"config": str(file)}, {})


def test_waits_of_sqs_are_relaxed_in_memory_unless_set_otherwise() -> None:
    assert load_config({}, {}).broker_limits.purge_pause_ms == 60_000
    assert load_config({}, {}).broker_limits.delete_pause_ms == 60_000
    for relaxed in ({"memory": "true"}, {"relaxed_waits": "true"}):
        limits = load_config(relaxed, {}).broker_limits
        assert (limits.purge_pause_ms, limits.delete_pause_ms) == (0, 0)
    assert (
        load_config({"memory": "true", "relaxed_waits": "false"}, {}).broker_limits.purge_pause_ms == 60_000
    )


def test_the_endpoint_url_is_for_the_default_region() -> None:
    config = load_config({"public_url": "http://sqs.{region}.localhost:9324", "region": "eu-west-1"}, {})
    assert config.endpoint_url(config.addresses[0]) == "http://sqs.eu-west-1.localhost:9324"
    assert load_config({}, {}).endpoint_url(config.addresses[0]) == "http://127.0.0.1:9324"


def test_tls_needs_both_files() -> None:
    with pytest.raises(ConfigError, match=r"tls_certificate.*tls_key"):
        load_config({"tls_certificate": "a.pem"}, {})
    with pytest.raises(ConfigError, match=r"tls_key.*tls_certificate"):
        load_config({}, {"PENSTOCK_TLS_KEY": "a.pem"})


DECLARED = """
[queues.orders]
VisibilityTimeout = 45
SqsManagedSseEnabled = true
dead_letter = {queue = "orders-dead", max_receives = 3}
tags = {team = "billing"}

[queues."events.fifo"]
ContentBasedDeduplication = true

[queues.orders-dead]
RedriveAllowPolicy = {redrivePermission = "allowAll"}
"""


def test_declared_queues(file: Path) -> None:
    orders, events, dead = load(file, DECLARED).queues
    assert orders.attributes == {"VisibilityTimeout": "45", "SqsManagedSseEnabled": "true"}
    assert (orders.dead_letter, orders.tags) == (DeadLetter("orders-dead", 3), {"team": "billing"})
    assert json.loads(orders.all_attributes(Space("111111111111", "eu-west-1"))["RedrivePolicy"]) == {
        "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:111111111111:orders-dead",
        "maxReceiveCount": 3,
    }
    assert events.attributes == {"ContentBasedDeduplication": "true", "FifoQueue": "true"}
    assert json.loads(dead.attributes["RedriveAllowPolicy"]) == {"redrivePermission": "allowAll"}
    assert dead.all_attributes(Space("1", "x")) == dead.attributes


def test_a_redrive_policy_can_be_written_as_in_sqs(file: Path) -> None:
    policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:d","maxReceiveCount":"5"}'
    (queue,) = load(file, f"[queues.a]\nRedrivePolicy = '{policy}'").queues
    assert queue.all_attributes(Space("000000000000", "us-east-1")) == {"RedrivePolicy": policy}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[queues.a]\nVisibilityTimeot = 1", 'unknown "VisibilityTimeot" [queues.a]'),
        ("[queues.a]\nVisibilityTimeot = 1", '"VisibilityTimeout"'),
        ("[queues.a]\nvisibilitytimeout = 1", '"VisibilityTimeout"'),
        ("[queues.a]\nQueueArn = 'x'", 'unknown "QueueArn"'),
        ("[queues.a]\nVisibilityTimeout = 43201", "queues.a VisibilityTimeout"),
        ("[queues.a]\nVisibilityTimeout = 1.5", "invalid 1.5 queues.a.VisibilityTimeout text"),
        ("[queues.a]\nVisibilityTimeout = {a = 1}", "queues.a.VisibilityTimeout"),
        ("[queues.a]\nContentBasedDeduplication = true", "invalid queues.a"),
        ("[queues.'a b']", "invalid queues.a b: alphanumeric"),
        ("[queues.a]\nfifo = true", "queues.a FIFO .fifo"),
        ("[queues.'a.fifo']\nfifo = false", "queues.a.fifo FIFO .fifo"),
        ("[queues.a.fifo]", '[queues."a.fifo"] quotes'),
        ("[queues.a]\nfifo = 3", "queues.a.fifo true false"),
        ("[queues.a]\ntags = {a = 1}", "invalid queues.a.tags"),
        ("[queues.a]\ndead_letter = 'b'", "invalid queues.a.dead_letter"),
        ("[queues.a]\ndead_letter = {queue = 'b'}", "invalid queues.a.dead_letter"),
        ("[queues.a]\ndead_letter = {queue = 'b', max_receive = 1}", '"max_receives"'),
        ("[queues.a]\ndead_letter = {queue = 'b', max_receives = 0}", "invalid queues.a"),
        ("[queues.a]\nRedrivePolicy = '{}'\ndead_letter = {queue = 'b', max_receives = 1}", "both RedrivePolicy"),
        ("[queues.a]\nPolicy = 'nonsense'", "invalid queues.a"),
        ("[queues]\na = 1", "table [queues.a]"),
        ("queues = 1", "table [queues.NAME]"),
    ],
)  # fmt: skip
def test_mistakes_in_declared_queues(file: Path, text: str, words: str) -> None:
    message = line(file, text)
    says(message, str(file), *words.split())


CLUSTER = 'store = "postgresql://localhost/x"\nadvertise = "node:1"\ncluster_secret_file = "secret"\n'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (CLUSTER + 'cluster_tls_certificate = "c.pem"', "cluster_tls_certificate.*cluster_tls_key"),
        (CLUSTER + 'cluster_tls_ca = "c.pem"', "cluster_tls_ca.*cluster_tls_certificate"),
        ('cluster_tls_ca = "ca.pem"', "cluster_tls_ca.*advertise"),
    ],
)
def test_tls_between_nodes_needs_a_cluster_and_all_three_files(file: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        load(file, text)


@pytest.mark.parametrize("service", ["PENSTOCK", "PENSTOCK_MAIN", "PENSTOCK_2"])
def test_variables_that_kubernetes_sets_for_services_are_ignored(service: str) -> None:
    """Every pod beside a Service named penstock or penstock-main has such variables."""
    links = {
        f"{service}_SERVICE_HOST": "10.0.0.1",
        f"{service}_SERVICE_PORT": "9324",
        f"{service}_SERVICE_PORT_HTTP": "9324",
        f"{service}_PORT": "tcp://10.0.0.1:9324",
        f"{service}_PORT_9324_TCP": "tcp://10.0.0.1:9324",
        f"{service}_PORT_9324_TCP_PROTO": "tcp",
        f"{service}_PORT_9324_TCP_PORT": "9324",
        f"{service}_PORT_9324_TCP_ADDR": "10.0.0.1",
    }
    assert load_config({}, links) == Config()
    with pytest.raises(ConfigError, match="PENSTOCK_PORTS"):
        load_config({}, links | {"PENSTOCK_PORTS": "9324"})
    with pytest.raises(ConfigError, match="PENSTOCK_PORT"):
        load_config({}, {"PENSTOCK_PORT": "many"})
