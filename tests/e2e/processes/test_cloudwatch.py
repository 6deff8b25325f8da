"""Metrics and alarms with two processes: requests reach one that does not own what they are about."""

from __future__ import annotations

from e2e.test_cloudwatch import *  # noqa: F403
from e2e.test_cloudwatch import watch_client
from support.process import ServerProcess

ACCOUNTS = [str(210_000_000_000 + number) for number in range(8)]


def test_any_process_answers_about_every_account(server: ServerProcess) -> None:
    """Each client has its own connection, which either process has accepted."""
    for number, account in enumerate(ACCOUNTS):
        watch_client(server.url, account).put_metric_data(
            Namespace="App", MetricData=[{"MetricName": "m", "Value": number}]
        )
        watch_client(server.url, account).put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        watch_client(server.url, account).put_metric_alarm(
            AlarmName="a", Namespace="App", MetricName="m", Statistic="Sum", Period=60, EvaluationPeriods=1,
            Threshold=1, ComparisonOperator="GreaterThanThreshold",
        )  # fmt: skip
    for account in ACCOUNTS:
        assert len(watch_client(server.url, account).describe_alarms()["MetricAlarms"]) == 1
        assert len(watch_client(server.url, account).list_metrics()["Metrics"]) == 1
        assert len(watch_client(server.url, account).list_dashboards()["DashboardEntries"]) == 1
        watch_client(server.url, account).delete_alarms(AlarmNames=["a"])
