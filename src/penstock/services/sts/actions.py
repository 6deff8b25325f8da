"""The actions of STS, one row each: everything that is known about an action stands here.

Without a permission every signed caller may. The audit members are an allow list: never secrets and tokens.
"""

from __future__ import annotations

from penstock.services.sts import structs as st
from penstock.services.sts.handlers import (
    assume_role,
    get_caller_identity,
    get_session_token,
    role_to_assume,
)
from penstock.wire.service import Action, AuditRule

_ROWS = (
    Action(
        "AssumeRole", st.AssumeRoleRequest, st.AssumeRoleResult, assume_role, role_to_assume, "sts:AssumeRole",
        grantable=True, read_only=True, has_effects=True,
        audit=AuditRule(
            "Management",
            ("RoleArn", "RoleSessionName", "DurationSeconds", "Policy", "pairs(Tags) as tags"),
            ("Credentials.AccessKeyId as accessKeyId", "AssumedRoleUser.Arn as assumedRoleArn"),
            gives_credentials=True,
        ),
    ),
    Action(
        "GetCallerIdentity", st.GetCallerIdentityRequest, st.GetCallerIdentityResult, get_caller_identity,
        read_only=True,
        audit=AuditRule("Management"),
    ),
    Action(
        "GetSessionToken", st.GetSessionTokenRequest, st.GetSessionTokenResult, get_session_token,
        read_only=True, has_effects=True,
        audit=AuditRule(
            "Management",
            ("DurationSeconds",),
            ("Credentials.AccessKeyId as accessKeyId",),
            gives_credentials=True,
        ),
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}
