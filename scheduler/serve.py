"""Start the service: a Unix socket, or a port of this machine; another address only with TLS and a token.

runcast serve --bundle var/bundles/venus --socket /run/runcast/venus.sock
"""

import argparse
import asyncio
import contextlib
import logging
import os
import pwd
import resource
import signal
import ssl
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
import uvloop
from uvicorn.server import ServerState

from runcast.data.errors import RuncastError
from runcast.data.pseudonyms import read_key
from runcast.outcome import report
from runcast.scheduler.bundle import MANIFEST
from runcast.scheduler.connection import MOST_CONNECTIONS, Connection, Connections
from runcast.scheduler.errors import ServeError
from runcast.scheduler.journal import Journal
from runcast.scheduler.listening import Acceptor, Port, Replaced, UnixSocket
from runcast.scheduler.options import Parser, seconds, whole
from runcast.scheduler.rights import MAY_REPORT_BY_NATURE, Rights
from runcast.scheduler.rollover import Required
from runcast.scheduler.served import DAYS_KEPT, ServedLog
from runcast.scheduler.service import FLUSH_EVERY_S, Service

LOOPBACK = ("127.0.0.1", "::1", "localhost")
SHORTEST_TOKEN = 16  # characters
LONGEST_TOKEN_FILE = 4096  # bytes
SERVED = "served"  # the folder, beside the journal, of forecasts given to identified jobs
MOST_DAYS, MOST_SECONDS = 3650, 60.0
SWITCH_EVERY_S = 0.0005  # a bundle being loaded in its thread gives way to a request this soon
WATCH_EVERY_S = 1.0  # over the socket's file
GRACE_S = 10.0  # for requests that are being answered when the process is to stop
OWN_DESCRIPTORS = 64


@dataclass(frozen=True)
class Address:
    """Where to listen: a Unix socket with its mode, or a port of a host."""

    socket: Path | None = None
    socket_mode: int = 0o660
    host: str = "127.0.0.1"
    port: int = 0
    tls_cert: Path | None = None
    tls_key: Path | None = None


