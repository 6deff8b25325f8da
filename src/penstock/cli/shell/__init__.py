"""The interactive mode, and DynamoMQ's commands."""

from __future__ import annotations

from penstock.cli.shell.interactive import command

__all__ = ["command"]
