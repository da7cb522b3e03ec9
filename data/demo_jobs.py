"""Made-up workloads with what real logs have, from a seed: the same bytes on every machine with the same numpy.

Users own recurring kinds of work, each with its own size, limit and runtimes: most runs take about as long as the last ones, some
fail within a minute, some hit their limit. They submit in sessions (sweeps, arrays) by the rhythm of day and week; new users
and new work appear all along; at 62 % of the span a third of the kinds change their runtime for good. Nothing is taken from a
real log.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STATES = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")
_COMPLETED, _FAILED, _CANCELLED, _TIMEOUT, _NODE_FAIL, _OUT_OF_MEMORY = range(len(STATES))
_LIMITS_S = np.array([600, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 259200])
_HOURS = np.array([4, 3, 2, 2, 2, 3, 5, 8, 14, 22, 26, 25, 20, 24, 27, 26, 24, 20, 16, 13, 11, 9, 7, 5], dtype=float)
_WEEKDAYS = np.array([1.0, 1.1, 1.1, 1.05, 0.95, 0.35, 0.3])
_CHANGE_AT = 0.62  # of the span


@dataclass(frozen=True)
class Profile:
    """What one cluster is like; `gpu_share` gives the odds of each count in `gpu_counts`."""

    users: int
    kinds: int
    jobs: int  # about so many in 120 days
    gpu_counts: tuple[float, ...]
    gpu_share: tuple[float, ...]
    typical_run_s: float
    array_share: float = 0.0  # of the kinds


@dataclass(frozen=True)
class Kinds:
    """Recurring work; one entry for each kind."""

    user: Ints
    gpus: Floats
    run_s: Floats
    spread: Floats  # of ln(runtime) between runs
    early_share: Floats  # runs that die early
    early_s: Floats
    limit_s: Ints
    is_array: npt.NDArray[np.bool_]
    first_day: Floats
    last_day: Floats
    weight: Floats
    changes: Floats  # added to ln(runtime) after the change


@dataclass(frozen=True)
class Jobs:
    """A workload in submission order; times are seconds from the first local midnight of the span."""

    kinds: Kinds
    kind: Ints
    session: Ints
    task: Ints  # index within an array, -1 for jobs that are none
    submit_s: Ints
    wait_s: Ints  # until the start, or until it was cancelled
    run_s: Ints  # 0 where it never started
    started: npt.NDArray[np.bool_]
    state: Ints  # position in STATES

    @property
    def user(self) -> Ints:
        return self.kinds.user[self.kind]

    @property
    def gpus(self) -> Floats:
        return self.kinds.gpus[self.kind]

    @property
    def start_s(self) -> Ints:
        return self.submit_s + self.wait_s

    @property
    def end_s(self) -> Ints:
        return self.submit_s + self.wait_s + self.run_s

    def __len__(self) -> int:
        return len(self.kind)


def make_jobs(random: np.random.Generator, profile: Profile, days: int, first_weekday: int) -> Jobs:
    """A workload of `days` days, the first of which is `first_weekday` (0 = Monday); all is submitted within them."""
    kinds = _kinds(random, profile, days)
    session_kind, session_day, session_s = _sessions(random, profile, kinds, days, first_weekday)
    size = np.where(
        kinds.is_array[session_kind], random.integers(5, 61, len(session_kind)), random.geometric(0.35, len(session_kind))
    )
    kind, session = np.repeat(session_kind, size), np.repeat(np.arange(len(size)), size)
    task = np.arange(len(kind)) - np.repeat(np.cumsum(size) - size, size)
    is_array = kinds.is_array[kind]
    gaps = np.where(is_array | (task == 0), 0, 1 + random.exponential(240, len(kind)))
    walked = np.cumsum(gaps)
    submit_s = (session_day[session] * 86_400 + session_s[session] + walked - walked[np.flatnonzero(task == 0)][session]).astype(
        np.int64
    )
    keep = submit_s < days * 86_400
    order = np.flatnonzero(keep)[np.lexsort((task[keep], session[keep], submit_s[keep]))]
    kind, session, task, submit_s = kind[order], session[order], np.where(is_array, task, -1)[order], submit_s[order]
    wait_s, run_s, state = _lives(random, kinds, kind, session, submit_s, days)
    never = random.random(len(kind)) < 0.015
    state = np.where(never, _CANCELLED, state)
    return Jobs(kinds, kind, session, task, submit_s, wait_s, np.where(never, 0, run_s), ~never, state)


def _kinds(random: np.random.Generator, profile: Profile, days: int) -> Kinds:
    n = profile.kinds
    activity = (1 + np.arange(profile.users)) ** -0.8
    user = np.concatenate(
        [np.arange(profile.users), random.choice(profile.users, n - profile.users, p=activity / activity.sum())]
    )
    joined = np.where(
        random.random(profile.users) < 0.7, 0.0, random.uniform(0, 0.95 * days, profile.users)
    )  # the others are new
    gpus = random.choice(profile.gpu_counts, n, p=np.array(profile.gpu_share) / sum(profile.gpu_share))
    run_s = np.clip(random.lognormal(np.log(profile.typical_run_s), 1.5, n), 30, 4 * 86_400)
    wish_s = run_s * random.choice([1.3, 2, 4, 8], n)  # people ask for round numbers, and for more than they need
    first_day = np.maximum(joined[user], np.where(random.random(n) < 0.5, 0.0, random.uniform(0, 0.95 * days, n)))
    return Kinds(
        user=user,
        gpus=gpus,
        run_s=run_s,
        spread=random.choice([0.03, 0.08, 0.25, 0.7], n, p=[0.3, 0.3, 0.25, 0.15]),
        early_share=random.beta(1.1, 6, n),
        early_s=random.lognormal(np.log(30), 0.7, n),
        limit_s=_LIMITS_S[np.minimum(np.searchsorted(_LIMITS_S, wish_s), len(_LIMITS_S) - 1)],
        is_array=random.random(n) < profile.array_share,
        first_day=first_day,
        last_day=np.minimum(first_day + 5 + random.exponential(60, n), days),
        weight=random.lognormal(0, 1.1, n) * (activity[user] ** 0.5),
        changes=np.where(random.random(n) < 1 / 3, random.normal(0.3, 0.9, n), 0.0),
    )


def _sessions(
    random: np.random.Generator, profile: Profile, kinds: Kinds, days: int, first_weekday: int
) -> tuple[Ints, Ints, Ints]:
    """Kind, day and second of the day of each session, by the rhythm of the week and of the day."""
    in_a_session = np.where(kinds.is_array, 32.5, 1 / 0.35)
    weight = kinds.weight * (kinds.last_day - kinds.first_day) / np.where(kinds.is_array, 8, 1)
    count = int(profile.jobs * days / 120 / (weight * in_a_session).sum() * weight.sum())
    kind = random.choice(len(weight), count, p=weight / weight.sum())
    busy = np.concatenate([[0], np.cumsum(_WEEKDAYS[(first_weekday + np.arange(days)) % 7])])
    low, high = (np.interp(edge[kind], np.arange(days + 1), busy) for edge in (kinds.first_day, kinds.last_day))
    day = np.clip(np.searchsorted(busy, random.uniform(low, high), side="right") - 1, 0, days - 1)
    hour = random.choice(24, count, p=_HOURS / _HOURS.sum())
    nightly = kinds.user[kind] % 9 == 4  # some start their work by a clock, at an hour of their own
    hour = np.where(nightly, kinds.user[kind] % 24, hour)
    second = hour * 3600 + np.where(nightly, random.integers(0, 20, count), random.integers(0, 3600, count))
    return kind, day, second


def _lives(
    random: np.random.Generator, kinds: Kinds, kind: Ints, session: Ints, submit_s: Ints, days: int
) -> tuple[Ints, Ints, Ints]:
    """Wait, runtime and end of each job, as if it started."""
    n = len(kind)
    like_siblings = random.normal(0, 0.1, session.max(initial=0) + 1)[session]
    broken = (random.random(session.max(initial=0) + 1) < 0.04)[session]  # one mistake kills the whole sweep
    later = submit_s > _CHANGE_AT * days * 86_400
    log_run = (
        np.log(kinds.run_s[kind]) + like_siblings + random.normal(0, 1, n) * kinds.spread[kind] + later * kinds.changes[kind]
    )
    run_s, state = np.exp(log_run), np.full(n, _COMPLETED)
    early = broken | (random.random(n) < 0.7 * kinds.early_share[kind])
    run_s = np.where(early, kinds.early_s[kind] * random.lognormal(0, 0.4, n), run_s)
    state = np.where(early, _FAILED, state)
    fate = random.random(n)
    for code, share in ((_CANCELLED, 0.05), (_OUT_OF_MEMORY, 0.01), (_NODE_FAIL, 0.004), (_FAILED, 0.02)):
        hit = (fate >= 0) & (fate < share) & ~early
        run_s, state = np.where(hit, run_s * random.uniform(0.02, 1, n), run_s), np.where(hit, code, state)
        fate = np.where(hit, -1, fate - share)
    limit_s = kinds.limit_s[kind]
    over = run_s >= limit_s
    run_s = np.where(over, limit_s + random.integers(0, 31, n), np.maximum(run_s, 1))
    state = np.where(over, _TIMEOUT, state)
    day_s = submit_s % 86_400
    busy = 0.3 + np.exp(-(((day_s / 3600 - 15) / 5) ** 2))
    wait_s = (
        random.lognormal(np.log(4), 0.8, n) + busy * random.exponential(1, n) ** 3 * 25 * np.maximum(kinds.gpus[kind], 0.5) ** 1.3
    )
    return np.minimum(wait_s, 5 * 86_400).astype(np.int64), run_s.astype(np.int64), state
