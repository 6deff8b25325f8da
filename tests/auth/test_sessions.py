"""Temporary credentials: encrypted tokens, and when they are refused."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.encryption.root_key import RootKey
from penstock.auth.errors import AuthenticationError
from penstock.auth.identity import Credentials
from penstock.auth.identity.access_keys import Pair
from penstock.auth.identity.admin import add_key, add_user, find_role, find_user, remove, trust_document
from penstock.auth.identity.model import _RELOAD_TIME, CredentialsContent
from penstock.auth.identity.principals import SessionPrincipal
from penstock.auth.identity.sessions import (
    Hop,
    Issued,
    Session,
    Sessions,
    extended,
    open_account,
    open_session,
)
from penstock.auth.policy import Question, decide
from support.identities import ABROAD, HOME, ROOT_KEY, Accounts, allow, document

QUEUE = f"arn:aws:sqs:us-east-1:{HOME}:orders"
INVALID = ("InvalidToken", "The security token included in the request is invalid.")
EXPIRED = ("ExpiredToken", "The security token included in the request is expired")

some_hop = st.builds(Hop, kind=st.sampled_from(["root", "user", "role"]), issued_s=st.integers(0, 2**33))
some_session = st.builds(
    Session,
    kind=st.sampled_from(["root", "user", "role"]),
    **dict.fromkeys(
        ("account", "owner", "owner_id", "parent_key", "parent_id", "name"), st.text(max_size=20)
    ),
    issued_s=st.integers(0, 2**33),
    expires_s=st.integers(0, 2**33),
    policy=st.none() | st.text(max_size=50),
    tags=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    transitive=st.lists(st.text(max_size=5), max_size=2).map(tuple),
    chain=st.lists(some_hop, max_size=2).map(tuple),
)


# -- tokens --------------------------------------------------------------------------------------------------


@given(some_session)
def test_the_root_key_decrypts_a_token(session: Session) -> None:
    issued = Sessions(ROOT_KEY).issue(session)
    again = Sessions(ROOT_KEY)  # as after a restart
    assert again.open(issued.access_key, issued.token) == session
    assert again.secret(issued.access_key) == issued.secret
    assert Sessions(RootKey(bytes(32))).open(issued.access_key, issued.token) is None


@given(some_session, st.data())
def test_a_token_with_one_flipped_bit_is_refused(session: Session, data: st.DataObject) -> None:
    sessions = Sessions(ROOT_KEY)
    issued = sessions.issue(session)
    encrypted = bytearray(base64.b64decode(issued.token))
    bit = data.draw(st.integers(0, len(encrypted) * 8 - 1))
    encrypted[bit // 8] ^= 1 << bit % 8
    assert sessions.open(issued.access_key, base64.b64encode(encrypted).decode()) is None


def test_a_token_belongs_to_its_access_key() -> None:
    sessions = Sessions(ROOT_KEY)
    session = Session(
        kind="user", account=HOME, owner="a", owner_id="i", parent_key="k", parent_id="i", issued_s=0, expires_s=1
    )  # fmt: skip
    one, other = sessions.issue(session), sessions.issue(session)
    assert one.access_key.startswith("ASIA") and len(one.access_key) == 20
    assert len({one.secret, other.secret, one.access_key, other.access_key}) == 4
    assert sessions.open(other.access_key, one.token) is None


@given(st.text())
def test_any_other_text_is_not_a_token(text: str) -> None:
    assert Sessions(ROOT_KEY).open("ASIAX", text) is None
    assert open_account(text) is None


def test_a_token_of_any_length_costs_little() -> None:
    assert Sessions(ROOT_KEY).open("ASIAX", "A" * 10_000_000) is None


def test_open_sessions_name_their_account_and_are_refused_by_secured_servers() -> None:
    issued = open_session(ABROAD)
    assert open_account(issued.token) == ABROAD
    assert Sessions(ROOT_KEY).open(issued.access_key, issued.token) is None


# -- principals ----------------------------------------------------------------------------------------------


@pytest.fixture
def accounts(tmp_path: Path) -> Accounts:
    accounts = Accounts(tmp_path)
    accounts.user("alice", "sqs-send", tags={"team": "orders"})
    accounts.user("root")
    accounts.role("worker", trust_document(["alice"], HOME, None), "sqs-full-access")
    return accounts


def session_of(accounts: Accounts, kind: str, **more: object) -> Issued:
    """A session of alice, of the root or of the role worker, that alice or the root began."""
    directory, now_s = accounts.credentials.directory, accounts.clock.wall_ms() // 1000
    role = directory.role(f"arn:aws:iam::{HOME}:role/worker")
    assert role is not None
    owner, owner_id = {
        "user": ("alice", accounts.principal("alice").id),
        "root": ("", HOME),
        "role": ("worker", role.id),
    }[kind]
    parent = accounts.principal("root" if kind == "root" else "alice")
    given = {"kind": kind, "account": HOME, "owner": owner, "owner_id": owner_id}
    given |= {"parent_key": parent.access_key, "parent_id": parent.id}
    return directory.sessions.issue(
        Session(**{**given, "issued_s": now_s, "expires_s": now_s + 900, **more})  # type: ignore[arg-type]
    )


def principal_of(accounts: Accounts, issued: Issued) -> SessionPrincipal:
    directory = accounts.credentials.directory
    assert directory.secret(issued.access_key, issued.token) == issued.secret
    principal = directory.principal(issued.access_key, issued.token)
    assert isinstance(principal, SessionPrincipal)
    assert directory.principal(issued.access_key, issued.token) is principal, "it is cached"
    return principal


def refused(accounts: Accounts, issued: Issued) -> tuple[str, str]:
    with pytest.raises(AuthenticationError) as raised:
        accounts.credentials.directory.secret(issued.access_key, issued.token)
    with pytest.raises(AuthenticationError):
        accounts.credentials.directory.principal(issued.access_key, issued.token)
    return type(raised.value).__name__, str(raised.value)


def test_a_user_s_session_is_the_user(accounts: Accounts) -> None:
    session, alice = principal_of(accounts, session_of(accounts, "user")), accounts.principal("alice")
    for same in ("kind", "account", "arn", "id", "name", "tags", "policies"):
        assert getattr(session, same) == getattr(alice, same)
    assert session.access_key.startswith("ASIA")
    assert session.parent_key == alice.access_key


def test_a_root_s_session_is_root(accounts: Accounts) -> None:
    session = principal_of(accounts, session_of(accounts, "root"))
    assert (session.kind, session.id) == ("root", HOME)


def test_a_role_s_session(accounts: Accounts) -> None:
    issued = session_of(
        accounts,
        "role",
        name="job-7",
        tags={"team": "b"},
        policy=document(allow("sqs:SendMessage", Resource="*")),
    )
    session = principal_of(accounts, issued)
    assert session.kind == "session" and session.name is None
    assert session.arn == f"arn:aws:sts::{HOME}:assumed-role/worker/job-7"
    assert session.role_arn == f"arn:aws:iam::{HOME}:role/worker"
    assert session.id.startswith("AROA") and session.id.endswith(":job-7")
    assert session.tags == {"team": "b"}
    allowed = [
        decide(Question(session, f"sqs:{action}", QUEUE, HOME)).allowed
        for action in ("SendMessage", "PurgeQueue")
    ]
    assert allowed == [True, False], "the role may do both, the session was narrowed to one"


@pytest.mark.parametrize("kind", ["user", "root", "role"])
def test_a_session_ends_at_its_expiry(accounts: Accounts, kind: str) -> None:
    issued = session_of(accounts, kind)
    accounts.clock.advance(899_999)
    principal_of(accounts, issued)
    accounts.clock.advance(1)
    assert refused(accounts, issued) == EXPIRED


@pytest.mark.parametrize("kind", ["user", "root", "role"])
def test_sessions_survive_a_restart(accounts: Accounts, kind: str) -> None:
    issued = session_of(accounts, kind)
    accounts.credentials = Credentials(accounts.path, ROOT_KEY, accounts.clock)
    principal_of(accounts, issued)


@pytest.mark.parametrize("how", ["inactive", "retired"])
@pytest.mark.parametrize("kind", ["user", "root", "role"])
def test_a_session_ends_with_the_key_it_was_made_with(accounts: Accounts, kind: str, how: str) -> None:
    issued = session_of(accounts, kind)
    principal_of(accounts, issued)

    def end(content: CredentialsContent) -> None:
        keys = find_user(content, "root" if kind == "root" else "alice", None).keys
        if how == "inactive":
            keys[0].status = "inactive"
        else:
            keys.clear()

    accounts.change(end)
    assert refused(accounts, issued) == INVALID


def test_a_session_ends_with_its_role(accounts: Accounts) -> None:
    issued = session_of(accounts, "role")
    accounts.change(lambda content: remove(content, find_role(content, "worker", None)))
    assert refused(accounts, issued) == INVALID
    accounts.role("worker", trust_document(["alice"], HOME, None))
    assert refused(accounts, issued) == INVALID, "a role of the same name is another one"


def test_a_session_does_not_pass_to_another_user_of_the_name(accounts: Accounts) -> None:
    issued = session_of(accounts, "user")

    def replace(content: CredentialsContent) -> None:
        keys = find_user(content, "alice", None).keys
        remove(content, find_user(content, "alice", None))
        add_user(content, HOME, "alice", datetime.now(UTC)).keys.extend(keys)

    accounts.change(replace)
    assert refused(accounts, issued) == INVALID


def test_a_session_does_not_pass_to_another_owner_of_the_key_id(accounts: Accounts) -> None:
    issued = session_of(accounts, "role")

    def hand_over(content: CredentialsContent) -> None:
        keys = find_user(content, "alice", None).keys
        remove(content, find_user(content, "alice", None))
        add_user(content, HOME, "carol", datetime.now(UTC)).keys.extend(keys)

    accounts.change(hand_over)
    assert accounts.credentials.directory.principal(accounts.keys["alice"], None).name == "carol"
    assert refused(accounts, issued) == INVALID


@pytest.mark.parametrize("kind", ["user", "root", "role"])
def test_a_session_stays_ended_when_its_key_is_activated_again(accounts: Accounts, kind: str) -> None:
    before = session_of(accounts, kind)
    accounts.clock.advance(2_000)

    def take_again(content: CredentialsContent) -> None:
        key = find_user(content, "root" if kind == "root" else "alice", None).keys[0]
        key.sessions_since = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)

    accounts.change(take_again)
    assert refused(accounts, before) == INVALID
    principal_of(accounts, session_of(accounts, kind))


def test_a_session_of_root_does_not_come_back_with_its_key(accounts: Accounts) -> None:
    """The root is always the same one, unlike a user who is made again."""
    issued, key = session_of(accounts, "root"), accounts.keys["root"]
    pair = Pair(key, accounts.secrets[key])
    accounts.change(lambda content: remove(content, find_user(content, "root", None)))
    now = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)
    accounts.change(lambda content: add_key(add_user(content, HOME, "root", now), ROOT_KEY, now, pair))
    assert accounts.credentials.directory.secret(key, None) == pair.secret
    assert refused(accounts, issued) == INVALID


@pytest.mark.parametrize("kind", ["user", "root", "role"])
def test_revoking_ends_the_sessions_until_servers_have_read_it_and_no_others(
    accounts: Accounts, kind: str
) -> None:
    before, now = session_of(accounts, kind), datetime.fromtimestamp(accounts.clock.wall_ms() / 1000, UTC)
    accounts.clock.advance(2_000)
    meanwhile = session_of(accounts, kind)

    def revoke(content: CredentialsContent) -> None:
        find = {
            "user": lambda: find_user(content, "alice", None),
            "root": lambda: find_user(content, "root", None),
        }
        found = find.get(kind, lambda: find_role(content, "worker", None))()
        found.owner.end_sessions(now)

    accounts.change(revoke)
    assert refused(accounts, before) == refused(accounts, meanwhile) == INVALID
    accounts.clock.advance(_RELOAD_TIME // timedelta(milliseconds=1))
    principal_of(accounts, session_of(accounts, kind))


@pytest.mark.parametrize(("kind", "by"), [("role", "alice"), ("root", "root")])
def test_revoking_the_origin_of_a_session_ends_it(accounts: Accounts, kind: str, by: str) -> None:
    issued = session_of(accounts, kind)
    principal_of(accounts, issued)
    later = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000 + 1, UTC)

    def revoke(content: CredentialsContent) -> None:
        find_user(content, by, None).owner.sessions_since = later

    accounts.change(revoke)
    assert refused(accounts, issued) == INVALID


# -- chains --------------------------------------------------------------------------------------------------


def chained(accounts: Accounts) -> Issued:
    """A session of worker, from one of the role between that began two seconds earlier, from alice's own."""
    between = accounts.role("between", trust_document(["alice"], HOME, None))
    known, alice = accounts.credentials.directory.role(between), accounts.principal("alice")
    assert known is not None
    now_s = accounts.clock.wall_ms() // 1000
    chain = (
        Hop("user", HOME, "alice", alice.id, now_s - 4),
        Hop("role", HOME, "between", known.id, now_s - 2),
    )
    return session_of(accounts, "role", chain=chain)


