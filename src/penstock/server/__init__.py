"""The server: sockets, settings, and the one place that puts the parts together."""
