"""One night for one cluster: its stages, in order.

Airflow's tasks and the command line both call `run_stage`; each stage reads its settings, calls one job function, keeps a small
JSON record below RUNCAST_HOME/nights/<cluster>/<day>/ and returns it. Stages hand on names of partitions and folders, never frames.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from runcast.data.cluster import Cluster, find_cluster
from runcast.data.days import checked_day, latest_complete_day
from runcast.data.errors import SourceError, StageBusy
from runcast.data.refusals import told_where_refused
from runcast.data.settings import Settings, read_settings
from runcast.data.turns import take_turn
from runcast.records import Record, failed_fits, keep, keep_failure, read_failure, read_night


@dataclass(frozen=True)
class Stage:
    """One step of a night: its name, what a person should know of it, and the function that does it."""

    name: str
    title: str
    run: Callable[[Cluster, Settings, dt.date], Record]


def _ingest(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.data.job import ingest
    from runcast.data.lake import Lake

    is_first = Lake(settings.lake).as_of_us(cluster.name) is None  # reads all that the log holds; later nights what is new
    return ingest(cluster, settings, first=None if is_first else day, last=day, now=dt.datetime.now(dt.UTC)).to_json()


def _quality(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.data.acceptance import read_acceptance
    from runcast.data.job import check

    report, accepted = check(cluster, settings, day), read_acceptance(cluster.name, settings, day)
    report.require_passed(accepted.checks if accepted else ())
    return {**report.to_json(), "accepted": None if report.passed or accepted is None else accepted.to_json()}


def _features(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.features.job import build_features

    return build_features(cluster, settings, day).to_json()


def _train(kind: str) -> Callable[[Cluster, Settings, dt.date], Record]:
    def run(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
        from runcast.training.job import train

        return train(cluster, settings, day, kind).to_json()

    return run


def _evaluate(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.evaluation.job import evaluate
    from runcast.registry.job import champions_before

    return evaluate(cluster, settings, day, champions=champions_before(cluster, settings, day)).summary()


def _register(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import register

    return register(cluster, settings, day, now=dt.datetime.now(dt.UTC))


def _promote(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import promote

    return promote(cluster, settings, day)


def _export(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.registry.job import export

    return export(cluster, settings, day, now=dt.datetime.now(dt.UTC))


def _drift(cluster: Cluster, settings: Settings, day: dt.date) -> Record:
    from runcast.evaluation.alarm import alarm

    return alarm(cluster, settings, day, now=dt.datetime.now(dt.UTC))


#: Kinds of model trained each night, in the order of the reports.
MODEL_KINDS: tuple[str, ...] = ("cart", "gbdt", "runcast")

STAGES: tuple[Stage, ...] = (
    Stage("ingest", "read the log into the lake", _ingest),
    Stage("quality", "check what was loaded", _quality),
    Stage("features", "compute one row of features for each submitted job", _features),
    *(Stage(f"train_{kind}", f"fit {kind} on all that had ended", _train(kind)) for kind in MODEL_KINDS),
    Stage("evaluate", "replay the latest jobs beside the baselines", _evaluate),
    Stage("register", "log the run and register the versions", _register),
    Stage("promote", "decide which models passed every gate and may serve", _promote),
    Stage("export", "write the bundle for the scheduler; champions move with it", _export),
    Stage("drift", "compare the work and the errors with the weeks before; stops nothing", _drift),
)
BY_NAME: dict[str, Stage] = {stage.name: stage for stage in STAGES}
#: The stages that nothing waits for; in Airflow either may be the later one.
ENDS = ("export", "drift")


def run_stage(name: str, cluster_name: str, day: str) -> Record:
    """Run one stage of the night of `day` (YYYY-MM-DD, local to the cluster) and keep its record; the record is returned.

    The front page is written after a stage that ends the night and after one that failed, whose error is kept and raised.
    Raises NoSuchNight for a day that is none or is not over, StageBusy where another process runs this stage of the cluster,
    HomeRefuses where the disk does not take what it writes.
    """
    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    date = checked_day(cluster, day, dt.datetime.now(dt.UTC))
    lock = settings.home / "locks" / f"{quote(cluster.name, safe='')}.{name}"
    with (
        told_where_refused(f"{cluster.name}, {day}: {name}"),
        take_turn(lock, f"{cluster.name}: the stage {name} is being run", 0.0, StageBusy),
    ):
        try:
            record = {"cluster": cluster.name, "day": day, "stage": name, **BY_NAME[name].run(cluster, settings, date)}
            keep(settings, cluster.name, day, name, record)
        except Exception as error:
            _tell_failure(settings, cluster.name, day, name, error)
            raise
        if name in ENDS:
            front_page(settings)
    return record


def failures_of_fits(cluster_name: str, day: str) -> list[str]:
    """Return which fits of a night were killed, failed or left no record: the night goes on without them, and must not look whole."""
    stages = read_night(read_settings(), cluster_name, day)
    missing = [f"train_{kind}: left no record" for kind in MODEL_KINDS if f"train_{kind}" not in stages]
    return failed_fits(stages) + missing


def failed_training(cluster_name: str, day: str) -> str | None:
    """Return why a training stage of a night did not come to a fit at all, which stops the night; None where none did not."""
    failure = read_failure(read_settings(), cluster_name, day)
    return failure["error"] if failure is not None and failure["stage"].startswith("train_") else None


def accept_quality(cluster_name: str, day: str, reason: str) -> Record:
    """Let the night of `day` go on in spite of the checks that stopped it, and of no others, for the reason given; see data/acceptance.py.

    Raises NothingToAccept where none stopped it, or without a reason.
    """
    from runcast.data.acceptance import accept

    settings = read_settings()
    cluster = find_cluster(settings.clusters, cluster_name)
    return accept(cluster.name, settings, dt.date.fromisoformat(day), reason, dt.datetime.now(dt.UTC)).to_json()


def front_page(settings: Settings) -> Path:
    """Write the page of all clusters and return where it is."""
    from runcast.front_page import write_front_page

    return write_front_page(settings, {stage.name: stage.title for stage in STAGES}, dt.datetime.now(dt.UTC))


def _tell_failure(settings: Settings, cluster_name: str, day: str, stage: str, error: Exception) -> None:
    """Keep the failure and write the front page; where that is impossible too (a full disk), the error says so."""
    try:
        keep_failure(settings, cluster_name, day, stage, error, dt.datetime.now(dt.UTC))
        front_page(settings)
    except OSError as second:
        error.add_note(f"this failure could not be written to {settings.home}: {second}")


def choose_day(cluster: Cluster, settings: Settings, asked: str | None, now: dt.datetime) -> str:
    """Return the day asked for as YYYY-MM-DD or, where none is, the default of the cluster; raises NoSuchNight.

    The default is yesterday for a cluster that runs every night, and the last day on which a job ended for a finished log, which is
    read for it. `now` is aware.
    """
    if asked is not None:
        return checked_day(cluster, asked, now).isoformat()
    if cluster.schedule:
        return latest_complete_day(cluster, now).isoformat()
    from runcast.data.job import ingest
    from runcast.data.lake import Lake

    ingest(cluster, settings, first=None, last=None, now=now)
    dates = Lake(settings.lake).dates(cluster.name)
    if not dates:
        raise SourceError(f"{cluster.name}: no job in this log has ended, so there is no night to run; name one with --date")
    return max(dates)
