"""The decision, in the order IAM takes it.

Rule 1: an explicit deny wins, wherever it stands. Only root passes a deny of its account's resource, to repair it.
Rule 2: within the account, the identity's policies or the resource's may allow. A resource's policy that names just
the account leaves it to the identity's policies.
Rule 3: from another account, both must allow; for root, the identity's side always does. Some actions never cross.
Rule 4: what a session was narrowed to bounds it, except where a resource of its account names the very session.
Rule 5: who did not sign gets what a resource's policy gives to everyone.
"""

from __future__ import annotations

from penstock.auth.policy.facts import SQS, Facts
from penstock.auth.policy.principals import BOUNDED, DIRECT, NOBODY
from penstock.auth.policy.question import Question, Verdict

_ROOT = Verdict(True, "the account's root may do everything in its account")


def decide(question: Question, facts: Facts = SQS) -> Verdict:
    principal = question.principal
    action = question.action.lower()
    action = facts.means.get(action, action)
    is_own = principal.account == question.resource_account and principal.kind != "anonymous"
    is_root = is_own and principal.kind == "root"
    denied = _explicit_deny(question, action, repairs=is_root and action in facts.repairs)
    if denied is not None:
        return denied
    if is_root:
        return _ROOT
    if is_own:
        return _within_the_account(question, action)
    if action in facts.owner_only:
        return _nobody_allows("resource-based", action)
    return _from_another_account(question, action)


def is_fixed(question: Question, facts: Facts = SQS) -> bool:
    """Whether the same caller would get the same answer to the same request at any time, from anywhere: no statement
    that is about it looks at anything else. Then the answer may be remembered."""
    action = question.action.lower()
    action = facts.means.get(action, action)
    principal = question.principal
    policies = (*principal.policies, principal.session_policy, question.resource_policy)
    return all(policy.about(action, question.resource).is_fixed for policy in policies if policy is not None)


def refusal(question: Question, verdict: Verdict, *, address: str = "") -> str:
    """The sentence of AWS for a request that was refused. ``address`` is where a caller who did not sign knocked.

    A caller of another account is told the same of every resource, there or not, whatever its policy says. The
    verdict knows better.
    """
    principal = question.principal
    if principal.kind == "anonymous":
        return f"Access to the resource {address or question.resource} is denied."
    action = question.action.lower()
    is_own = principal.account == question.resource_account
    reason = (verdict if is_own else _nobody_allows("resource-based", action)).reason
    asked = f"{action} on resource: {question.resource}"
    return f"User: {principal.arn} is not authorized to perform: {asked} {reason}"


def _explicit_deny(question: Question, action: str, *, repairs: bool) -> Verdict | None:
    principal = question.principal
    of_resource = None if repairs else question.resource_policy
    for policy in (*principal.policies, principal.session_policy, of_resource):
        if policy is not None:
            for statement in policy.about(action, question.resource).denies:
                if statement.reach(question):
                    return statement.verdict
    return None


def _within_the_account(question: Question, action: str) -> Verdict:
    closeness, allowed = _resource_allows(question, action)
    if closeness == DIRECT and allowed is not None:
        return allowed
    if closeness < BOUNDED:
        allowed = _identity_allows(question, action)
    if allowed is None:
        return _nobody_allows("identity-based", action)
    return _if_the_session_may(question, action, allowed)


def _from_another_account(question: Question, action: str) -> Verdict:
    _, allowed = _resource_allows(question, action)
    if allowed is None:
        return _nobody_allows("resource-based", action)
    if question.principal.kind in ("root", "anonymous"):
        return allowed
    if _identity_allows(question, action) is None:
        return _nobody_allows("identity-based", action)
    return _if_the_session_may(question, action, allowed)


def _resource_allows(question: Question, action: str) -> tuple[int, Verdict | None]:
    """The statement that means the caller most closely."""
    closest, verdict = NOBODY, None
    if question.resource_policy is not None:
        for statement in question.resource_policy.about(action, question.resource).allows:
            closeness = statement.reach(question)
            if closeness > closest:
                closest, verdict = closeness, statement.verdict
    return closest, verdict


def _identity_allows(question: Question, action: str) -> Verdict | None:
    for policy in question.principal.policies:
        for statement in policy.about(action, question.resource).allows:
            if statement.reach(question):
                return statement.verdict
    return None


def _if_the_session_may(question: Question, action: str, allowed: Verdict) -> Verdict:
    bounds = question.principal.session_policy
    if bounds is None or any(
        statement.reach(question) for statement in bounds.about(action, question.resource).allows
    ):
        return allowed
    return _nobody_allows("session", action)


def _nobody_allows(kind: str, action: str) -> Verdict:
    return Verdict(False, f"because no {kind} policy allows the {action} action")
