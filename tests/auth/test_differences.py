"""The line that says what changed in the credentials file: what, and whose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from identities import HOME, ROOT_KEY, THEN
from penstock.auth.identity.book import Book
from penstock.auth.identity.differences import differences
from penstock.auth.identity.editing import add_key, add_role, add_user, put_policy, trust_document
from penstock.auth.identity.toml import read_book, written

DENY = '{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}'


def book() -> Book:
    made = Book()
    for name in ("root", "alice"):
        add_key(add_user(made, HOME, name, THEN), ROOT_KEY, THEN)
    add_role(made, HOME, "worker", trust_document(["alice"], HOME, None), 3600, THEN)
    put_policy(made, "none", DENY)
    return made


def retag(book: Book) -> None:
    book.accounts[HOME].users["alice"].tags["team"] = "a"
    book.accounts[HOME].users["alice"].policies.append("none")


def prolong(book: Book) -> None:
    book.accounts[HOME].roles["worker"].max_session = 7200


def end_root_s_sessions(book: Book) -> None:
    book.accounts[HOME].sessions_since = THEN


def loosen(book: Book) -> None:
    book.policies["none"] = DENY.replace("Deny", "Allow")


def replace_the_secret(book: Book) -> None:
    (key,) = book.accounts[HOME].users["alice"].keys
    key.secret = "another"


def open_an_empty_account(book: Book) -> None:
    book.account("444455556666")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (retag, f"tags and policies of user {HOME}/alice changed"),
        (prolong, f"max_session of role {HOME}/worker changed"),
        (end_root_s_sessions, f"sessions_since of account {HOME} changed"),
        (loosen, "policy none changed"),
        (replace_the_secret, f"keys of user {HOME}/alice changed"),
        (open_an_empty_account, "nothing changed"),
    ],
)
def test_what_changed_and_whose(change: Callable[[Book], None], line: str) -> None:
    old = book()
    new = read_book(written(old))
    assert differences(old, new) == "nothing changed"
    change(new)
    assert differences(old, new) == line


def test_a_deactivated_key_is_told_once() -> None:
    old = book()
    new = read_book(written(old))
    (key,) = new.accounts[HOME].users["alice"].keys
    key.status = "inactive"
    assert differences(old, new) == f"active key {key.id} removed"
