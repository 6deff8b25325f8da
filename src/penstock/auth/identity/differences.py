"""What changed between two states of the credentials file, in one line without secrets: what, and whose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from penstock.auth.identity.book import Account, Book, Owner, Role, User, all_keys

_SHOWN_MAX = 8
_TOLD_APART = frozenset({"keys", "users", "roles"})


def differences(old: Book, new: Book) -> str:
    return in_short([*_come_and_gone(old, new), *_changed(old, new)]) or "nothing changed"


def in_short(said: Sequence[str]) -> str:
    more = [f"and {len(said) - _SHOWN_MAX} more"] if len(said) > _SHOWN_MAX else []
    return ", ".join([*said[:_SHOWN_MAX], *more])


def _come_and_gone(old: Book, new: Book) -> Iterator[str]:
    for word, before, after in (
        ("user", _users(old), _users(new)),
        ("role", _roles(old), _roles(new)),
        ("active key", _active_keys(old), _active_keys(new)),
        ("policy", old.policies, new.policies),
    ):
        yield from (f"{word} {name} added" for name in _without(after, before))
        yield from (f"{word} {name} removed" for name in _without(before, after))


def _changed(old: Book, new: Book) -> Iterator[str]:
    yield from (f"policy {name} changed" for name, before, after in _in_both(old.policies, new.policies))
    told = _active_keys(old) ^ _active_keys(new)
    for word, befores, afters in (
        ("account", _accounts(old, new), _accounts(new, old)),
        ("user", _users(old), _users(new)),
        ("role", _roles(old), _roles(new)),
    ):
        for name, before, after in _in_both(befores, afters):
            old_parts, new_parts = _parts(before, told), _parts(after, told)
            what = [part for part in new_parts if new_parts[part] != old_parts[part]]
            if what:
                yield f"{' and '.join(what)} of {word} {name} changed"


def _parts(owner: Owner, told: Iterable[str]) -> dict[str, Any]:
    """What can differ, by its name in the file. Keys that came or went are told already."""
    parts = {name: value for name, value in msgspec.structs.asdict(owner).items() if name not in _TOLD_APART}
    if isinstance(owner, Account | User):
        parts["keys"] = [key for key in owner.keys if key.id not in told]
    return parts


def _without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted(set(names) - set(others))


def _in_both(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield name, before[name], after[name]


def _accounts(book: Book, other: Book) -> dict[str, Account]:
    """With those of the other book: an account that is not there has nothing in it."""
    return {number: book.accounts.get(number, Account()) for number in (*book.accounts, *other.accounts)}


def _users(book: Book) -> dict[str, User]:
    return {
        f"{n}/{name}": user for n, account in book.accounts.items() for name, user in account.users.items()
    }


def _roles(book: Book) -> dict[str, Role]:
    return {
        f"{n}/{name}": role for n, account in book.accounts.items() for name, role in account.roles.items()
    }


def _active_keys(book: Book) -> set[str]:
    return {key.id for key, _, _ in all_keys(book) if key.active}
