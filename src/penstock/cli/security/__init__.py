"""Commands about users, permissions, keys and the audit log."""
