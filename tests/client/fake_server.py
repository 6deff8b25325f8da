"""A server that answers as a test says: with any status, too late, in pieces, not at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

CLOSE = b""  # the connection, instead of an answer
HANG = b"hang"  # until the client closes the connection


def reply(status: int = 200, body: bytes = b"{}", **headers: str) -> bytes:
    """``Retry_After="1"`` is the header Retry-After."""
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if "Content_Length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([f"HTTP/1.1 {status} Status", *lines, "", ""]).encode() + body


class FakeServer:
    """Gives the answers one after the other, whatever the connection; the last one for all that come later."""

    def __init__(self, *answers: bytes | Callable[[bytes], bytes]) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)  # released once for each connection that the client closed
        self.waiting = threading.Semaphore(0)  # and once for each request that hangs
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def actions(self) -> list[str]:
        """The actions of the requests so far."""
        lines = (line for request in self.requests for line in request.decode("latin-1").split("\r\n"))
        return [line.rpartition(".")[2] for line in lines if line.startswith("x-amz-target: ")]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (request := _read(connection)) is not None:
                with self._lock:
                    self.requests.append(request)
                    answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                content = answer if isinstance(answer, bytes) else answer(request)
                if content == CLOSE:
                    connection.close()
                    return
                if content == HANG:
                    self.waiting.release()
                    connection.recv(1)
                    break
                connection.sendall(content)
                if content.startswith(b"HTTP/1.1 200 OK\r\n\r\n"):  # the body has no other end
                    connection.close()
                    return
        except OSError:
            pass
        connection.close()
        self.closed.release()

    def close_connections(self) -> None:
        """Closes connections, like a server whose connections were idle for long."""
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._sockets = []

    def stop(self) -> None:
        self._listener.close()
        self.close_connections()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _read(connection: socket.socket) -> bytes | None:
    """A whole request; None at the end of the stream."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