def test_a_chained_session_is_valid_while_its_whole_chain_is(accounts: Accounts) -> None:
    issued = chained(accounts)
    session = principal_of(accounts, issued)
    assert [hop.owner for hop in session.chain] == ["alice", "between", "worker"]
    accounts.change(lambda content: find_role(content, "between", None).holder.tags.update(a="b"))
    principal_of(accounts, issued)


@pytest.mark.parametrize("how", ["removed", "made again", "revoked", "user revoked", "key taken again"])
def test_a_chained_session_ends_with_what_it_came_from(accounts: Accounts, how: str) -> None:
    issued = chained(accounts)
    principal_of(accounts, issued)
    # Before the last session of the chain began, and after the others: it was made by one that had ended.
    moment = datetime.fromtimestamp(accounts.clock.wall_ms() / 1000 - 1, UTC)

    def end(content: CredentialsContent) -> None:
        role, alice = find_role(content, "between", None), find_user(content, "alice", None)
        match how:
            case "removed":
                remove(content, role)
            case "made again":
                role.holder.id = "AROAANOTHER"
            case "revoked":
                role.owner.sessions_since = moment
            case "user revoked":
                alice.owner.sessions_since = moment
            case "key taken again":
                alice.keys[0].sessions_since = moment

    accounts.change(end)
    assert refused(accounts, issued) == INVALID


