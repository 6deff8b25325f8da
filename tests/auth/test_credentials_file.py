"""The credentials file: what can be said in it, how it is written, and who may be able to read it."""

from __future__ import annotations

import os
import re
import stat
import threading
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.identity.admin import add_key, add_user, find_user
from penstock.auth.identity.file import changed_file, parse_credentials, read_file, written
from penstock.auth.identity.model import AccessKey, Account, CredentialsContent, CredentialsError, Role, User
from penstock.auth.secret_files import replace_file, why_not_private
from support.identities import HOME, ROOT_KEY, THEN, allow, document
from support.rows import every_row
from support.texts import says

BY_HAND = """
# ours
version = 1

[policies]
senders = '''{"Statement": {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}}'''

[policies.readers]
Version = "2012-10-17"
[[policies.readers.Statement]]
Effect = "Allow"
Action = ["sqs:ReceiveMessage"]
Resource = "*"
[policies.readers.Statement.Condition.IpAddress]
"aws:SourceIp" = "10.0.0.0/8"

[accounts.111122223333.users."j.doe@example.com"]
policies = ["senders", "readers", "sqs-read-only"]
tags = { team = "orders" }

[accounts.111122223333.roles.worker]
trust = '''{"Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}}'''
"""


# -- what is written can be read -----------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.text("abcXYZ019_+=,.@-", min_size=1, max_size=12).filter(lambda name: name != "root")
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
scalars = texts | st.integers(-(2**60), 2**60) | st.booleans() | moments
documents = texts | st.dictionaries(
    texts,
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=3,
)
keys = st.builds(
    AccessKey, id=st.from_regex(r"[A-Z0-9]{4,20}", fullmatch=True), secret=texts, created=moments,
    status=st.sampled_from(["active", "inactive"]),
)  # fmt: skip
holding = {
    "id": texts, "created": st.none() | moments, "tags": st.dictionaries(texts, texts, max_size=2),
    "policies": st.lists(texts, max_size=2), "inline": st.dictionaries(texts, documents, max_size=2),
}  # fmt: skip
users = st.builds(User, keys=st.lists(keys, max_size=2), sessions_since=st.none() | moments, **holding)
roles = st.builds(Role, trust=documents, max_session=st.integers(3600, 43200), **holding)
accounts = st.builds(
    Account, keys=st.lists(keys, max_size=1), users=st.dictionaries(names, users, max_size=2),
    roles=st.dictionaries(names, roles, max_size=2),
)  # fmt: skip
books = st.builds(
    CredentialsContent, policies=st.dictionaries(names, documents, max_size=2),
    accounts=st.dictionaries(st.from_regex(r"[0-9]{12}", fullmatch=True), accounts, max_size=2),
)  # fmt: skip


@given(books)
def test_any_content_is_read_as_it_was_written(content: CredentialsContent) -> None:
    table = tomllib.loads(written(content))
    assert table.pop("version") == 1
    assert table == msgspec.to_builtins(content, builtin_types=(datetime,))


def test_a_file_written_by_hand_keeps_its_content() -> None:
    content = parse_credentials(BY_HAND)
    assert parse_credentials(written(content, BY_HAND)) == content
    assert content.accounts[HOME].users["j.doe@example.com"].tags == {"team": "orders"}


def test_comments_at_the_top_are_kept_and_those_below_are_not() -> None:
    text = written(parse_credentials(BY_HAND + "# at the end\n"), BY_HAND)
    assert text.startswith("# ours\n\nversion = 1\n")
    assert "# at the end" not in text
    assert written(CredentialsContent()).startswith("# ")


# -- what is wrong is said -----------------------------------------------------------------------------------

V1 = "version = 1\n"
TWICE = """version = 1
[[accounts.111122223333.keys]]
id = "AKIAX"
secret = ""
[[accounts.111122223333.keys]]
id = "AKIAX"
secret = ""
"""


@every_row(
    ("text", "words"),
    [
        ("version =", "not TOML: Invalid value (at end of document)"),
        ("version = 2", "the file: Invalid enum value 2 - at `$.version`"),
        *[(text, 'no "version = 1" truncated') for text in ("", "# nothing\n", "[accounts]")],
        (V1 + "user = 1", "the file: Object contains unknown field `user`"),
        (V1 + "accounts = 1", "accounts tables"),
        (V1 + "[accounts.12]", 'account "12" twelve digits'),
        (V1 + "[accounts.111122223333.groups]", "account 111122223333: Object contains unknown field `groups`"),
        (V1 + "[accounts.111122223333.users.root]", "user cannot root account"),
        (V1 + '[accounts.111122223333.users."a b"]', 'invalid name user "a b" letters digits _+=,.@- 64'),
        (
            V1 + "[accounts.111122223333.users.al]\npolicies = 1",
            'user "al" of account 111122223333: Expected `array`, got `int` - at `$.policies`',
        ),
        (
            V1 + "[accounts.111122223333.roles.al]",
            'role "al" of account 111122223333: Object missing required field `trust`',
        ),
        (TWICE, "access key AKIAX twice"),
    ],
)  # fmt: skip
def test_errors_are_one_line(text: str, words: str) -> None:
    with pytest.raises(CredentialsError) as raised:
        parse_credentials(text)
    assert "\n" not in str(raised.value)
    says(str(raised.value), *words.split())


