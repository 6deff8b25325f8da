"""Old names of :mod:`penstock.wire.service`."""

from penstock.wire.service import Action as Operation
from penstock.wire.service import Fault, Service

__all__ = ["Fault", "Operation", "Service"]
