"""What tests do with a server that has a test clock: advance it, reset it, delete everything.

Without credentials only programs on the server's own machine may.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Protocol

from penstock.names import is_account
from penstock.services.admin.faults import admin_fault, invalid
from penstock.services.admin.resources import Admin
from penstock.services.admin.shown import seconds, wall_time
from penstock.services.admin.structs import (
    AdvanceRequest,
    ChangeTestClockRequest,
    ClearRequest,
    ClearResult,
    Nothing,
    TestClockInfo,
)
from penstock.wire.service import Call

_NONE = "The server has no test clock: start it with penstock serve --memory --test-clock."
_ELSEWHERE = (
    "The server has no credentials, so that only programs on its own machine may control its clock. In a container, "
    "run penstock test there; or start the server with credentials."
)


class TestTime(Protocol):
    """The time of the broker, as a test controls it."""

    @property
    def is_frozen(self) -> bool: ...

    @property
    def shown_ms(self) -> int: ...

    @property
    def ahead_ms(self) -> int: ...

    async def advance(self, *, days: float, hours: float, minutes: float, seconds: float) -> None:
        """Advances the clock by the sum of these. Raises ValueError."""

    def freeze(self) -> None: ...

    def run(self) -> None: ...

    def reset(self) -> None: ...


async def get_test_clock(admin: Admin, request: Nothing, call: Call) -> TestClockInfo:
    """What the test clock shows."""
    return _shown(_time(admin, call))


async def advance_test_clock(admin: Admin, request: AdvanceRequest, call: Call) -> TestClockInfo:
    """Let time pass: everything that is due by then has happened when this is answered."""
    time = _time(admin, call)
    try:
        await time.advance(
            days=request.days or 0,
            hours=request.hours or 0,
            minutes=request.minutes or 0,
            seconds=request.seconds or 0,
        )
    except ValueError as error:
        raise admin_fault("InvalidParameter", f"The clock was not advanced: {error}.") from None
    return _shown(time)


async def change_test_clock(admin: Admin, request: ChangeTestClockRequest, call: Call) -> TestClockInfo:
    """Let time stand still, or run along with the real time."""
    time = _time(admin, call)
    if request.frozen:
        time.freeze()
    else:
        time.run()
    return _shown(time)


async def reset_test_clock(admin: Admin, request: Nothing, call: Call) -> TestClockInfo:
    """Show the real time again."""
    time = _time(admin, call)
    time.reset()
    return _shown(time)


async def clear_server(admin: Admin, request: ClearRequest, call: Call) -> ClearResult:
    """Delete the queues of an account; or everything of all accounts, so that the server is as after its start."""
    _time(admin, call)
    if request.account is None:
        deleted = len(admin.broker.queues())
        await admin.server.start_over()
    elif is_account(request.account):
        deleted = await admin.broker.clear(request.account)
    else:
        raise invalid("account", "twelve digits")
    return ClearResult(deleted_queues=deleted)


def _time(admin: Admin, call: Call) -> TestTime:
    """Raises Fault."""
    if admin.server.test_time is None:
        raise admin_fault("NotPossible", _NONE)
    if call.principal is None and not _is_local(call):
        raise admin_fault("AccessDenied", _ELSEWHERE)
    return admin.server.test_time


def _is_local(call: Call) -> bool:
    try:
        return call.requester is not None and ip_address(call.requester.address).is_loopback
    except ValueError:
        return False


def _shown(time: TestTime) -> TestClockInfo:
    return TestClockInfo(now=wall_time(time.shown_ms), ahead_s=seconds(time.ahead_ms), frozen=time.is_frozen)
