"""The rules of queues: pure decisions, no clock, no store, no wire."""