@dataclass(frozen=True)
class Access:
    """Who may do what, as on the command line."""

    token_file: Path | None = None
    report_token_file: Path | None = None
    reporters: Sequence[str] = ()
    own_only: bool = False
    askers: Sequence[str] = ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    address = Address(options.socket, options.socket_mode, options.host, options.port or 0, options.tls_cert, options.tls_key)
    access = Access(options.token_file, options.report_token_file, options.reporter, options.own_only, options.asker)
    try:
        serve(
            options.bundle, address, access, journal=options.journal, flush_every_s=options.flush_every,
            served_days=options.served_days, required=Required(options.pseudonym_key, options.cluster, options.signers),
        )  # fmt: skip
    except RuncastError as error:
        sys.stderr.write(f"runcast serve: {error}\n")
        return report(error)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the options of the command line."""
    found = Parser(prog="runcast serve", description="Answer a scheduler's questions from a bundle.")
    found.add_argument(
        "--bundle", type=Path, required=True, help="the cluster's bundles (the folder with `current`), or one bundle"
    )
    where = found.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", type=Path, help="Unix socket to answer on")
    where.add_argument("--port", type=int, help="port of the loopback address to answer on")
    found.add_argument(
        "--socket-mode",
        type=whole(0, 0o777, base=8),
        default=0o660,
        metavar="MODE",
        help="permissions of the socket (default: 660)",
    )
    found.add_argument(
        "--host", default="127.0.0.1", help="with --port: another address than loopback needs TLS and --token-file"
    )
    found.add_argument("--tls-cert", type=Path, help="with --port: certificate chain (PEM) to answer with")
    found.add_argument("--tls-key", type=Path, help="its key (PEM)")
    found.add_argument("--token-file", type=Path, help="requests must carry the token in this file, or the report token")
    found.add_argument("--report-token-file", type=Path, help="who carries the token in this file may report events")
    found.add_argument(
        "--reporter", action="append", default=[], metavar="ACCOUNT",
        help="with --socket: may report events, beside root and the account of the service; name or uid, more than once",
    )  # fmt: skip
    found.add_argument("--own-only", action="store_true", help="with --socket: others ask about their own jobs only")
    found.add_argument(
        "--asker", action="append", default=[], metavar="ACCOUNT",
        help="with --own-only: may ask about anybody's jobs, as slurmctld must; name or uid, more than once",
    )  # fmt: skip
    found.add_argument("--journal", type=Path, help="where events are kept (default: events.journal beside the bundles)")
    found.add_argument(
        "--flush-every", type=seconds(0, MOST_SECONDS), default=FLUSH_EVERY_S, metavar="S",
        help="flush events to disk every S seconds; 0: before each is acknowledged (default: %(default)g)",
    )  # fmt: skip
    found.add_argument(
        "--served-days", type=whole(0, MOST_DAYS), default=DAYS_KEPT, metavar="N",
        help="days of forecasts told to jobs kept in `served`, beside the journal; 0: none (default: %(default)s)",
    )  # fmt: skip
    found.add_argument("--cluster", help="refuse bundles of any other cluster")
    found.add_argument(
        "--signers", type=Path, help="refuse bundles that no key in this file (OpenSSH's allowed signers) has signed"
    )
    found.add_argument("--pseudonym-key", type=Path, help="key file of a cluster whose names are replaced (`pseudonymise`)")
    return found


def serve(
    bundles: Path,
    address: Address,
    access: Access = Access(),
    *,
    journal: Path | None = None,
    flush_every_s: float = FLUSH_EVERY_S,
    served_days: int = DAYS_KEPT,
    required: Required = Required(),  # noqa: B008 - frozen
) -> None:
    """Serve `bundles` until stopped; raises ServeError where it cannot begin, JournalError where another service runs."""
    tls = _checked(address, access)
    if not bundles.is_dir():
        raise ServeError(
            f"--bundle {bundles}: no such folder. Name the cluster's bundles; before its first night, make the folder."
        )
    rights = _rights(access)
    if required.pseudonym_key is not None:
        read_key(required.pseudonym_key)  # said now, not at the first bundle
    sys.setswitchinterval(SWITCH_EVERY_S)
    hosts = frozenset(LOOPBACK) if address.socket is None and address.host in LOOPBACK else None
    events = Journal(_journal_path(bundles, journal))
    try:
        where = Port(address.host, address.port) if address.socket is None else UnixSocket(address.socket, address.socket_mode)
        with contextlib.closing(where), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            served = ServedLog(events.path.parent / SERVED, served_days)
            service = Service(bundles, events, served, rights=rights, hosts=hosts, required=required, flush_every_s=flush_every_s)
            runner.run(_run(service, where, tls))
    finally:
        events.close()


def _checked(address: Address, access: Access) -> ssl.SSLContext | None:
    """Return the TLS to speak; raises ServeError where names or tokens would be open to others."""
    tls = _tls(address.tls_cert, address.tls_key)
    if address.socket is not None:
        if tls is not None:
            raise ServeError("--tls-cert is of a --port; a Unix socket does not leave this machine")
        return None
    if access.own_only or access.reporters or access.askers:
        raise ServeError("--own-only, --reporter and --asker need --socket: over a port nobody can tell who asks")
    if address.host not in LOOPBACK:
        if access.token_file is None:
            raise ServeError(f"--host {address.host} is not this machine's loopback: give --token-file, or use --socket")
        if tls is None:
            raise ServeError(
                f"--host {address.host} is not this machine's loopback: names and tokens would cross the network in clear. Give "
                "--tls-cert and --tls-key, or use --socket."
            )
    return tls


def _rights(access: Access) -> Rights:
    ask, tell = (None if path is None else read_token(path) for path in (access.token_file, access.report_token_file))
    if ask is not None and ask == tell:
        raise ServeError("--token-file and --report-token-file hold the same token: who may ask could report")
    if access.askers and not access.own_only:
        raise ServeError("--asker goes with --own-only; without it everybody who can open the socket may ask")
    reporters = MAY_REPORT_BY_NATURE | {_uid(account) for account in access.reporters}
    return Rights(ask, tell, reporters, access.own_only, frozenset(_uid(account) for account in access.askers))


def _journal_path(bundles: Path, journal: Path | None) -> Path:
    """Return where events are kept: as asked, else beside the bundles; never in a bundle, which a stray file makes damaged."""
    if journal is None:
        inside = (bundles / MANIFEST).exists()
        return (bundles.resolve().parent if inside else bundles) / "events.journal"
    inside_of = next((folder for folder in journal.resolve().parents if (folder / MANIFEST).exists()), None)
    if inside_of is not None:
        raise ServeError(f"--journal {journal}: lies in the bundle {inside_of}, which must not be changed; put it beside")
    return journal


def read_token(path: Path) -> str:
    """Return the token in a file that only its owner may read."""
    try:
        if path.exists() and (
            not path.is_file() or path.stat().st_size > LONGEST_TOKEN_FILE
        ):  # a pipe would be waited for, without an end
            raise ServeError(f"{path}: is no file of a token: at most {LONGEST_TOKEN_FILE} bytes of ASCII")
        mode, token = path.stat().st_mode, path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise ServeError(f"{path}: the token cannot be read ({error})") from error
    if mode & 0o077:
        raise ServeError(f"{path}: others may read or write it (mode {mode & 0o777:o}); chmod 600 {path}")
    if not token.isprintable():
        raise ServeError(f"{path}: the token holds a line end or a control character; no header can carry it")
    if len(token) < SHORTEST_TOKEN:
        raise ServeError(f"{path}: the token has {len(token)} characters, at least {SHORTEST_TOKEN} are asked for")
    return token


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS of the operator's certificate, None without one."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ServeError("--tls-cert and --tls-key go together")
    try:
        if key.stat().st_mode & 0o007:
            raise ServeError(f"{key}: everybody may read or write it; chmod o= {key}")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key, password="")  # an encrypted key fails here, and does not wait at a terminal
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ServeError(f"{certificate}, {key}: are no certificate and its key ({error})") from error
    return context


def _uid(account: str) -> int:
    """Return the uid of an account's name or number."""
    try:
        return int(account) if account.isascii() and account.isdigit() else pwd.getpwnam(account).pw_uid
    except (KeyError, ValueError):
        raise ServeError(f"{account}: no such account on this machine; give its uid") from None


