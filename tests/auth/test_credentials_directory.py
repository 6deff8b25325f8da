"""Keys to secrets and principals, out of one state of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.errors import AuthenticationError
from penstock.auth.identity import CredentialsError, Directory
from penstock.auth.identity.admin import add_key, add_user, find_user
from penstock.auth.identity.file import read_file
from penstock.auth.identity.model import CredentialsContent, unique_id
from penstock.auth.policy import Question, decide
from support.identities import HOME, ROOT_KEY, THEN, Accounts, allow, document
from support.texts import says

QUEUE = f"arn:aws:sqs:us-east-1:{HOME}:orders"


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    return Accounts(tmp_path)


def refused(directory: Directory, access_key: str, token: str | None = None) -> tuple[str, str]:
    """How a key is refused; it gets the same answer wherever it is asked about."""
    answers = set()
    for ask in (directory.secret, directory.principal):
        with pytest.raises(AuthenticationError) as raised:
            ask(access_key, token)
        answers.add((type(raised.value).__name__, str(raised.value)))
    (answer,) = answers
    return answer


INVALID = ("InvalidToken", "The security token included in the request is invalid.")


def test_a_user_has_its_secret_name_and_policies(accounts: Accounts) -> None:
    policy = document(allow("sqs:SendMessage", Resource=QUEUE))
    key = accounts.user("alice", "sqs-read-only", policy, tags={"team": "orders"})
    assert accounts.credentials.directory.secret(key, None) == accounts.secrets[key]
    alice = accounts.credentials.directory.principal(key, None)
    assert (alice.kind, alice.account, alice.name) == ("user", HOME, "alice")
    assert alice.arn == f"arn:aws:iam::{HOME}:user/alice"
    assert alice.id.startswith("AIDA") and len(alice.id) == 21
    assert alice.tags == {"team": "orders"}
    assert alice.access_key == key
    verdict = decide(Question(alice, "sqs:SendMessage", QUEUE, HOME))
    assert (verdict.allowed, verdict.policy) == (True, "identity:alice-1")
    assert not decide(Question(alice, "sqs:DeleteQueue", QUEUE, HOME)).allowed


def test_inline_policies_are_text_or_tables(accounts: Accounts) -> None:
    key = accounts.user("alice")

    def edit(content: CredentialsContent) -> None:
        inline = content.accounts[HOME].users["alice"].inline
        inline["text"] = document(allow("sqs:SendMessage", Resource="*"))
        inline["table"] = {"Version": "2012-10-17", "Statement": [allow("sqs:ReceiveMessage", Resource="*")]}

    accounts.change(edit)
    alice = accounts.credentials.directory.principal(key, None)
    by_action = {
        action: decide(Question(alice, f"sqs:{action}", QUEUE, HOME)).policy
        for action in ("SendMessage", "ReceiveMessage", "PurgeQueue")
    }
    assert by_action == {
        "SendMessage": "identity:text",
        "ReceiveMessage": "identity:table",
        "PurgeQueue": None,
    }


def test_the_root_of_an_account(accounts: Accounts) -> None:
    key = accounts.user("root")
    root = accounts.credentials.directory.principal(key, None)
    assert (root.kind, root.arn, root.id, root.name) == ("root", f"arn:aws:iam::{HOME}:root", HOME, None)
    assert decide(Question(root, "sqs:DeleteQueue", QUEUE, HOME)).allowed


def test_unknown_inactive_and_removed_keys_get_one_answer(accounts: Accounts) -> None:
    key = accounts.user("alice", "sqs-full-access")

    def status(status: str) -> None:
        def edit(content: CredentialsContent) -> None:
            find_user(content, "alice", None).keys[0].status = status  # type: ignore[assignment]

        accounts.change(edit)

    assert refused(accounts.credentials.directory, "AKIANOBODY") == INVALID
    assert refused(accounts.credentials.directory, key, "a token") == INVALID
    status("inactive")
    assert refused(accounts.credentials.directory, key) == INVALID
    status("active")
    assert accounts.credentials.directory.secret(key, None) == accounts.secrets[key]
    accounts.change(lambda content: content.accounts[HOME].users.pop("alice"))
    assert refused(accounts.credentials.directory, key) == INVALID


def test_both_keys_of_a_rotation_work(accounts: Accounts) -> None:
    first = accounts.user("alice")

    def edit(content: CredentialsContent) -> None:
        key = add_key(find_user(content, "alice", None), ROOT_KEY, THEN)
        accounts.secrets[key.id] = key.secret
        accounts.keys["alice"] = key.id

    accounts.change(edit)
    for key in (first, accounts.keys["alice"]):
        assert accounts.credentials.directory.secret(key, None) == accounts.secrets[key]
    with pytest.raises(CredentialsError, match="has two keys"):
        accounts.change(edit)


def test_another_root_key_is_reported(accounts: Accounts) -> None:
    key = accounts.user("alice")
    with pytest.raises(CredentialsError) as raised:
        Directory(read_file(accounts.path), RootKey(bytes(32)), accounts.clock)
    says(str(raised.value), f"access key {key}", "another root key")


def test_a_secret_does_not_fit_another_key(accounts: Accounts) -> None:
    accounts.user("alice")
    mallory = accounts.user("mallory")
    content = read_file(accounts.path)
    users = content.accounts[HOME].users
    users["mallory"].keys[0].secret = users["alice"].keys[0].secret
    with pytest.raises(CredentialsError, match=f"access key {mallory} cannot be decrypted"):
        Directory(content, ROOT_KEY, accounts.clock)


def test_a_secret_that_was_written_by_hand_is_refused(accounts: Accounts) -> None:
    accounts.user("alice")
    content = read_file(accounts.path)
    content.accounts[HOME].users["alice"].keys[0].secret = "not encrypted!"
    with pytest.raises(CredentialsError, match=r"not an encrypted.*penstock user rotate"):
        Directory(content, ROOT_KEY, accounts.clock)


def test_a_user_that_is_created_again_has_another_id(accounts: Accounts) -> None:
    content = CredentialsContent()
    first = add_user(content, HOME, "alice", THEN)
    del content.accounts[HOME].users["alice"]
    again = add_user(content, HOME, "alice", THEN)
    assert first.holder.id != again.holder.id
    again.holder.id = ""
    derived = unique_id(again.holder, again.arn)
    assert derived == unique_id(again.holder, again.arn) and len(derived) == 21
