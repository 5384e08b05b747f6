"""A real PostgreSQL on loopback, with a folder of its own. It starts in two seconds."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import psycopg

from penstock.local.kafka.broker import free_ports
from penstock.local.tools.child_process import ChildProcess
from testkit.commands import run
from testkit.processes import wait_until_ready
from testkit.tools.debian import debian_program, its_libraries

_ADMIN = "postgres"
# PostgreSQL refuses to run as root.
_NOBODY = 65534
# By Debian's version, that of PostgreSQL, and the libraries that a small machine lacks.
_PACKAGES = {
    "12": ("15", "libicu72", "libxml2", "libldap-2.5-0"),
    "13": ("17", "libicu76", "libxml2", "libldap2"),
}


@dataclass
class Postgres:
    """A server, and the superuser's access to it."""

    folder: Path
    port: int
    password: str
    settings: Sequence[str] = ()
    _process: ChildProcess | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """For sink.jdbc."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Starts it, perhaps again, and waits until it answers."""
        options = [
            f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=",
            *self.settings,
        ]  # fmt: skip
        command = [_program("postgres"), "-D", self.folder / "data"]
        command += [word for option in options for word in ("-c", option)]
        log = self.folder / "postgres.log"
        process = self._process = ChildProcess(_as_nobody(command), log=log, env=_libraries())
        wait_until_ready("PostgreSQL", [process], self._answers)

    def kill(self) -> None:
        """Ends it and all its sessions at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self._process = None

    def freeze(self) -> None:
        """Suspends it and its sessions, as on a host that hangs."""
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # a session that has just ended
                process.send_signal(number)

    def connect(self, user: str = _ADMIN, password: str | None = None) -> psycopg.Connection[Any]:
        """A session that commits each statement."""
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname="postgres",
            user=user,
            password=password or self.password,
            connect_timeout=5,
            autocommit=True,
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query of the superuser returns; nothing if it is none."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False


@dataclass(frozen=True)
class Tables:
    """A schema of a test's own, and a user that may create tables in it and log in."""

    server: Postgres
    name: str
    """Of the schema and of the user, which is also its password."""

    @classmethod
    def made(cls, server: Postgres) -> Tables:
        name = f"t{secrets.token_hex(4)}"
        server.rows(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
        server.rows(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        return cls(server, name)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement as this user, who writes names of this schema without it."""
        with self.server.connect(self.name, self.name) as session, session.cursor() as cursor:
            cursor.execute(f"SET search_path TO {self.name}")
            cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def sink(self, table: str, secrets_folder: Path, **more: Any) -> dict[str, Any]:
        """A spec.sink that writes a table of the schema; the user's login is put into a Secret."""
        folder = secrets_folder / self.name
        folder.mkdir(parents=True, exist_ok=True)
        for key in ("username", "password"):
            (folder / key).write_text(self.name)
        return {
            "jdbc": {
                "url": self.server.url,
                "credentialsSecret": {"name": self.name},
                "table": f"{self.name}.{table}",
                "ledgerSchema": self.name,
                **more,
            }
        }


@contextlib.contextmanager
def running_postgres(*settings: str) -> Iterator[Postgres]:
    """A server with these settings (name=value), removed at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    (port,) = free_ports(1)
    server = Postgres(folder, port, secrets.token_urlsafe(12), settings)
    try:
        _create(server)
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _create(server: Postgres) -> None:
    (server.folder / "password").write_text(server.password)
    if os.geteuid() == 0:
        for path in (server.folder, server.folder / "password"):
            os.chown(path, _NOBODY, _NOBODY)
    command = [
        _program("initdb"), "-D", server.folder / "data", "-U", _ADMIN, "--no-sync",
        "--auth=scram-sha-256", f"--pwfile={server.folder / 'password'}", "--encoding=UTF8",
        "--locale=C.UTF-8",
    ]  # fmt: skip
    run(_as_nobody(command), timeout=120, env=_libraries())


def _as_nobody(command: Sequence[object]) -> list[str]:
    if os.geteuid() != 0:
        return [str(word) for word in command]
    user = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return ["setpriv", *user, *(str(word) for word in command)]


def _program(name: str) -> Path:
    """One of the server's, which Debian keeps beside those of other versions."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if installed:
        return installed[-1]
    version, *needs = _PACKAGES.get(_release(), _PACKAGES["13"])
    unpacked = debian_program(f"postgresql-{version}", name, "libpq5", *needs)
    return unpacked.parents[2] / "usr" / "lib" / "postgresql" / version / "bin" / name


def _release() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    return settings.get("VERSION_ID", "").strip('"')


def _libraries() -> dict[str, str] | None:
    """Where an unpacked server finds those that came with it."""
    folder = _program("postgres").parents[4]
    return None if folder == Path("/usr") else its_libraries(folder / "bin" / "postgres")
