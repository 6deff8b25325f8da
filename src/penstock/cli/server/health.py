"""``penstock health``, for containers and scripts without curl."""

from __future__ import annotations

import json
import os
import ssl
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import click

from penstock.cli.failure import Failure, printable
from penstock.client.objects import read_json
from penstock.server.settings.address import Address, parse_address


def _default_url(config: str | None) -> str:
    if config or os.environ.get("PENSTOCK_CONFIG"):
        from penstock.cli.options import configured  # loads all settings; without a file that is not needed

        settings = configured({"config": config})
        return f"{settings.scheme}://{settings.addresses[0].local}"
    scheme = "https" if os.environ.get("PENSTOCK_TLS_CERTIFICATE") else "http"
    return f"{scheme}://{_first_address().local}"


def _first_address() -> Address:
    listen = os.environ.get("PENSTOCK_LISTEN", "")
    port = os.environ.get("PENSTOCK_PORT", "9324")
    if "://" in port:
        port = "9324"  # set by Kubernetes for a Service named penstock, not by the operator
    try:
        if listen.strip(", "):
            return parse_address(listen.strip(", ").partition(",")[0].strip())
        return Address(os.environ.get("PENSTOCK_HOST", "127.0.0.1"), int(port))
    except ValueError:
        if listen.strip(", "):
            problem = (
                f'invalid value "{listen}" for PENSTOCK_LISTEN: expected an address such as 127.0.0.1:9324'
            )
        else:
            problem = f'invalid value "{port}" for PENSTOCK_PORT: expected an integer from 0 to 65535'
        raise Failure(f"{problem}; or use --url") from None


@click.command("health")
@click.option(
    "--url",
    metavar="URL",
    help="URL of the broker. Default: from the settings.",
)
@click.option("--config", metavar="FILE", help="Config file of the broker.  [PENSTOCK_CONFIG]")
@click.option(
    "--timeout", type=click.FloatRange(0.1, 60), default=3.0, show_default=True, help="Seconds to wait."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer of the broker as JSON.")
def command(url: str | None, config: str | None, timeout: float, as_json: bool) -> None:
    """Ask a running broker whether it is ready. Exit code 0: ready. 1: not ready, or no response.

    Without --url, the broker on this machine is asked, at the address in its settings: the config file and the same
    environment variables as for serve.

    \b
    Examples:
      penstock health
      penstock health --config /etc/penstock/penstock.toml
      penstock health --url http://queues.internal:9324 --json
      HEALTHCHECK CMD ["penstock", "health"]
    """
    # Without --url, the server on this machine is asked: its certificate does not name the loopback address.
    status, page = _ask(url or _default_url(config), timeout, verify=url is not None)
    if as_json:
        click.echo(json.dumps({**page, "ready": status == 200}))
        sys.exit(0 if status == 200 else 1)
    if status == 200:
        sends, processes = str(page.get("sends", "accepted")), str(page.get("processes", "all"))
        but = [] if sends == "accepted" else [f"sends are {sends}"]
        but += (
            [] if processes.startswith("all") else [f"only {processes.removesuffix(' ready')} processes are"]
        )
        click.echo(printable(f"ready, but {' and '.join(but)}") if but else "ready")
        return
    reasons = page.get("reasons")
    why = "; ".join(map(str, reasons)) if isinstance(reasons, list) else f"status {status}"
    click.echo(printable(f"not ready: {why}"), err=True)
    sys.exit(1)


def _ask(url: str, timeout: float, *, verify: bool) -> tuple[int, dict[str, object]]:
    """Status and content of the page. 0: there was no response, for the reasons in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise Failure(f'invalid value "{url}" for --url: expected a URL such as http://127.0.0.1:9324')
    connection = _connection(parts.scheme, host, port, timeout, verify=verify)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/health/ready")
        response = connection.getresponse()
        page = read_json(response.read(65536) or b"{}")
        return response.status, page if isinstance(page, dict) else {}
    except (OSError, HTTPException) as error:
        return 0, {"reasons": [f"no response from {url}: {getattr(error, 'strerror', None) or error}"]}
    except ValueError:
        return 0, {"reasons": [f"the response from {url} is not that of a broker"]}
    finally:
        connection.close()


def _connection(scheme: str, host: str, port: int | None, timeout: float, *, verify: bool) -> HTTPConnection:
    if scheme == "http":
        return HTTPConnection(host, port, timeout=timeout)
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return HTTPSConnection(host, port, timeout=timeout, context=context)
