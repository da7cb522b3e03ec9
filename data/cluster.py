"""One cluster is one YAML file: what its log is, how its models are trained, judged and exported.

Unknown keys, wrong types and impossible relations are refused with the file's line and the nearest known key. Defaults carry
their reason beside them. Paths may hold `${NAME}`; they are expanded when the log is read, so that a cluster file can be
checked on a machine that does not hold the log.
"""

import difflib
import re
import string
from collections import defaultdict
from collections.abc import Sequence
from datetime import date, tzinfo
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from zoneinfo import ZoneInfo, available_timezones

import yaml
from croniter import croniter
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from runcast.data.columns import COLUMNS
from runcast.data.errors import ClusterFileError, UnknownCluster
from runcast.data.pseudonyms import DEFAULT_COLUMNS, NameColumn
from runcast.data.settings import EXAMPLES
from runcast.data.states import STATES

SourceFormat = Literal[
    "slurm_sacct",
    "slurm_json",
    "pbs",
    "sge",
    "htcondor",
    "flux",
    "kubernetes",
    "helios",
    "pai",
    "philly",
    "acme",
    "swf",
    "lsf",
    "table",
]
TimeLimitKind = Literal["hard", "advisory", "absent"]

#: calendar: the clock is true; week: hour and weekday are true, the date is not; relative: only differences mean anything.
Clock = Literal["calendar", "week", "relative"]


#: A cluster's name is part of paths, of DAGs' names and of assets' addresses: Airflow's characters, ASCII, no step out of a folder.
CLUSTER_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


#: What a gate may ask of a forecast; evaluation/metrics.py computes them. Of `under_share` neither more nor less is better.
GateMetric = Literal[
    "mdape", "within_25", "error_factor", "r2_log", "off_by_2x", "under_share", "p90_coverage", "spearman", "mape", "wape",
]  # fmt: skip
COVERAGE_PREFIX = "coverage_"  # a gate's metric of this form reads the coverage at a target: coverage_0.089
#: The jobs a gate may be about, beside `state:<state>` and one group, queue, account or user; evaluation/slices.py chooses them.
GateRows = Literal["all", "recurring", "new_user", "long", "multi_node"]
_GATE_NAMES = ("group", "queue", "account", "user")

LONGEST_DAYS = 36_500  # a century: what is longer is a slip, and beyond what a date can be counted back
LARGEST_INT = 2**31 - 1  # what the libraries that train take
MOST_TREES, MOST_LEAVES = 100_000, 131_072  # beyond reason; LightGBM's limit


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML's yes, on and true would count as 1."""
        field = cls.model_fields[str(info.field_name)]
        if isinstance(value, bool) and bool not in (field.annotation, *get_args(field.annotation)):
            raise ValueError(f"expected true or false, found {str(value).lower()}")
        return value


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())  # walks a folder: 20 ms each time


def _known(value: str, known: tuple[str, ...], *forms: str) -> str:
    if value not in known:
        near = difflib.get_close_matches(value, known, n=1)
        raise ValueError(
            f"unknown {value!r}; " + (f"did you mean {near[0]!r}?" if near else f"known are {', '.join((*known, *forms))}")
        )
    return value


def _cron(value: str | None) -> str | None:
    if value is not None and not croniter.is_valid(value):
        raise ValueError(f"{value!r} is no cron expression; write e.g. '30 2 * * *' for every night at 2:30")
    return value


#: What a word of `collect.command` may hold in braces; a day may name its form: {first:%Y/%m/%d}.
_DAYS, _DELIMITER = ("first", "last", "next"), "delimiter"