hops = st.builds(
    Hop, kind=st.sampled_from(["user", "role"]), account=st.just(HOME), owner=st.sampled_from("abc"),
    owner_id=st.sampled_from("12"), issued_s=st.integers(0, 9),
)  # fmt: skip


@given(st.lists(hops, max_size=30))
def test_a_chain_names_each_once_with_its_first_session(passed: list[Hop]) -> None:
    chain: tuple[Hop, ...] = ()
    for hop in passed:
        chain = extended(chain, hop)

    def whose(hop: Hop) -> tuple[str, ...]:
        return hop.kind, hop.owner, hop.owner_id

    assert {whose(hop) for hop in chain} == {whose(hop) for hop in passed}
    for hop in chain:
        assert hop == next(each for each in passed if whose(each) == whose(hop))
    assert len({whose(hop) for hop in chain}) == len(chain)


def test_a_session_has_its_issue_time(accounts: Accounts) -> None:
    now_s = accounts.clock.wall_ms() // 1000
    assert accounts.principal("alice").issued_s is None
    for kind in ("user", "root", "role"):
        assert principal_of(accounts, session_of(accounts, kind)).issued_s == now_s


# -- odds and ends -------------------------------------------------------------------------------------------


def test_a_session_s_tag_replaces_the_role_s_whatever_its_case(accounts: Accounts) -> None:
    accounts.change(lambda content: find_role(content, "worker", None).holder.tags.update(Team="a", cost="7"))
    session = principal_of(accounts, session_of(accounts, "role", tags={"TEAM": "b"}))
    assert session.tags == {"cost": "7", "TEAM": "b"}


