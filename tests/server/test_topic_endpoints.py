"""Settings of topics: which private endpoints may be called, and the mail server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.options import shown
from penstock.promise import outcome, start
from penstock.publishing.email_delivery import MailFailed
from penstock.server.settings.config import Config, ConfigError, settings
from penstock.server.settings.load import load_config
from penstock.server.topic_endpoints import TopicEndpoints
from publishing.test_email_delivery import FakeSmtp, mail
from support.harness import run

MAIL = {"smtp_url": "smtp://user@mail.example.com", "email_from": "topics@example.com"}


def loaded(**flags: Any) -> Config:
    return load_config(flags, {})


@pytest.mark.parametrize(
    ("flags", "private"),
    [
        ({}, ("all",)),
        ({"host": "::1"}, ("all",)),
        ({"host": "localhost"}, ("all",)),
        ({"host": "0.0.0.0"}, ()),
        ({"listen": "127.0.0.1:9324,10.0.0.1:9324"}, ()),
        ({"credentials": "penstock-credentials.toml"}, ()),
        ({"trusted_proxies": "127.0.0.1"}, ()),
        ({"topic_private_endpoints": "none"}, ()),
        ({"host": "0.0.0.0", "topic_private_endpoints": "ALL"}, ("all",)),
        (
            {"topic_private_endpoints": "Hooks.internal, 10.1.2.3/8, ::1, 127.0.0.1, fd00::/8"},
            ("hooks.internal", "10.0.0.0/8", "::1/128", "127.0.0.1", "fd00::/8"),
        ),
    ],
)
def test_which_private_endpoints_may_be_called(flags: dict[str, str], private: tuple[str, ...]) -> None:
    assert loaded(**flags).private_endpoints == private


@pytest.mark.parametrize("value", ["10.0.0.0/99", "http://a/", "a b", "a,all", "-a", ""])
def test_other_texts_are_no_private_endpoints(value: str) -> None:
    with (
        pytest.raises(ConfigError, match="topic_private_endpoints")
        if value
        else pytest.raises(AssertionError)
    ):
        assert loaded(topic_private_endpoints=value).private_endpoints


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"smtp_url": "smtp://u:secret@h"}, "email_from is not"),
        ({"email_from": "a@b.example"}, "smtp_url is not"),
        ({"smtp_password_file": "x"}, "smtp_url is not"),
        ({**MAIL, "smtp_url": "http://u:secret@h"}, "invalid value"),
        ({**MAIL, "email_from": "Somebody <a@b.example>"}, "invalid value"),
    ],
)
def test_settings_of_mail_that_cannot_be(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        loaded(**flags)
    assert "secret" not in str(refused.value)


def test_the_password_is_not_shown() -> None:
    url = "smtp://user:secret@mail.example.com:587"
    assert "secret" not in shown(settings()["smtp_url"], url)


def private_file(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_the_password_is_read_for_each_message(tmp_path: Path) -> None:
    file = private_file(tmp_path / "password", "first\n")

    async def scene() -> None:
        async with FakeSmtp() as server:
            url = f"smtp://user@127.0.0.1:{server.port}"
            config = loaded(smtp_url=url, email_from="a@b.example", smtp_password_file=str(file))
            endpoints = TopicEndpoints(config)
            for password, shown_as in (("first", "AHVzZXIAZmlyc3Q="), ("second", "AHVzZXIAc2Vjb25k")):
                private_file(file, password)
                await outcome(start(endpoints.mail.send("0", mail())))
                assert f"AUTH PLAIN {shown_as}" in server.commands
            file.unlink()
            with pytest.raises(MailFailed, match="No such file") as refused:
                await outcome(start(endpoints.mail.send("0", mail())))
            assert refused.value.can_repeat

    run(scene)


def test_a_password_that_others_can_read_stops_the_start(tmp_path: Path) -> None:
    file = private_file(tmp_path / "password", "secret")
    TopicEndpoints(loaded(**MAIL, smtp_password_file=str(file)))
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="cannot use the password"):
        TopicEndpoints(loaded(**MAIL, smtp_password_file=str(file)))
    with pytest.raises(ConfigError, match="cannot read the password"):
        TopicEndpoints(loaded(**MAIL, smtp_password_file=str(tmp_path / "none")))


def test_settings_change_while_the_server_runs() -> None:
    async def scene() -> None:
        endpoints = TopicEndpoints(loaded(topic_private_endpoints="none"))
        url = "http://127.0.0.1:1/"
        assert endpoints.mail.server is None
        assert not await outcome(start(endpoints.http.may_subscribe("0", url)))
        endpoints.change(loaded(**MAIL, topic_private_endpoints="127.0.0.0/8"))
        assert endpoints.mail.server is not None and endpoints.mail.server.user == "user"
        assert await outcome(start(endpoints.http.may_subscribe("0", url)))

    run(scene)
