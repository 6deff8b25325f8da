"""The credentials file on disk: for its owner alone, and never half written.

Rule 1: a file that others may read or write is refused, with what to do about it.
Rule 2: a change is written beside the file, made durable, and put in its place in one step. Whoever reads sees the
old file or the new one.
Rule 3: changes take turns: two commands at once do not undo each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.identity.access_keys import reroot_key
from penstock.auth.identity.book import Book, CredentialsError, CredentialsUnreadable, all_keys
from penstock.auth.identity.principals import check_book
from penstock.auth.identity.toml import read_book, written
from penstock.auth.secret_files import NotPrivate, read_private, replace_file, turn


def read_file(path: Path) -> Book:
    """Raises CredentialsError."""
    with _told_with(path):
        return read_book(_read(path))


@contextmanager
def changed_file(path: Path) -> Iterator[Book]:
    """The book to change; it is written when the block ends without an error. A file is made if there is none."""
    with ExitStack() as stack:
        with _told_with(path):
            stack.enter_context(turn(path))
            text = _read(path) if path.exists() else None
            book = Book() if text is None else read_book(text)
        yield book
        with _told_with(path):
            replace_file(path, _text(book, text or ""))


@contextmanager
def rerooted_credentials(path: Path, old: RootKey, new: RootKey) -> Iterator[bytes | None]:
    """What the file has to say to be sealed under another root key; None if it is already. Within the block it is
    ours to change. Raises CredentialsError."""
    with ExitStack() as stack:
        with _told_with(path):
            stack.enter_context(turn(path))
            text = _read(path)
            book = read_book(text)
            changed = [reroot_key(each.key, old, new) for each in all_keys(book)]
            after = _text(book, text) if any(changed) else None
        yield after


def _text(book: Book, before: str) -> bytes:
    after = written(book, before)
    check_book(read_book(after))  # what a server would refuse is not written
    return after.encode()


def _read(path: Path) -> str:
    try:
        return read_private(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CredentialsError("it is not UTF-8 text") from None


@contextmanager
def _told_with(path: Path) -> Iterator[None]:
    try:
        yield
    except (CredentialsError, NotPrivate) as error:
        raise CredentialsError(f"cannot use the credentials file {path}: {error}") from None
    except OSError as error:
        raise CredentialsUnreadable(f"cannot use the credentials file {path}: {error.strerror}") from None
