"""The decision, in the order of IAM: explicit denies, then the rules within the account or across accounts."""

from __future__ import annotations

from penstock.auth.policy.principal_element import BOUNDED, DIRECT, NONE, MatchLevel
from penstock.auth.policy.question import Question, Verdict
from penstock.auth.policy.vocabulary import shown_action

_WITHOUT_ACCOUNT = ("anonymous", "service")
_ROOT = Verdict(True, "the account's root may do everything in its account")


def decide(question: Question) -> Verdict:
    principal = question.principal
    action = question.action.lower()
    trust = question.resource_policy
    # IAM: unlike a queue, a role is not opened by the caller's own policies alone.
    if trust is not None and trust.kind == "trust" and _resource_allows(question, action)[1] is None:
        return _not_allowed("role trust", question)
    is_own = principal.account == question.resource_account and principal.kind not in _WITHOUT_ACCOUNT
    is_root = is_own and principal.kind == "root"
    # IAM: an explicit deny in any policy wins. Root may still repair a policy of its account that denies everyone.
    denied = _explicit_deny(question, action, repairs=is_root and question.root_always)
    if denied is not None:
        return denied
    if is_root:
        return _ROOT
    if is_own:
        return _within_account(question, action)
    if not question.grantable:
        return _not_allowed("resource-based", question)
    return _from_another_account(question, action)


def is_fixed(question: Question) -> bool:
    """Whether the verdict depends on nothing but caller, action and resource, so that it may be cached."""
    action = question.action.lower()
    principal = question.principal
    policies = (*principal.policies, principal.session_policy, question.resource_policy)
    return all(
        policy.applicable(action, question.resource).is_fixed for policy in policies if policy is not None
    )


def refusal(question: Question, verdict: Verdict, *, address: str = "") -> str:
    """AWS's text for a denied request. ``address`` is the URL that an anonymous caller used.

    A caller of another account gets the same text for every resource, existing or not, whatever its policy says.
    """
    principal = question.principal
    if principal.kind == "anonymous":
        return f"Access to the resource {address or question.resource} is denied."
    is_own = principal.account == question.resource_account
    reason = (verdict if is_own else _not_allowed("resource-based", question)).reason
    asked = f"{shown_action(question.action)} on resource: {question.resource}"
    return f"User: {principal.arn} is not authorized to perform: {asked} {reason}"


def _explicit_deny(question: Question, action: str, *, repairs: bool) -> Verdict | None:
    principal = question.principal
    of_resource = None if repairs else question.resource_policy
    for policy in (*principal.policies, principal.session_policy, of_resource):
        if policy is not None:
            for statement in policy.applicable(action, question.resource).denies:
                if statement.level(question):
                    return statement.verdict
    return None


def _within_account(question: Question, action: str) -> Verdict:
    """IAM: the policies of the identity or of the resource may allow. A resource's policy that names only the account
    leaves it to the identity's; one that names the very session is not limited by the session's policy."""
    level, allowed = _resource_allows(question, action)
    if level == DIRECT and allowed is not None:
        return allowed
    if level < BOUNDED:
        allowed = _identity_allows(question, action)
    if allowed is None:
        return _not_allowed("identity-based", question)
    return _bounded_by_session(question, action, allowed)


def _from_another_account(question: Question, action: str) -> Verdict:
    """IAM: the policies of both sides must allow. Root needs none on its side; others have none."""
    _, allowed = _resource_allows(question, action)
    if allowed is None:
        return _not_allowed("resource-based", question)
    if question.principal.kind in ("root", "anonymous", "service"):
        return allowed
    if _identity_allows(question, action) is None:
        return _not_allowed("identity-based", question)
    return _bounded_by_session(question, action, allowed)


def _resource_allows(question: Question, action: str) -> tuple[MatchLevel, Verdict | None]:
    """The allowing statement that names the caller most directly."""
    highest, verdict = NONE, None
    if question.resource_policy is not None:
        for statement in question.resource_policy.applicable(action, question.resource).allows:
            level = statement.level(question)
            if level > highest:
                highest, verdict = level, statement.verdict
    return highest, verdict


def _identity_allows(question: Question, action: str) -> Verdict | None:
    for policy in question.principal.policies:
        for statement in policy.applicable(action, question.resource).allows:
            if statement.level(question):
                return statement.verdict
    return None


def _bounded_by_session(question: Question, action: str, allowed: Verdict) -> Verdict:
    bounds = question.principal.session_policy
    if bounds is None or any(
        statement.level(question) for statement in bounds.applicable(action, question.resource).allows
    ):
        return allowed
    return _not_allowed("session", question)


def _not_allowed(kind: str, question: Question) -> Verdict:
    return Verdict(False, f"because no {kind} policy allows the {shown_action(question.action)} action")
