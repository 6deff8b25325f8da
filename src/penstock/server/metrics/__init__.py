"""Metrics of the server for Prometheus: what is measured, and the page that shows it."""
