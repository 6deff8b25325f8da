"""Old name of :mod:`penstock.wire.json`."""

from penstock.wire.json import FRAMEWORK_ERRORS as FRAMEWORK_VOICE

__all__ = ["FRAMEWORK_VOICE"]
