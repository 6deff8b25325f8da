"""A network namespace with one node in it, whose cable can be pulled."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager


class Cable:
    """Between the machine and a namespace: both ends have an address."""

    def __init__(self) -> None:
        self._name = f"pen{secrets.token_hex(3)}"
        net = 1 + secrets.randbelow(250)
        self.outside, self.inside = f"10.213.{net}.1", f"10.213.{net}.2"
        self.prefix = ("ip", "netns", "exec", self._name)  # of a command that runs inside

    def lay(self) -> None:
        name = self._name
        for command in (
            f"netns add {name}",
            f"link add {name} type veth peer name {name}i",
            f"link set {name}i netns {name}",
            f"addr add {self.outside}/30 dev {name}",
            f"link set {name} up",
            f"-n {name} addr add {self.inside}/30 dev {name}i",
            f"-n {name} link set {name}i up",
            f"-n {name} link set lo up",
        ):
            _ip(command)

    def cut(self) -> None:
        """Whatever is sent is lost, and neither side learns it."""
        _ip(f"link set {self._name} down")

    def join(self) -> None:
        _ip(f"link set {self._name} up")

    def remove(self) -> None:
        _ip(f"netns del {self._name}")


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


@contextmanager
def laid_cable() -> Iterator[Cable | None]:
    """None where namespaces cannot be made: they need root and iproute2."""
    cable = Cable()
    if os.geteuid() != 0 or shutil.which("ip") is None:
        yield None
        return
    try:
        cable.lay()
    except subprocess.CalledProcessError:
        yield None
        return
    try:
        yield cable
    finally:
        cable.remove()
