"""How this server reaches the subscribers of topics that are no queues, as the settings want it."""

from __future__ import annotations

import logging

from penstock.auth.secret_files import NotPrivate, read_private
from penstock.outgoing import OpenUrls, OutgoingHttp
from penstock.publishing.email_delivery import MailFailed, MailSender, MailServer
from penstock.publishing.http_delivery import AT_A_TIME, OF_ONE_ACCOUNT, TIMEOUT_S, HttpEndpoints
from penstock.server.settings.config import Config, ConfigError

log = logging.getLogger("penstock.server")

_PASSWORD_BYTES_MAX = 4096


class TopicEndpoints:
    """``http`` and ``mail`` are for the deliveries of topics."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError."""
        # A client of its own: endpoints that do not answer must not take the turns of alarms.
        self._outgoing = OutgoingHttp(TIMEOUT_S, at_a_time=AT_A_TIME, of_one_account=OF_ONE_ACCOUNT)
        self.http = HttpEndpoints(self._outgoing, OpenUrls(config.private_endpoints))
        self.mail = MailSender(mail_server(config), lambda server: _with_password(server, self._config))
        self._config = config
        if config.smtp_url is not None:
            _password(config)

    def change(self, config: Config) -> None:
        self._config = config
        self.http.change(OpenUrls(config.private_endpoints))
        self.mail.change(mail_server(config))
        if config.smtp_url is not None:
            try:
                _password(config)
            except ConfigError as error:
                log.error("mail of topics waits: %s", error)

    def close(self) -> None:
        """End the requests under way. Nothing has to be waited for."""
        self._outgoing.close()


def mail_server(config: Config) -> MailServer | None:
    """Returns the mail server without a password of a file."""
    if config.smtp_url is None or config.email_from is None:
        return None
    return MailServer.parse(config.smtp_url, config.email_from)


def _with_password(server: MailServer, config: Config) -> MailServer:
    """Returns the server with the password as it is in its file now. Raises MailFailed."""
    try:
        password = _password(config)
    except ConfigError as error:
        raise MailFailed(str(error), can_repeat=True) from None
    return server if password is None else server._replace(password=password)


def _password(config: Config) -> str | None:
    """Raises ConfigError."""
    path = config.smtp_password_file
    if path is None:
        return None
    try:
        return read_private(path, _PASSWORD_BYTES_MAX).decode().strip()
    except UnicodeDecodeError:
        raise ConfigError(f"cannot use the password of the mail server {path}: it is not text") from None
    except OSError as error:
        raise ConfigError(f"cannot read the password of the mail server {path}: {error.strerror}") from None
    except NotPrivate as error:
        raise ConfigError(f"cannot use the password of the mail server {path}: {error}") from None