def test_a_change_that_a_server_would_refuse_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with changed_file(path) as content:
        add_user(content, HOME, "alice", THEN)
    before = path.read_text()
    with (
        pytest.raises(CredentialsError, match='no policy "nonsense"'),
        changed_file(path) as content,
    ):
        content.accounts[HOME].users["alice"].policies.append("nonsense")
    with (
        pytest.raises(CredentialsError, match=r'policy "bad": .*JSON'),
        changed_file(path) as content,
    ):
        content.policies["bad"] = "{"
    trust = document(allow("sts:AssumeRole", Principal="*", Resource="*"))
    with pytest.raises(CredentialsError, match='trust policy of role "r"'), changed_file(path) as content:
        content.accounts[HOME].roles["r"] = Role(trust=trust)
    assert path.read_text() == before


def test_an_empty_file_is_not_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.touch(0o600)
    with pytest.raises(CredentialsError, match="was it truncated"), changed_file(path):
        raise AssertionError
    assert path.read_text() == ""


# -- on disk -------------------------------------------------------------------------------------------------


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with changed_file(path) as content:
        content.account(HOME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == [".c.toml.lock", "c.toml"]


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o660, 0o644, 0o777])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "c.toml"
    path.touch()
    path.chmod(mode)
    with pytest.raises(CredentialsError) as raised:
        read_file(path)
    assert re.search(rf"{path}.*chmod 6[04]0", str(raised.value))
    with pytest.raises(CredentialsError), changed_file(path):
        pass


def found(*, owner: int, mode: int) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))


def test_the_owner_must_be_the_user_or_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not_private(found(owner=1000, mode=0o600)) is None
    assert why_not_private(found(owner=1000, mode=0o400)) is None
    assert why_not_private(found(owner=0, mode=0o440)) is None  # as service managers hand files out
    says(why_not_private(found(owner=1000, mode=0o640)) or "", "chmod 600")
    says(why_not_private(found(owner=0, mode=0o444)) or "", "chmod 640")
    says(why_not_private(found(owner=1001, mode=0o600)) or "", "another user", "chown")


def test_a_group_may_read_a_file_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert why_not_private(found(owner=0, mode=0o640)) is None
    assert why_not_private(found(owner=0, mode=0o600)) is None
    for mode in (0o660, 0o644, 0o650):
        says(why_not_private(found(owner=0, mode=mode)) or "", "chmod 640")
    says(why_not_private(found(owner=1000, mode=0o600)) or "", "another user")


def test_what_root_changes_keeps_its_owner_and_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.toml"
    path.touch()
    path.chmod(0o640)
    before = path.stat()
    kept: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: kept.append((owner, group)))
    replace_file(path, b"new")
    after = path.stat()
    assert path.read_bytes() == b"new" and after.st_ino != before.st_ino
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert kept == [(before.st_uid, before.st_gid)]


@pytest.mark.parametrize("what", ["pipe", "device", "folder"])
def test_only_a_regular_file_is_read_without_blocking(tmp_path: Path, what: str) -> None:
    path = tmp_path / "c.toml"
    match what:
        case "pipe":
            os.mkfifo(path, 0o600)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
    with pytest.raises(CredentialsError, match=r"not a regular file|Is a directory"):
        read_file(path)


def test_a_file_of_any_size_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.touch(0o600)
    os.truncate(path, 2**40)
    with pytest.raises(CredentialsError, match="larger than 16777216 bytes"):
        read_file(path)


def test_a_change_that_fails_leaves_the_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.toml"
    with changed_file(path) as content:
        content.account(HOME)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CredentialsError, match="No space left on device"), changed_file(path) as content:
        add_user(content, HOME, "alice", THEN)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [".c.toml.lock", "c.toml"]


def test_concurrent_changes_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"

    def add(name: str) -> None:
        with changed_file(path) as content:
            add_user(content, HOME, name, THEN)

    threads = [threading.Thread(target=add, args=(f"user{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_file(path).accounts[HOME].users) == 12


def test_the_target_of_a_link_changes(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "c.toml", tmp_path / "real" / "c.toml"
    with changed_file(real) as content:
        content.account(HOME)
    link.symlink_to(real)
    with changed_file(link) as content:
        add_user(content, HOME, "alice", THEN)
    assert link.is_symlink()
    assert "alice" in real.read_text()


def test_no_secret_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    with changed_file(path) as content:
        _, secret = add_key(add_user(content, HOME, "alice", THEN), ROOT_KEY, THEN)
    assert len(secret) == 40
    assert secret not in path.read_text()
    assert find_user(read_file(path), "alice", None).keys[0].secret
