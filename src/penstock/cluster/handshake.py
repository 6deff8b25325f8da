"""Mutual proof of the cluster's secret, without a socket, and the encryption of what follows.

    connects: HELLO version, nonce          ─►
                                            ◄─  CHALLENGE nonce
              PROOF hmac(secret, "connects", version, both nonces)  ─►
                                            ◄─  PROOF hmac(secret, "accepts", version, both nonces)

Both nonces are in both proofs, so that neither can be replayed, and the roles are, so that neither can be returned to
its sender. From the secret and the nonces follow two keys, one per direction, under which every packet is encrypted
with AES-GCM and a counter: a packet that was changed, repeated, left out or moved ends the connection. Someone who
learns the secret can decrypt what they recorded before; TLS, where it is configured, takes the place of this
encryption and has forward secrecy.

Between processes of a machine the file system protects the Unix socket: the secret is empty, nothing is encrypted.
"""

from __future__ import annotations

import hmac
import secrets
import ssl
from typing import Literal, NamedTuple

from penstock.cluster.frames import (
    VERSION,
    ChallengeFrame,
    FrameError,
    HandshakeFrame,
    HelloFrame,
    PacketCipher,
    ProofFrame,
)

NONCE_BYTES = 32
SECRET_BYTES_MIN = 16


class LinkSecurity(NamedTuple):
    """How the processes of a cluster know each other."""

    secret: bytes = b""  # empty: only for Unix sockets
    accept_tls: ssl.SSLContext | None = None
    connect_tls: ssl.SSLContext | None = None

    @property
    def encrypts(self) -> bool:
        return bool(self.secret) and self.connect_tls is None

    def proof_of(self, node: str) -> bytes:
        """The proof in the row of the node with this id, by which others see whether they have the same secret."""
        return hmac.digest(self.secret, b"node\0" + node.encode(), "sha256")


class RefusedPeer(Exception):
    """The peer does not belong to the cluster. The text is for our own log, never for the other side."""


class Handshake:
    """One side of a handshake. ``done`` after the last message."""

    def __init__(self, role: Literal["connects", "accepts"], security: LinkSecurity) -> None:
        self._role = role
        self._security = security
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._transcript = b""
        self.done = False

    def opening(self) -> HandshakeFrame | None:
        """What this side says first."""
        return HelloFrame(VERSION, self._nonce) if self._role == "connects" else None

    def answer(self, frame: HandshakeFrame) -> HandshakeFrame | None:
        """The next message of this side, if there is one. Raises RefusedPeer."""
        match frame:
            case HelloFrame() if self._role == "accepts" and not self._transcript:
                self._check_nonce(frame.nonce)
                if frame.version != VERSION:
                    raise RefusedPeer(
                        f"it speaks version {frame.version} of the internal protocol, this process {VERSION}: "
                        "run the same version of Penstock on all nodes"
                    )
                self._transcript = _transcript(frame.nonce, self._nonce)
                return ChallengeFrame(self._nonce)
            case ChallengeFrame() if self._role == "connects" and not self._transcript:
                self._check_nonce(frame.nonce)
                self._transcript = _transcript(self._nonce, frame.nonce)
                return ProofFrame(self._derive(b"connects"))
            case ProofFrame() if self._transcript:
                other = b"accepts" if self._role == "connects" else b"connects"
                if not hmac.compare_digest(frame.proof, self._derive(other)):
                    raise RefusedPeer("it has another cluster secret: give all nodes the same file")
                self.done = True
                return ProofFrame(self._derive(b"accepts")) if self._role == "accepts" else None
            case _:
                raise RefusedPeer("it does not speak the internal protocol")

    def ciphers(self) -> tuple[PacketCipher | None, PacketCipher | None]:
        """The ciphers for packets that this side writes, and for those that it reads."""
        assert self.done
        if not self._security.encrypts:
            return None, None
        there, back = AesGcm(self._derive(b"key of calls")), AesGcm(self._derive(b"key of answers"))
        return (there, back) if self._role == "connects" else (back, there)

    def _check_nonce(self, nonce: bytes) -> None:
        if len(nonce) != NONCE_BYTES:
            raise RefusedPeer("it does not speak the internal protocol")

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self._security.secret, purpose + b"\0" + self._transcript, "sha256")


def _transcript(connects: bytes, accepts: bytes) -> bytes:
    return b"penstock" + VERSION.to_bytes(4, "big") + connects + accepts


class AesGcm:
    """A PacketCipher for one direction."""

    overhead = 16

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # takes long to load

        self._key = AESGCM(key)
        self._count = 0

    def encrypt(self, packet: bytes) -> bytes:
        self._count += 1
        return self._key.encrypt(self._count.to_bytes(12, "big"), packet, None)

    def decrypt(self, packet: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        self._count += 1
        try:
            return self._key.decrypt(self._count.to_bytes(12, "big"), packet, None)
        except (InvalidTag, ValueError):
            raise FrameError("a packet was changed on its way") from None