async def _run(service: Service, where: UnixSocket | Port, tls: ssl.SSLContext | None) -> None:
    """Serve until SIGTERM or SIGINT; raises ServeError where the socket's place was taken."""
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    config = uvicorn.Config(
        service, http=Connection, ws="none", lifespan="off", access_log=False, log_config=None, server_header=False, date_header=False
    )  # fmt: skip
    config.load()
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a warning for each bad request would let anybody fill the log
    state, connections = ServerState(), Connections(_most_connections())
    acceptor = Acceptor(where, connections, lambda peer: Connection(config, state, loop, peer, connections), tls)
    await service.start()
    acceptor.start()
    try:
        await _watch(service, where, acceptor, stopping)
    finally:
        acceptor.stop()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=GRACE_S)
        if not await service.stop():
            logging.shutdown()
            os._exit(1)  # a thread hangs at the disk, and would keep the process


async def _watch(service: Service, where: UnixSocket | Port, acceptor: Acceptor, stopping: asyncio.Event) -> None:
    """Wait for the end; make the socket again where its file has been removed."""
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WATCH_EVERY_S):
                await stopping.wait()
        try:
            if where.renewed():
                acceptor.start()
                logging.getLogger("runcast.service").warning("the socket's file had been removed; it was made again")
            service.problems.clear("socket")
        except Replaced:
            raise
        except (ServeError, OSError) as error:
            service.problems.set("socket", str(error))


def _most_connections() -> int:
    """Return how many connections there may be, so that descriptors are left for journal and bundles."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, soft - OWN_DESCRIPTORS), 8)


if __name__ == "__main__":
    sys.exit(main())