def _placeholders(word: str) -> set[str]:
    """Return which placeholders a word of a command holds; raises ValueError for any other."""
    names = set()
    try:
        parts = list(string.Formatter().parse(word))
    except ValueError as error:
        raise ValueError(f"{word!r}: {error}; a brace that is meant is written twice") from None
    for _, name, form, conversion in parts:
        if name is None:
            continue
        if name not in (*_DAYS, _DELIMITER) or conversion or "{" in (form or "") or (form and name == _DELIMITER):
            raise ValueError(
                f"{word!r}: known are {{first}}, {{last}}, {{next}} (also as {{first:%Y/%m/%d}}) and {{delimiter}}; "
                "a brace that is meant is written twice"
            )
        names.add(name)
    return names


class Collect(_Part):
    """The command whose output is the log: run before the log is read, once for each day that is missing or may have changed."""

    #: Program and arguments, without a shell; {first} and {last} are the day that is fetched, {next} the one after, {delimiter} is random.
    command: tuple[str, ...] = Field(min_length=1)
    since: date | None = None  # the first day to fetch; needed where the command names days
    timeout_s: float = Field(600, gt=0, le=86_400)  # of one command; past it, it is ended with all that it started
    output_mib_at_most: float = Field(4096, gt=0, le=2**20)  # of one command, before compression; more is a fault
    environment: dict[str, str] = {}  # variables beside PATH, HOME, TZ (the cluster's zone) and LC_ALL; ${NAME} is expanded
    #: Lines on standard error that are no fault, as regular expressions; every other line is one.
    harmless_errors: tuple[str, ...] = ()

    @field_validator("command")
    @classmethod
    def _can_be_run(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value[0] or _placeholders(value[0]):
            raise ValueError(f"the program is {value[0]!r}; name it, without a placeholder")
        for word in value:
            _placeholders(word)
            if "\0" in word:
                raise ValueError(f"{word!r}: no argument can hold a null byte")
        return value

    @field_validator("environment")
    @classmethod
    def _plain_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or "\0" in text:
                raise ValueError(f"{name!r} cannot be a variable of the environment")
        return value

    @field_validator("harmless_errors")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _knows_its_first_day(self) -> Self:
        if self.names_days and self.since is None:
            raise ValueError("the command names days: say with `since` (YYYY-MM-DD) which is the first to fetch")
        return self

    @property
    def names_days(self) -> bool:
        """Whether each day is fetched by itself; else the command prints what there is at that moment."""
        return any(_placeholders(word) & set(_DAYS) for word in self.command)


class Source(_Part):
    """Where the log is and how to read it; `options` belongs to the format and is checked by its adapter."""

    format: SourceFormat  # what wrote the log; each format has its own `options`
    #: Of the log's files, with * and **; ${NAME} is expanded when they are read. What `collect` fetched is read after them.
    paths: tuple[str, ...] = ()
    collect: Collect | None = None  # a command that prints the log; null: somebody else writes the files
    options: dict[str, Any] = {}  # of the format, see there
    reject_share_at_most: float = Field(
        0.02, ge=0, le=1
    )  # a load with more refused records stops: real exports stay below 1 %; above, the format is likely wrong

    @field_validator("format", mode="before")
    @classmethod
    def _not_an_older_name(cls, value: Any) -> Any:
        if value == "k8s_pods":
            raise ValueError(
                "k8s_pods is no format any more: write `format: table` with a map of its columns, as the example openb.yaml does; "
                "what kubectl prints is `format: kubernetes`"
            )
        return value

    @model_validator(mode="after")
    def _is_somewhere(self) -> Self:
        if not self.paths and self.collect is None:
            raise ValueError("name the log's files in `paths`, or a command that prints it in `collect`")
        return self


class CartParameters(_Part):
    """Of the CART predictor; MLaaS-in-the-Wild names the method only, depth and leaf are those of FACTS-style public replays."""

    max_depth: int = Field(16, ge=1, le=1000)  # questions from the root to a leaf
    min_samples_leaf: int = Field(20, ge=1)  # jobs in a leaf, at least


class GbdtParameters(_Part):
    """Of the LightGBM predictors."""

    trees: int = Field(300, ge=1, le=MOST_TREES)  # of each model
    leaves: int = Field(63, ge=2, le=MOST_LEAVES)  # of a tree, at most
    learning_rate: float = Field(0.07, gt=0, le=1)  # how much of its correction a tree makes
    min_data_in_leaf: int = Field(20, ge=1, le=LARGEST_INT)  # jobs in a leaf, at least


class RuncastParameters(_Part):
    """Of the predictor `runcast`; one default for all logs, chosen before the test stretch of any (see training/DECISIONS.md)."""

    latest_jobs: int = Field(150_000, ge=1)  # learns from so many, the latest ended
    trees: int = Field(
        200, ge=1, le=MOST_TREES
    )  # of p90 and of the scorer; each of the median's two models has three quarters of it
    leaves: int = Field(31, ge=2, le=MOST_LEAVES)  # of a tree, at most
    learning_rate: float = Field(0.05, gt=0, le=1)  # how much of its correction a tree makes
    min_data_in_leaf: int = Field(50, ge=1, le=LARGEST_INT)  # jobs in a leaf, at least
    scored_rows: int = Field(300_000, ge=1)  # (job, candidate) pairs that the scorer learns from
    refined_jobs: int = Field(60_000, ge=100)  # jobs that the refiner and the calibration learn from
    margin_jobs: int = Field(1000, ge=50, le=200_000)  # latest ended jobs that correct p90
    margin_level: float = Field(0.92, gt=0, lt=1)  # a little over 0.9: what drifts falls short


class Training(_Part):
    """What the models learn from."""

    window_days: float | None = Field(
        None, gt=0, le=LONGEST_DAYS
    )  # learn from jobs that ended in the last so many days; null: from all that had ended
    #: Learn only from jobs submitted so early that this share of the ended ones had taken no longer; null: from all that had ended.
    held_back_share: float | None = Field(None, gt=0, le=1)
    min_jobs: int = Field(500, ge=2)  # below this LightGBM degenerates towards a constant; the baseline serves instead
    seed: int = Field(7, ge=0, le=LARGEST_INT)  # of all that is drawn at random: equal data and seed, equal models
    threads: int = Field(1, ge=1, le=1024)  # two OpenMP threads on a busy 2-core machine are 10-100 times slower
    fit_timeout_s: float = Field(3600, gt=0, le=86_400)  # one fit; longer is a hang: 200,000 jobs take minutes
    cart: CartParameters = CartParameters()  # of the model kind cart
    gbdt: GbdtParameters = GbdtParameters()  # of the model kind gbdt
    runcast: RuncastParameters = RuncastParameters()  # of the model kind runcast


class Gate(_Part):
    """One condition on one number of the report; `than_best_baseline` compares with the best baseline on the same rows."""

    metric: str = "error_factor"  # what is judged; coverage_<target> is the share of jobs with an error below a target
    rows: str = "all"  # on which test jobs; also state:<state>, group:<group>, queue:, account: or user:<name>
    at_most: float | None = None  # fails above it; null: no such bound
    at_least: float | None = None  # fails below it; null: no such bound
    than_best_baseline: bool = True  # fails where the best baseline does better on the same jobs

    @field_validator("metric")
    @classmethod
    def _known_metric(cls, value: str) -> str:
        return value if value.startswith(COVERAGE_PREFIX) else _known(value, get_args(GateMetric), f"{COVERAGE_PREFIX}<target>")

    @field_validator("rows")
    @classmethod
    def _known_rows(cls, value: str) -> str:
        if value.startswith("state:"):
            return f"state:{_known(value.removeprefix('state:'), tuple(STATES))}"
        column, _, name = value.partition(":")
        if column in _GATE_NAMES and not name:
            raise ValueError(f"{value!r} names no {column}; write {column}:<{column}>")
        if column in _GATE_NAMES:
            return value
        return _known(value, get_args(GateRows), "state:<state>", *(f"{one}:<{one}>" for one in _GATE_NAMES))

    @model_validator(mode="after")
    def _can_hold_and_fail(self) -> Self:
        if not self.than_best_baseline and self.at_most is None and self.at_least is None:
            raise ValueError("asks for nothing: set at_most, at_least or than_best_baseline: true")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"nothing is at least {self.at_least:g} and at most {self.at_most:g}")
        if self.metric == "under_share" and self.than_best_baseline:
            raise ValueError(
                "neither more nor less under_share is better: set at_most or at_least, and than_best_baseline: false"
            )
        if self.metric.startswith(COVERAGE_PREFIX) and self.rows != "all":
            raise ValueError(f"coverage is computed on all jobs, not on {self.rows!r}")
        return self


