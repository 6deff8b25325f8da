"""The help of ``penstock serve``: the settings that most people need, and all of them in sections."""

from __future__ import annotations

import click

from penstock.server.settings.config import settings

# The sections are those of docs/configuration.md.
MOST_USED = (
    "host", "port", "data", "memory", "store", "processes", "public_url", "credentials", "root_key_file",
    "log_format",
)  # fmt: skip
SECTIONS = {
    "Listening": (
        "host", "port", "listen", "tls_certificate", "tls_key", "tls_client_auth", "tls_client_ca",
        "allow_plain_http", "public_url", "trusted_proxies", "cors_origins", "console",
    ),
    "Data": (
        "data", "backup_directory", "memory", "test_clock", "processes", "shards", "durability",
        "durability_interval", "relaxed_waits", "memory_budget",
        "message_history", "message_history_time", "disk_warning",
    ),
    "Database and cluster": (
        "store", "advertise", "cluster_listen", "cluster_secret_file", "cluster_tls_certificate", "cluster_tls_key",
        "cluster_tls_ca",
    ),
    "Metrics": (
        "metrics_size", "metrics_queues", "metrics_listen", "metrics_networks", "metrics_token_file",
        "otel_endpoint",
    ),
    "Authentication": ("credentials", "regions"),
    "Encryption": ("root_key_file", "root_key_command", "keyring"),
    "Audit log": ("audit", "audit_data_events", "audit_max_size", "audit_keep", "audit_required"),
    "Accounts and regions": ("account", "region"),
    "Logs": ("log_level", "log_format", "print_ready"),
    "Connection limits and timeouts": (
        "max_connections", "max_connections_per_address", "max_header_size", "max_body_size", "max_buffered_size",
        "idle_timeout", "header_timeout", "body_timeout", "write_timeout", "stop_timeout",
    ),
    "Rate limits": ("requests_per_second", "requests_burst"),
    "Quotas": ("quota_queues", "quota_messages", "quota_bytes"),
    "Topics": ("topic_private_endpoints", "smtp_url", "smtp_password_file", "email_from"),
    "Metrics and alarms": ("quota_metrics", "quota_alarms", "metrics_memory", "alarm_webhooks"),
}  # fmt: skip
_ALL = "penstock.all_settings"


class SettingsCommand(click.Command):
    """A command with the flags of all settings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = {param.name: line for param in self.get_params(ctx) if (line := param.get_help_record(ctx))}
        others = [line for name, line in lines.items() if name not in settings()]
        with formatter.section("Options"):
            formatter.write_dl(others)
        for title, names in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl([lines[name] for name in names if name in lines])
        if _ALL not in ctx.meta:
            formatter.write_paragraph()
            formatter.write_text(f"All {len(settings())} settings: {ctx.command_path} --help-all")

    def sections(self, ctx: click.Context) -> dict[str, tuple[str, ...]]:
        if _ALL not in ctx.meta:
            return {"Settings that most people need": MOST_USED}
        listed = {name for names in SECTIONS.values() for name in names}
        rest = tuple(name for name in settings() if name not in listed)
        return SECTIONS | ({"Other settings": rest} if rest else {})


def _help_all(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        show_all_settings(ctx)
        click.echo(ctx.get_help())
        ctx.exit()


def show_all_settings(ctx: click.Context) -> None:
    """Make the help of this context show all settings."""
    ctx.meta[_ALL] = True


help_all_option = click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all,
    help="Show all settings and exit.",
)  # fmt: skip
