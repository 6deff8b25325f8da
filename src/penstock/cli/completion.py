"""``penstock completion``: commands, flags and queue names on the Tab key."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

_VARIABLE = "_PENSTOCK_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that completes commands and queue names in a shell.

    Queue names come from the server that the flags, the variables or the context choose. If it does not answer within
    a second, none are completed.

    \b
    Examples:
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > "${fpath[1]}/_penstock"
      penstock completion fish > ~/.config/fish/completions/penstock.fish
      source <(penstock completion bash)
    """
    from penstock.cli import main

    found = get_completion_class(shell)
    assert found is not None
    # Not the method of the class: for bash it starts one to ask for its version.
    click.echo(ShellComplete.source(found(main, {}, "penstock", _VARIABLE)))