Target = Annotated[float, Field(gt=0, le=1)]  # a share: 0.089 is 8.9 %
Share = Annotated[float, Field(ge=0, le=1)]


class Evaluation(_Part):
    """How the models are judged."""

    test_share: float = Field(0.2, gt=0, lt=1)  # the latest share of jobs by submission
    min_test_jobs: int = Field(100, ge=1)  # with fewer nothing is judged
    targets: tuple[Target, ...] = (
        0.089,
        0.108,
    )  # relative errors whose coverage is reported: those that published predictors reach
    #: All have to hold before a model serves: better than the best baseline, and a p90 that covers most jobs (real logs: 65 %).
    gates: tuple[Gate, ...] = (Gate(), Gate(metric="p90_coverage", at_least=0.6, than_best_baseline=False))
    replay_schedule: str | None = (
        "0 10 * * 6"  # cron, in time_zone: hours of one core, so by day and at the week's end; null: by hand
    )

    @field_validator("replay_schedule")
    @classmethod
    def _known_cron(cls, value: str | None) -> str | None:
        return _cron(value)

    @field_validator("gates")
    @classmethod
    def _at_least_one(cls, value: tuple[Gate, ...]) -> tuple[Gate, ...]:
        if not value:
            raise ValueError("an empty list would let every model serve; leave the key out for the default gate")
        return value

    @field_validator("targets")
    @classmethod
    def _each_once(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        names = [f"{target:g}" for target in value]
        if doubled := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{doubled} is given twice (targets are compared by six digits); keep one of them")
        return value

    @model_validator(mode="after")
    def _coverage_is_known(self) -> Self:
        known = tuple(f"{COVERAGE_PREFIX}{target:g}" for target in self.targets)
        for gate in self.gates:
            if gate.metric.startswith(COVERAGE_PREFIX) and gate.metric not in known:
                raise ValueError(f"gate on {gate.metric}: coverage is computed at the targets: {', '.join(known) or 'none'}")
        return self


class Quality(_Part):
    """Ranges of the quality suite; see quality.py for what each stops or warns of."""

    min_rows: int = Field(1, ge=0)  # jobs of a day; with fewer the night stops
    null_share_at_most: dict[str, Share] = {}  # by canonical column: the largest share of a day's jobs without a value
    row_count_factor: float | None = Field(
        None, gt=1
    )  # how many times more or fewer rows a day may have; null: as the days before differ

    @field_validator("null_share_at_most")
    @classmethod
    def _known_columns(cls, value: dict[str, float]) -> dict[str, float]:
        return {_known(name, tuple(column.name for column in COLUMNS)): share for name, share in value.items()}


class Drift(_Part):
    """When a change is an alarm: it is large, and larger than what is usual for this cluster; see evaluation/drift.py.

    How often the defaults speak up on the public logs, and what they find, stands in docs/drift.md.
    """

    days: int = Field(
        7, ge=1, le=366
    )  # the latest days, held against the window before: a whole week, or every weekend would be one
    periods: int = Field(
        26, ge=4, le=1000
    )  # as many stretches of `days` before say what is usual: half a year; fewer than 4 say nothing
    min_jobs: int = Field(100, ge=1)  # of a stretch, and of the window before it; with fewer nothing is judged
    distance_at_least: float = Field(0.45, gt=0, le=1)  # of Jensen and Shannon: 0 the same, 1 nothing in common
    distance_times_usual: float = Field(1.25, ge=1)  # and so many times the largest distance of the periods before
    error_at_least: float = Field(1.5, gt=1)  # error factor of the stretch over that of the window before
    error_times_usual: float = Field(1.25, ge=1)  # and so many times the largest such ratio of the periods before
    fails_task: bool = True  # a red task `drift` in Airflow; the night itself is done by then
    webhook_url_file: str | None = None  # a file that holds one http(s) address: it is often a secret; ${NAME} is expanded


class Export(_Part):
    """What is handed to the scheduler, and where what it was told can be read."""

    #: Past this a bundle is not served: a week without a night is a fault. At least 72 minutes: a scheduler needs time to load it.
    valid_days: float = Field(7, ge=0.05, le=LONGEST_DAYS)
    served: tuple[str, ...] | None = Field(None, min_length=1)  # globs of what `runcast serve` keeps; null: no live accuracy
    sign_key: str | None = Field(
        None, min_length=1
    )  # private key that signs bundles, see scheduler/signature.py; null: none does


class Retention(_Part):
    """How long what can be made again is kept; jobs in the lake, what an alias names and what serves are always kept."""

    versions_days: int = Field(
        90, ge=1, le=LONGEST_DAYS
    )  # a quarter of nights to compare; a version weighs what its history does
    rollbacks: int = Field(3, ge=1)  # versions that were champion, for a rollback, however old
    models_days: int = Field(14, ge=1, le=LONGEST_DAYS)  # folders of trained models; the registry has copies
    bundles: int = Field(3, ge=1)  # beside the current one, the latest others: for a rollback by hand, and for slow readers
    reports_days: int = Field(
        400, ge=1, le=LONGEST_DAYS
    )  # reports, records of nights, live accuracy, replays: a year can be compared with the last


class Pseudonymise(_Part):
    """Which names are replaced by a keyed hash before anything is kept; see pseudonyms.py for what is lost."""

    key_file: str = Field(min_length=1)  # at least 32 characters; ${NAME} is expanded at use
    columns: tuple[NameColumn, ...] = Field(
        DEFAULT_COLUMNS, min_length=1
    )  # which names; queues, qos, ids and nodes are clear by default


class Cluster(_Part):
    """One cluster, as its file says; `path` is where it was read from, which no file can say."""

    name: str = Field(min_length=1)  # of the cluster, in paths, DAGs and MLflow; default: the file's, without .yaml
    description: str = ""  # a sentence for people
    source: Source  # the log
    time_zone: str  # of naive times in the log, and of the calendar features
    clock: Clock = "calendar"  # what is true of the log's times: all, hour and weekday only (week), differences only (relative)
    gpus_tracked: bool = False  # whether a request without GPUs means 0 of them; false: it is unknown (null)
    time_limit: TimeLimitKind = (
        "hard"  # what the log's limit means: jobs are killed at it (hard), an estimate (advisory), not to be read (absent)
    )
    schedule: str | None = None  # when the night runs: cron, in time_zone; null: only by hand (a finished log)
    lookback_days: float = Field(
        3, ge=0, le=LONGEST_DAYS
    )  # days before the night's that are read again, for records that arrive late
    training: Training = Training()  # what the models learn from
    evaluation: Evaluation = Evaluation()  # how they are judged, and what must hold before one serves
    quality: Quality = Quality()  # what a day's jobs must be like, or nothing is trained
    drift: Drift = Drift()  # which changes raise an alarm
    export: Export = Export()  # what the scheduler gets
    retention: Retention = Retention()  # how long what can be made again is kept
    pseudonymise: Pseudonymise | None = None  # which names become keyed hashes; null: they stay as the log has them
    refused: str | None = None  # why this log cannot be used; every command but `clusters` stops with this text
    _path: Path = PrivateAttr(Path())

    def model_post_init(self, context: Any, /) -> None:
        if isinstance(context, Path):
            self._path = context

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not CLUSTER_NAME.fullmatch(value):
            raise ValueError(
                f"{value[:120]!r} cannot name a cluster: up to 100 ASCII letters, digits, '_', '-' and '.', the first no '-' or '.'; "
                "rename the file, or give it another `name`"
            )
        return value

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, value: str) -> str:
        if value not in _zones():
            near = difflib.get_close_matches(value, sorted(_zones()), n=1)
            raise ValueError(f"unknown time zone {value!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return value

    @field_validator("schedule")
    @classmethod
    def _known_cron(cls, value: str | None) -> str | None:
        return _cron(value)

    @model_validator(mode="after")
    def _has_days_to_collect(self) -> Self:
        if self.source.collect is not None and self.clock != "calendar":
            raise ValueError(f"source.collect fetches days of the calendar, and clock is {self.clock!r}")
        return self

    @property
    def path(self) -> Path:
        return self._path

    @property
    def zone(self) -> tzinfo:
        return ZoneInfo(self.time_zone)


def read_cluster(path: Path) -> Cluster:
    """Read one cluster file; the name defaults to the file's stem. Raises ClusterFileError with line and nearest key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ClusterFileError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ClusterFileError(f"{path}: not UTF-8 at byte {error.start}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that is none
        raise ClusterFileError(f"{path}: not valid YAML: {error}") from error
    if doubled := _doubled_key(root):
        key, first = doubled
        raise ClusterFileError(
            f"{path}:{key.start_mark.line + 1}: the key {key.value!r} is given twice, first at line {first.start_mark.line + 1}; "
            "keep one of them"
        )
    if root is None or not isinstance(content, dict):
        raise ClusterFileError(f"{path}: expected a mapping with at least source and time_zone, found {type(content).__name__}")
    try:
        return Cluster.model_validate({"name": path.stem, **content}, context=path)
    except ValidationError as error:
        raise ClusterFileError("\n".join(_explain(path, root, e["loc"], e["type"], e["msg"]) for e in error.errors())) from None


def _doubled_key(root: yaml.Node | None) -> tuple[yaml.Node, yaml.Node] | None:
    """Return the first key that a mapping of the file has twice, and where it stood before: YAML would take the last unsaid."""
    waiting, met = [root] if root is not None else [], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in met:  # an alias: its anchor's content
            continue
        met.add(id(node))
        if isinstance(node, yaml.MappingNode):
            keys: dict[tuple[str, str], yaml.Node] = {}
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and (known := keys.setdefault((key.tag, key.value), key)) is not key:
                    return key, known
                waiting.append(value)
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
    return None


#: One folder of cluster files, or several, which count as one.
Folders = Path | Sequence[Path]


def read_clusters(folders: Folders) -> dict[str, Cluster]:
    """Read every *.yaml of the folders, by cluster name in name order; a broken file and two files of one name are refused."""
    clusters, broken = _read_what_can_be(folders)
    for error in broken.values():
        raise error
    return clusters


def find_cluster(folders: Folders, name: str) -> Cluster:
    """Return the cluster called `name`; raises UnknownCluster with the nearest name where there is none.

    A broken file stops only its own cluster, and two files of one name stop only that name.
    """
    clusters, broken = _read_what_can_be(folders)
    if name not in clusters:
        if name in broken:
            raise broken[name]
        where = ", ".join(str(folder) for folder in _listed(folders))
        if (EXAMPLES / f"{name}.yaml").is_file():
            raise UnknownCluster(
                f"no cluster {name!r} in {where}; it is an example, of a public log. Copy {EXAMPLES / name}.yaml there, "
                f"or set RUNCAST_CLUSTERS={EXAMPLES}"
            )
        near = difflib.get_close_matches(name, [*clusters, *broken], n=1)
        raise UnknownCluster(
            f"no cluster {name!r} in {where}"
            + (f"; did you mean {near[0]!r}?" if near else f"; it holds {', '.join(clusters) or 'none'}")
        )
    cluster = clusters[name]
    if cluster.refused:
        raise ClusterFileError(f"{cluster.path}: {name} cannot be used: {cluster.refused}")
    return cluster


def read_files(folders: Folders) -> dict[Path, Cluster | ClusterFileError]:
    """Return what each *.yaml of the folders holds, or what is wrong with it, in the files' order; of one name all files are wrong."""
    for folder in _listed(folders):
        if not folder.is_dir():
            raise ClusterFileError(f"{folder}: no such folder. Set RUNCAST_CLUSTERS to the folder of the cluster files.")
    files: dict[Path, Cluster | ClusterFileError] = {}
    by_name: dict[str, list[Path]] = defaultdict(list)
    for path in [path for folder in _listed(folders) for path in sorted(folder.glob("*.yaml"))]:
        try:
            files[path] = cluster = read_cluster(path)
        except ClusterFileError as error:
            files[path] = error
        else:
            by_name[cluster.name].append(path)
    for name, paths in by_name.items():
        for path in paths if len(paths) > 1 else ():
            others = ", ".join(str(other) for other in paths if other != path)
            files[path] = ClusterFileError(f"{path}: the name {name!r} is also that of {others}; give each its own", name)
    return files


def passed_over(folders: Folders) -> list[Path]:
    """Return the files that somebody may have meant as cluster files: YAML by their names, but not *.yaml."""
    every = [path for folder in _listed(folders) for path in sorted(folder.iterdir())]
    return [path for path in every if path.suffix.lower() in (".yaml", ".yml") and path.suffix != ".yaml"]


def _listed(folders: Folders) -> Sequence[Path]:
    return [folders] if isinstance(folders, Path) else folders


def _read_what_can_be(folders: Folders) -> tuple[dict[str, Cluster], dict[str, ClusterFileError]]:
    """Return the usable clusters by name and the errors of the others by file stem, and by name where it is known."""
    clusters: dict[str, Cluster] = {}
    broken: dict[str, ClusterFileError] = {}
    for path, held in read_files(folders).items():
        if isinstance(held, Cluster):
            clusters[held.name] = held
        else:
            broken[path.stem] = broken[held.cluster or path.stem] = held
    return clusters, broken


def _explain(path: Path, root: yaml.Node, loc: tuple[int | str, ...], kind: str, message: str) -> str:
    line, known = _locate(root, loc)
    where = f"{path}:{line}: {'.'.join(map(str, loc))}"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(loc[-1]), known, n=1)
        return f"{where}: unknown key" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}")
    return f"{where}: {_IN_WORDS.get(kind) or message.removeprefix('Value error, ')}"


#: What a person who writes YAML is told in place of Python's types, by pydantic's kind of error.
_IN_WORDS = {
    "tuple_type": "expected a list: [one, another]",
    "dict_type": "expected keys with their values; leave it out for the defaults",
    "model_type": "expected keys with their values; leave it out for the defaults",
}


def _locate(root: yaml.Node, loc: tuple[int | str, ...]) -> tuple[int, list[str]]:
    """Return the 1-based line of `loc` (of its nearest parent where it is absent) and the keys known there."""
    node, model = root, Cluster
    line, known = root.start_mark.line + 1, sorted(Cluster.model_fields)
    for step in loc:
        known = sorted(model.model_fields) if model is not None else []
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if step not in pairs:
                break
            key, node = pairs[str(step)]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1
        model = _model_at(model, step)
    return line, known


def _model_at(model: Any, step: int | str) -> Any:
    """Return the settings class below `step`, or None where the step leads to a plain value."""
    if isinstance(step, int) or model is None:
        return model
    field = model.model_fields.get(step)
    if field is None:
        return None
    kinds = [field.annotation, *get_args(field.annotation)]
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, _Part)), None)
