"""Accounts with their users, roles and keys, from the credentials file, and their sessions."""

from penstock.auth.identity.credentials import Credentials
from penstock.auth.identity.directory import Directory
from penstock.auth.identity.model import CredentialsError

__all__ = ["Credentials", "CredentialsError", "Directory"]
