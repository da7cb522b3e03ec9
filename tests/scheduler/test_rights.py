"""Who may ask, and who may report: by the account on a Unix socket, by tokens over a port."""

import asyncio
import os
import pwd

import pytest

from runcast.scheduler.request import Refusal, check_sender
from runcast.scheduler.rights import Peer, Rights, check_own, check_report

pytestmark = pytest.mark.attack

ASK, TELL = "a" * 16, "r" * 16
ROOT, OWN, SLURM, ANN = Peer(0, "uid 0"), Peer(os.getuid(), "own"), Peer(64_030, "uid 64030"), Peer(65_534, "uid 65534")
REMOTE = Peer(None, "10.0.0.7")
MAY_REPORT, MAY_ASK = "report", "ask"


def _status(rights: Rights, peer: Peer, token: str | None) -> str | int:
    """Return what a request may do, or the status of its refusal."""
    headers = {} if token is None else {b"authorization": f"Bearer {token}".encode()}
    try:
        grant = asyncio.run(rights.grant(peer, headers))
    except Refusal as refusal:
        return refusal.reply.status
    try:
        check_report(grant, peer)
    except Refusal as refusal:
        return {403: MAY_ASK}[refusal.reply.status]
    return MAY_REPORT


@pytest.mark.parametrize(
    ("rights", "peer", "token", "expected"),
    [
        (Rights(), ROOT, None, MAY_REPORT),
        (Rights(), OWN, None, MAY_REPORT),
        (Rights(), SLURM, None, MAY_ASK),
        (Rights(reporters=frozenset({64_030})), SLURM, None, MAY_REPORT),
        (Rights(reporters=frozenset({64_030})), ANN, None, MAY_ASK),
        (Rights(), REMOTE, None, MAY_ASK),
        (Rights(), REMOTE, ASK, MAY_ASK),
        (Rights(ask_token=ASK), REMOTE, None, 401),
        (Rights(ask_token=ASK), REMOTE, ASK, MAY_ASK),
        (Rights(ask_token=ASK), REMOTE, TELL, 401),
        (Rights(ask_token=ASK), ROOT, None, 401),
        (Rights(ask_token=ASK), ROOT, ASK, MAY_REPORT),
        (Rights(ASK, TELL), REMOTE, ASK, MAY_ASK),
        (Rights(ASK, TELL), REMOTE, TELL, MAY_REPORT),
        (Rights(report_token=TELL), REMOTE, None, MAY_ASK),
        (Rights(report_token=TELL), REMOTE, TELL, MAY_REPORT),
        (Rights(report_token=TELL), REMOTE, TELL + "x", MAY_ASK),
        (Rights(report_token=TELL), ANN, TELL, MAY_REPORT),
    ],
)
def test_right_follows_from_account_and_token(rights: Rights, peer: Peer, token: str | None, expected: str | int) -> None:
    assert _status(rights, peer, token) == expected


@pytest.mark.parametrize(
    ("peer", "jobs", "is_refused"),
    [
        (ANN, [{"user": pwd.getpwuid(65_534).pw_name}], False),
        (ANN, [], False),
        (ANN, [{"user": "somebody_else"}], True),
        (ANN, [{}], True),
        (ANN, [{"user": None}], True),
        (ANN, ["job"], True),
        (ANN, [{"user": pwd.getpwuid(65_534).pw_name}, {"user": "somebody_else"}], True),
        (SLURM, [{"user": "somebody_else"}], False),
        (ROOT, [{"user": "somebody_else"}], False),
        (Peer(4_000_000_000, "uid 4000000000"), [{"user": "somebody_else"}], True),
    ],
    ids=["herself", "no job", "another", "nobody named", "null", "no job at all", "one of two", "an asker", "root", "no account"],
)
def test_where_a_site_wants_it_a_user_asks_about_her_own_jobs_only(peer: Peer, jobs: list[object], is_refused: bool) -> None:
    grant = asyncio.run(Rights(own_only=True, askers=frozenset({64_030})).grant(peer, {}))
    if is_refused:
        with pytest.raises(Refusal, match="only; give that as the user"):
            check_own(grant, jobs)
    else:
        check_own(grant, jobs)


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@pytest.mark.parametrize(
    ("method", "name", "value", "hosts", "status"),
    [
        ("POST", b"origin", b"https://evil.example", None, 403),
        ("POST", b"origin", b"http://127.0.0.1:8410", LOOPBACK, 403),
        ("POST", b"origin", b"null", None, 403),
        ("GET", b"sec-fetch-site", b"cross-site", None, 403),
        ("GET", b"sec-fetch-site", b"none", None, None),
        ("POST", b"content-type", b"text/plain", None, 415),
        ("POST", b"content-type", b"application/x-www-form-urlencoded", None, 415),
        ("POST", b"content-type", b"Application/JSON ; charset=utf-8", None, None),
        ("GET", b"content-type", b"text/plain", None, None),
        ("GET", b"host", b"evil.example:8410", LOOPBACK, 403),
        ("GET", b"host", b"127.0.0.1.evil.example", LOOPBACK, 403),
        ("GET", b"host", b"localhost:8410", LOOPBACK, None),
        ("GET", b"host", b"LOCALHOST", LOOPBACK, None),
        ("GET", b"host", b"[::1]:8410", LOOPBACK, None),
        ("GET", b"host", b"anything", None, None),
        ("POST", b"x", b"y", LOOPBACK, None),
    ],
)
def test_what_a_web_page_can_send_is_refused(
    method: str, name: bytes, value: bytes, hosts: frozenset[str] | None, status: int | None
) -> None:
    if status is None:
        check_sender(method, {name: value}, hosts)
        return
    with pytest.raises(Refusal) as caught:
        check_sender(method, {name: value}, hosts)
    assert caught.value.reply.status == status
