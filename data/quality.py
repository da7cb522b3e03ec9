"""Runs the night's checks with Great Expectations and builds its Data Docs: the only module that imports it.

The context lives in memory; results are kept below the cluster's quality folder and rendered to static pages beside them. A check
that raises is broken, which is not the same as bad data: it is reported apart, and stops only if the check would have.
Great Expectations takes seconds to import: this module is imported by the night and by `runcast quality` alone.
"""

import json
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd

from runcast.data.errors import QualityStop
from runcast.data.quality_suites import Check

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read once, at import: nothing is sent anywhere
with warnings.catch_warnings():  # it imports modules that Python has deprecated; its affair, not ours
    warnings.simplefilter("ignore")
    import great_expectations as gx
    import great_expectations.expectations as gxe
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults, ProgressBarsConfig

KEYS_SHOWN = 20
_FINDINGS_IN_JSON, _KEYS_IN_JSON = 12, 5
_NIGHTS_IN_DOCS = 60


@dataclass(frozen=True)
class Finding:
    """A check that failed or broke: what was expected, what was found, and keys of the first jobs concerned."""

    check: str
    severity: str
    expected: str
    found: str
    job_keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        keys = f" (e.g. {', '.join(self.job_keys[:3])})" if self.job_keys else ""
        return f"{self.check}: expected {self.expected}; found {self.found}{keys}"


