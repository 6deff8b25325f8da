"""Penstock: a durable, self-hosted message broker that speaks Amazon SQS."""

__version__ = "0.2.0"
