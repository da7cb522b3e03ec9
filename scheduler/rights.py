"""Who may ask for forecasts, and who may report what happened to jobs: two rights, since reports change everybody's forecasts.

On a Unix socket the kernel says whose process has connected. Root, the account of the service and the accounts in `reporters` may
report; whoever can open the socket may ask, or, where `own_only` is set, ask about her own jobs. Over a port nobody is known: a report
needs the report token, and with an ask token a question needs one of the two.
"""

import hmac
import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from runcast.scheduler.background import in_thread
from runcast.scheduler.request import Headers, Refusal

MAY_REPORT_BY_NATURE = frozenset({0, os.getuid()})


@dataclass(frozen=True)
class Peer:
    """The other end of a connection: its uid where the kernel tells it, else None; `name` is what limits are counted by."""

    uid: int | None
    name: str


@dataclass(frozen=True)
class Grant:
    """What a request may do; `only_user` is the only user whose jobs it may ask about, None for all."""

    may_report: bool
    only_user: str | None = None


@dataclass(frozen=True)
class Rights:
    """The site's choice. `askers` are the uids that may ask about anybody where `own_only` is set, beside the reporters."""

    ask_token: str | None = None
    report_token: str | None = None
    reporters: frozenset[int] = MAY_REPORT_BY_NATURE
    own_only: bool = False
    askers: frozenset[int] = frozenset()

    async def grant(self, peer: Peer, headers: Headers) -> Grant:
        """Return what a request may do; raises Refusal where it may not even ask."""
        given = headers.get(b"authorization", b"")
        has_report_token = _is(given, self.report_token)
        if self.ask_token is not None and not has_report_token and not _is(given, self.ask_token):
            raise Refusal(401, "give the token: Authorization: Bearer …", headers=((b"www-authenticate", b"Bearer"),))
        may_report = has_report_token or peer.uid in self.reporters
        if not self.own_only or may_report or peer.uid in self.askers:
            return Grant(may_report)
        return Grant(False, await in_thread(_login, peer.uid))


def check_report(grant: Grant, peer: Peer) -> None:
    """Raise Refusal where a request may not report."""
    if grant.may_report:
        return
    if peer.uid is None:
        raise Refusal(403, "may ask, not report: give the token of --report-token-file: Authorization: Bearer …")
    raise Refusal(403, f"may ask, not report: start the service with --reporter {peer.uid} where this account may")


def check_own(grant: Grant, jobs: Sequence[object]) -> None:
    """Raise Refusal where a request asks about another user's jobs than it may."""
    if grant.only_user is None:
        return
    for job in jobs:
        user = job.get("user") if isinstance(job, dict) else None
        if user != grant.only_user:
            raise Refusal(403, f"may ask about jobs of {grant.only_user} only; give that as the user", "user")


def _is(given: bytes, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(given, b"Bearer " + token.encode())


@lru_cache(maxsize=4096)
def _login(uid: int | None) -> str:
    """Return the account's name; one without a name is nobody's."""
    try:
        return pwd.getpwuid(uid if uid is not None else -1).pw_name
    except (KeyError, OverflowError):
        return f"uid {uid}"
