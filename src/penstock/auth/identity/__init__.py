"""Who there is: accounts with their users, roles and keys, out of the credentials file; and their sessions."""

from penstock.auth.identity.book import CredentialsError
from penstock.auth.identity.credentials import Credentials
from penstock.auth.identity.directory import Directory

__all__ = ["Credentials", "CredentialsError", "Directory"]
