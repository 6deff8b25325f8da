"""A rolling restart, and the death of a process, as clients see them."""

from __future__ import annotations

import http.client
import json
import signal
import threading
import time
from pathlib import Path
from typing import Any

from support.process import ServerProcess
from support.server_processes import kill, processes_of
from support.texts import says
from support.waiting import until

QUEUES = [f"queue-{number}" for number in range(10)]  # in several shards of both processes


class Caller(threading.Thread):
    """Sends, receives and deletes on one queue, over one connection for as long as the server keeps it open."""

    def __init__(self, port: int, queue: str, *, long_polls: bool = False) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._queue = queue
        self._long_polls = long_polls
        self.over = False
        self.answers = 0
        self.failures: list[str] = []

    def run(self) -> None:
        while not self.over:
            try:
                if not self._long_polls:
                    self.ask("SendMessage", MessageBody="x" * 100)
                wait_s = 20 if self._long_polls else 2
                for message in self.ask("ReceiveMessage", WaitTimeSeconds=wait_s).get("Messages", []):
                    self.ask("DeleteMessage", ReceiptHandle=message["ReceiptHandle"])
            except (OSError, http.client.HTTPException, AssertionError) as error:
                self.failures.append(repr(error))
                self._connection.close()

    def ask(self, action: str, **request: Any) -> Any:
        body = json.dumps({"QueueUrl": self._queue, **request})
        self._connection.request("POST", "/", body, {"X-Amz-Target": f"AmazonSQS.{action}"})
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, f"{action} {response.status} {answer!r}"
        self.answers += 1
        return json.loads(answer) if answer else {}

    def finish(self) -> None:
        self.over = True
        self.join(40)
        assert not self.is_alive()
        self.close()

    def close(self) -> None:
        self._connection.close()


def two_processes(directory: Path) -> ServerProcess:
    """Starts a server with declared queues: those of a shard exist before its new owner is asked for them."""
    file = directory / "penstock.toml"
    file.write_text("".join(f"[queues.{queue}]\nVisibilityTimeout = 30\n" for queue in QUEUES))
    return ServerProcess("--data", str(directory / "data"), "--processes", "2", "--config", str(file))


def has_logged(server: ServerProcess, text: str) -> bool:
    return any(text in line for line in server.log)


def test_a_rolling_restart_fails_no_request(tmp_path: Path) -> None:
    with two_processes(tmp_path) as server:
        before = set(processes_of(server).values())
        callers = [Caller(server.port, queue, long_polls=queue in QUEUES[8:]) for queue in QUEUES]
        for caller in callers:
            caller.start()
        time.sleep(0.5)
        server.process.send_signal(signal.SIGUSR2)
        until(lambda: has_logged(server, "rolling restart completed"), "all are replaced", 90)
        counts = [caller.answers for caller in callers]
        until(
            lambda: all(caller.answers > counts[number] for number, caller in enumerate(callers[:8])),
            "all go on",
        )
        for caller in callers:
            caller.over = True
        for caller in callers[:8]:
            caller.finish()
        assert not before & set(processes_of(server).values())
        assert server.stop() == 0  # ends the long polls
        for caller in callers[8:]:
            caller.finish()
        assert [failure for caller in callers for failure in caller.failures] == []


def test_the_shards_of_a_dead_process_answer_again(tmp_path: Path) -> None:
    with two_processes(tmp_path) as server:
        for pid in processes_of(server).values():
            kill(pid)
            began = time.monotonic()
            for queue in QUEUES:
                until(lambda: is_served(server.port, queue), "it is served")  # noqa: B023
            print(f"{time.monotonic() - began:.2f} s from the kill until all queues are served")
            until(lambda: len(processes_of(server)) == 2, "both processes run")
        assert server.stop() == 0


def is_served(port: int, queue: str) -> bool:
    """A request that is on its way when the process dies may fail, in one of two ways; later ones wait."""
    caller = Caller(port, queue)
    try:
        caller.ask("SendMessage", MessageBody="after")
    except (ConnectionError, http.client.BadStatusLine):
        return False
    except AssertionError as error:
        says(str(error), "503", "may or may not")
        return False
    finally:
        caller.close()
    return True