@dataclass(frozen=True)
class QualityReport:
    """The outcome of a night's checks. `broken` holds checks that raised, whatever the data."""

    cluster: str
    day: str
    rows: int
    checks: int
    stops: tuple[Finding, ...]
    warns: tuple[Finding, ...]
    broken: tuple[Finding, ...]
    data_docs: str  # path of the index page

    @property
    def stopped_by(self) -> tuple[str, ...]:
        """Names of the checks that stop the night: those that failed, and broken ones that would have stopped it."""
        return tuple(sorted(f.check for f in (*self.stops, *self.broken) if f.severity == "stop"))

    @property
    def passed(self) -> bool:
        return not self.stopped_by

    def explain(self) -> str:
        """What stops the night: each check, what it expected and what it found; empty where nothing does."""
        if self.passed:
            return ""
        lines = [str(finding) for finding in self.stops]
        lines += [f"check broken, data not judged: {finding}" for finding in self.broken if finding.severity == "stop"]
        head = f"{self.cluster}, {self.day}: nothing is trained, the champion stays."
        return "\n  ".join([head, *lines]) + (
            f"\nSee {self.data_docs}. Mend the log and run the night again. If the day is in order as it is: "
            f"runcast nightly --cluster {self.cluster} --date {self.day} --accept-quality REASON"
        )

    def require_passed(self, accepted: Collection[str] = ()) -> None:
        """Raise QualityStop with the explanation, unless no check stops the night but those that were accepted."""
        if stops := tuple(name for name in self.stopped_by if name not in accepted):
            raise QualityStop(self.explain(), stops)

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values, below 10 kB: the first findings of each kind, with how many there are."""
        counts = {f"{kind}_count": len(getattr(self, kind)) for kind in ("stops", "warns", "broken")}
        shown = {
            kind: [_short(finding) for finding in getattr(self, kind)[:_FINDINGS_IN_JSON]]
            for kind in ("stops", "warns", "broken")
        }
        return {**asdict(self), **shown, **counts, "passed": self.passed, "stopped_by": list(self.stopped_by)}


def check_jobs(
    cluster: str,
    day: date,
    folder: Path,
    *,
    jobs: tuple[pd.DataFrame, Sequence[Check]],
    night: tuple[pd.DataFrame, Sequence[Check]],
    values: Mapping[str, str] | None = None,
) -> QualityReport:
    """Run both suites on their frames (see quality_suites.py); results and pages go below `folder`, over the same night's.

    `values` says, by check, what a finding of it found beside its number; the report has it, the pages do not.

    Raises OSError where a page cannot be written: the night is run again, and then its pages are whole.
    """
    _forget_old_nights(folder, day)
    context = _context(folder)
    suites = {"jobs": jobs, "night": night}
    definitions = [_definition(context, name, checks) for name, (_, checks) in suites.items()]
    results: list[Any] = []
    for name, definition in zip(suites, definitions, strict=True):
        checkpoint = gx.Checkpoint(
            name=name,
            validation_definitions=[definition],
            actions=[gx.checkpoint.UpdateDataDocsAction(name="pages", site_names=["pages"])],
            # SUMMARY keeps counts and the first few; COMPLETE would list every bad row, for ever.
            result_format={
                "result_format": "SUMMARY",
                "partial_unexpected_count": KEYS_SHOWN,
                **({"unexpected_index_column_names": ["job_key"]} if name == "jobs" else {}),
            },
        )
        with _raised_where_unwritten():
            run = context.checkpoints.add(checkpoint).run(
                batch_parameters={"dataframe": suites[name][0]},
                run_id=gx.RunIdentifier(run_name=day.isoformat(), run_time=datetime.combine(day, time(), tzinfo=UTC)),
            )
        results += [result for outcome in run.run_results.values() for result in outcome.results]
    failed = [result for result in results if not result.success]
    broken = [finding for result in failed if (finding := _broken(result))]
    wrong = [_with_values(_finding(result), values or {}) for result in failed if not _broken(result)]
    report = QualityReport(
        cluster=cluster,
        day=day.isoformat(),
        rows=len(jobs[0]),
        checks=len(results),
        stops=_by_name(finding for finding in wrong if finding.severity == "stop"),
        warns=_by_name(finding for finding in wrong if finding.severity == "warn"),
        broken=_by_name(broken),
        data_docs=str(folder / "docs" / "index.html"),
    )
    _keep(folder / "reports" / f"{day.isoformat()}.json", report)
    return report


def _forget_old_nights(folder: Path, day: date) -> None:
    """Delete results and pages but those of `day` and of the latest nights beside it: the index lists no more."""
    for suite in (*folder.glob("results/*"), *folder.glob("docs/validations/*")):
        nights = sorted(night for night in suite.iterdir() if night.name != day.isoformat())
        for night in nights[: max(0, len(nights) - _NIGHTS_IN_DOCS + 1)]:
            shutil.rmtree(night)


@contextmanager
def _raised_where_unwritten() -> Iterator[None]:
    """Raise the first OSError of writing a page.

    Great Expectations logs such an error with its trace, once for each page, and goes on without the page.
    """
    refused: list[OSError] = []

    def is_told(record: logging.LogRecord) -> bool:
        error = sys.exception()  # it logs while it handles the error, and does not hand it on
        if isinstance(error, OSError):
            refused.append(error)
        return not isinstance(error, OSError)

    pages = logging.getLogger("great_expectations.render.renderer.site_builder")
    pages.addFilter(is_told)
    try:
        yield
    finally:
        pages.removeFilter(is_told)
    if refused:
        raise refused[0]


def _context(folder: Path) -> Any:
    stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
    stores.stores[stores.validation_results_store_name] = {
        "class_name": "ValidationResultsStore",
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str(folder / "results"),
            "suppress_store_backend_id": True,  # a drawn id for their statistics; one half written is complained of every night
        },
    }
    pages = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder / "docs")},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "validation_results_limit": _NIGHTS_IN_DOCS},
    }
    config = DataContextConfig(
        store_backend_defaults=stores,
        data_docs_sites={"pages": pages},
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(project_config=config, mode="ephemeral")


def _definition(context: Any, name: str, checks: Sequence[Check]) -> Any:
    data = context.data_sources.add_pandas(name).add_dataframe_asset(name).add_batch_definition_whole_dataframe("day")
    suite = gx.ExpectationSuite(name=name, expectations=[_expectation(check) for check in checks])
    return context.validation_definitions.add(gx.ValidationDefinition(name=name, data=data, suite=context.suites.add(suite)))


def _expectation(check: Check) -> Any:
    return getattr(gxe, check.expectation)(
        **check.arguments,
        severity="critical" if check.severity == "stop" else "warning",
        meta={"check": check.name, "severity": check.severity, "expected": check.expected},
    )


def _finding(result: Any) -> Finding:
    meta, outcome = result.expectation_config.meta, result.result
    values = outcome.get("partial_unexpected_list") or []
    is_number = result.expectation_config.type == "expect_column_values_to_be_between"
    if "observed_value" in outcome:
        found = f"{outcome['observed_value']}"
    elif outcome["element_count"] == 1 and is_number:  # the night's one row
        found = f"{float(values[0]):.4g}"
    else:
        found = f"{outcome['unexpected_count']} of {outcome['element_count']} otherwise"
        found += f", e.g. {float(values[0]):g}" if is_number and values else ""
    rows = outcome.get("partial_unexpected_index_list") or []
    keys = tuple(str(row["job_key"]) for row in rows if isinstance(row, dict))[:KEYS_SHOWN]
    return Finding(meta["check"], meta["severity"], meta["expected"], found, keys)


def _with_values(finding: Finding, values: Mapping[str, str]) -> Finding:
    said = values.get(finding.check)
    return replace(finding, found=f"{finding.found}; {said}") if said else finding


def _broken(result: Any) -> Finding | None:
    """The finding of a check that raised, None for one that came to a result."""
    info = result.exception_info
    entries = [info] if "raised_exception" in info else list(info.values())
    raised = [entry for entry in entries if entry.get("raised_exception")]
    if not raised:
        return None
    meta = result.expectation_config.meta
    return Finding(
        meta["check"], meta["severity"], meta["expected"], f"an exception: {str(raised[0]['exception_message'])[:200]}"
    )


def _by_name(findings: Any) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: finding.check))


def _short(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "job_keys": list(finding.job_keys[:_KEYS_IN_JSON])}


def _keep(path: Path, report: QualityReport) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    beside.replace(path)
