"""STS: forms, from several callers. Every answer is well-formed, and issued credentials are those of a session."""

from __future__ import annotations

from urllib.parse import quote

from fuzz.conversation import Conversation, lines_of
from fuzz.server import ROLE_ARN, accounts, credentials_in, unchanged_server
from fuzz.targets.policy import QUEUE_POLICY
from penstock.auth.identity.sessions import open_account
from penstock.auth.principal import Principal
from penstock.services.sts import ACTIONS
from penstock.wire.service import Response
from support.identities import HOME

_ROLE = quote(ROLE_ARN)
_POLICY = quote('{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:*","Resource":"*"}}')
_ASSUME = f"Action=AssumeRole&Version=2011-06-15&RoleArn={_ROLE}&RoleSessionName=w1"
_SEEDS = [
    *(f"{who} POST / xml {_ASSUME}" for who in ("alice", "worker", "open", "mallory", "anonymous", "q")),
    f"alice POST / xml {_ASSUME}&DurationSeconds=900&Policy={_POLICY}&Tags.member.1.Key=team&Tags.member.1.Value=red&"
    "TransitiveTagKeys.member.1=team&ExternalId=ext",
    f"alice POST / json {_ASSUME}&Policy={quote(QUEUE_POLICY)}",
    "mallory POST / xml Action=GetSessionToken&Version=2011-06-15",
    "alice GET /?Action=GetSessionToken&Version=2011-06-15&DurationSeconds=3600 xml ",
    *(
        f"{who} POST / xml Action=GetCallerIdentity&Version=2011-06-15"
        for who in ("alice", "worker", "open", "anonymous")
    ),
]

MEMBERS = {member for row in ACTIONS.values() for member in row.request.__struct_fields__}
WORDS = [
    *(f"Action={action}&".encode() for action in ACTIONS),
    *(f"&{name}=".encode() for name in sorted(MEMBERS)),
    *(b"&Tags.member.2.Key=", b"&Tags.member.2.Value=", b"&TransitiveTagKeys.member.2="),
    *(b"&PolicyArns.member.1.arn=",),
    *(b"open ", b"alice ", b"worker ", b"mallory ", b"anonymous ", b"\n"),
    *(b"%00", b"%ED%A0%80", b"%E2%80%A8", b"129600", b"-1"),
    *(b"%7B", b"%22", b"aws:", b"Version=2012-11-05", b"Version=2011-06-15", b" json ", b" GET ", _POLICY.encode()),
]  # fmt: skip


def seeds() -> list[bytes]:
    return [text.encode() for text in _SEEDS]


def check(data: bytes) -> None:
    server = unchanged_server()
    conversation = Conversation(server)
    for line in lines_of(data):
        answer = conversation.query(line)
        if b"<SessionToken>" in answer.body:
            _check_issued(answer, server.principal(line.partition(b" ")[0]))


def _check_issued(answer: Response, caller: Principal | None) -> None:
    key, secret, token = credentials_in(answer)
    assert (open_account(token) is not None) == (caller is None)
    if caller is None:
        return
    directory = accounts().credentials.directory
    assert directory.secret(key, token) == secret
    principal = directory.principal(key, token)
    if principal.kind == "user":
        assert principal.arn == caller.arn, "a session of the caller itself"
    else:
        assert principal.kind == "session"
        assert caller.account == principal.account == HOME, "only callers of the role's account may assume it"
