"""What changed between two states of the credentials file, in one line without secrets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.auth.identity.book import Book, all_keys

_SHOWN_MAX = 8


def differences(old: Book, new: Book) -> str:
    said = [*_parts(old, new)]
    if not said:
        return "nothing changed" if old == new else "policies, tags or settings changed"
    return in_short(said)


def in_short(said: Sequence[str]) -> str:
    more = [f"and {len(said) - _SHOWN_MAX} more"] if len(said) > _SHOWN_MAX else []
    return ", ".join([*said[:_SHOWN_MAX], *more])


def _parts(old: Book, new: Book) -> Iterator[str]:
    for word, before, after in (
        ("user", _users(old), _users(new)),
        ("role", _roles(old), _roles(new)),
        ("active key", _active_keys(old), _active_keys(new)),
        ("policy", old.policies.keys(), new.policies.keys()),
    ):
        yield from (f"{word} {name} added" for name in _without(after, before))
        yield from (f"{word} {name} removed" for name in _without(before, after))


def _without(names: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted(set(names) - set(others))


def _users(book: Book) -> list[str]:
    return [f"{number}/{name}" for number, account in book.accounts.items() for name in account.users]


def _roles(book: Book) -> list[str]:
    return [f"{number}/{name}" for number, account in book.accounts.items() for name in account.roles]


def _active_keys(book: Book) -> list[str]:
    return [key.id for key, _, _ in all_keys(book) if key.active]
