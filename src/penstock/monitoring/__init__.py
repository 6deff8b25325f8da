"""Metrics that clients send, alarms that watch metrics, dashboards: what an account keeps beside its queues."""
