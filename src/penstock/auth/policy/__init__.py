"""IAM policies: documents are compiled once, questions are answered in microseconds.

    policy = compile_policy(text, kind="identity", name="read-only")
    verdict = decide(Question(principal, "sqs:SendMessage", arn, account, resource_policy, ...))
    if not verdict.allowed: refusal(question, verdict)

Pure: no clock, no files, no sockets. Everything a decision depends on is in the question.
"""

from __future__ import annotations

from penstock.auth.policy.compiler import Policy, compile_policy
from penstock.auth.policy.decision import decide, is_fixed, refusal
from penstock.auth.policy.document import (
    Document,
    Kind,
    PolicyInvalid,
    PrincipalInvalid,
    editable_document,
    read_document,
)
from penstock.auth.policy.question import Question, Verdict

__all__ = [
    "Document",
    "Kind",
    "Policy",
    "PolicyInvalid",
    "PrincipalInvalid",
    "Question",
    "Verdict",
    "compile_policy",
    "decide",
    "editable_document",
    "is_fixed",
    "read_document",
    "refusal",
]
