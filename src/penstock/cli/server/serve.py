"""``penstock serve``: start the broker and serve until a signal."""

from __future__ import annotations

import gc
import signal
from dataclasses import replace

import click

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.options import configured, with_settings
from penstock.cli.server.setting_sections import SettingsCommand, help_all_option
from penstock.server.terminal import Terminal


@click.command("serve", cls=SettingsCommand)
@help_all_option
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Start this once without the commits that a damaged write-ahead log has lost.",
)
@with_settings
def command(accept_data_loss: bool, **flags: object) -> None:
    """Start the broker and serve until SIGTERM or SIGINT.

    Every setting can be given as a flag, as an environment variable, or in the config file. A flag takes precedence
    over a variable, and a variable over the file.

    \b
    Examples:
      penstock serve
      penstock serve --memory --port 0
      penstock serve --memory --test-clock
      penstock serve --config /etc/penstock/penstock.toml --log-format json
      penstock serve --host 0.0.0.0 --public-url https://queues.example.com
      penstock serve --processes 4
      penstock serve --store postgresql://penstock@db/penstock
      penstock serve --store postgresql://penstock@db/penstock --advertise 10.0.0.5:9400 \\
          --cluster-secret-file cluster.secret
      PENSTOCK_PORT=4566 penstock serve

    \b
    Then:
      aws --endpoint-url http://127.0.0.1:9324 sqs create-queue --queue-name orders
    """
    # Not a setting: in a file or a variable it would stay, and hide the next damage.
    config = replace(configured(flags, serves=True), accept_data_loss=accept_data_loss)
    terminal = Terminal()
    # They have a meaning once the server runs. Until then they must not end the process.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    if not terminal.ends_server:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    gc.disable()  # modules leave no garbage, and looking for it while they are loaded takes time
    from penstock.server.lifecycle import ServerFailed, StartError, TemporaryStartError, run
    from penstock.server.processes.start import run_processes

    gc.enable()
    try:
        (run if config.processes == 1 else run_processes)(config, terminal)
    except TemporaryStartError as error:
        raise Breakdown(str(error)) from None
    except StartError as error:
        raise Failure(str(error)) from None
    except ServerFailed as error:
        raise Breakdown(str(error)) from None