def test_the_cache_of_tokens_is_bounded(accounts: Accounts) -> None:
    """Sizes count: a session brings a policy of its own, which takes far more once it is compiled."""
    cached = accounts.credentials.directory._sessions
    cached._half = 10_000
    for number in range(40):
        statement = {"Effect": "Allow", "Action": "sqs:*", "Resource": f"arn:aws:sqs:*:*:{number:01000}"}
        principal_of(accounts, session_of(accounts, "role", policy=json.dumps({"Statement": statement})))
    assert 2 <= len(cached) <= 20


def test_a_cached_token_is_refused_for_another_access_key(accounts: Accounts) -> None:
    issued = session_of(accounts, "user")
    principal_of(accounts, issued)
    assert refused(accounts, issued._replace(access_key="ASIAOTHER")) == INVALID


# -- what the directory remembers ----------------------------------------------------------------------------


def test_more_sessions_than_fit_the_cache_drop_only_the_oldest(accounts: Accounts) -> None:
    first, *others = [session_of(accounts, "role") for _ in range(4)]
    accounts.credentials.directory._sessions._half = 2 * (len(first.token) + 128) + 100
    known = {issued.token: principal_of(accounts, issued) for issued in (first, *others)}
    assert all(principal_of(accounts, issued) is known[issued.token] for issued in others)
    assert principal_of(accounts, first) is not known[first.token]


def test_a_session_whose_policy_became_invalid_is_refused(accounts: Accounts) -> None:
    """Its token is true: it was made when the rules for policies were others."""
    assert refused(accounts, session_of(accounts, "role", policy='{"Statement": "gone"}')) == INVALID
