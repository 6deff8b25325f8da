"""A TCP proxy in front of PostgreSQL that loses answers, loses questions, or delivers one too late."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress

_SYNC = b"S\0\0\0\4"  # ends a question


class PostgresProxy:
    """Each connection is passed on, until a test says what shall happen to the next commit."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose_answer = self.lose_question = self.hold_question = False
        self.held = threading.Event()  # a question is being held
        self.delivered = threading.Event()  # and was delivered in the end
        self._release = threading.Event()
        self.closed = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def release(self) -> None:
        """Deliver the question that was held, though its client is gone."""
        self._release.set()

    def cut(self) -> None:
        """Close every connection."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self.closed = True
        self._listener.close()
        self._release.set()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _relay(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError), client, server:
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 20)
                    if not data or not self._pass_on(source is client, data, client, server):
                        return

    def _pass_on(self, is_question: bool, data: bytes, client: socket.socket, server: socket.socket) -> bool:
        """False: the connection ends here."""
        if is_question:
            if self.lose_question:
                self.lose_question = False
                return False
            if self.hold_question:
                self.hold_question = False
                while _SYNC not in data:
                    data += client.recv(1 << 20)
                client.shutdown(socket.SHUT_RDWR)
                self.held.set()
                self._release.wait(60)
                server.sendall(data)
                server.recv(1 << 20)  # answered, so it was executed
                self.delivered.set()
                return False
            server.sendall(data)
        elif self.lose_answer:
            if b"COMMIT\0" in data:
                self.lose_answer = False
                return False
        else:
            client.sendall(data)
        return True
