"""Encryption at rest: root key, keyring, data keys."""
