"""Kubernetes' objects as the tools of several versions wrote them: the values that stand in the real samples."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster
from runcast.data.sources.kubernetes import read

CLUSTER = Cluster.model_validate({"name": "k", "source": {"format": "kubernetes", "paths": ["x"]}, "time_zone": "UTC"})

SAMPLES = [
    # submitted, started, ended and asked for as the files say; the runtimes and waits are differences of their times
    ("ood_pod_completed.json", [("u56xxxxxx/bash", "COMPLETED", 301.0, 0.0, 0.0)]),
    ("ood_pod_error.json", [("u56xxxxxx/jupyter-h6kw06ve", "FAILED", 14.0, 0.0, 0.0)]),
    ("ood_pod_queued.json", [("u56xxxxxx/jupyter-28wixphq", "PENDING", None, None, 0.0)]),
    ("ood_pod_crash_loop.json", [("user-tdockendorf/jupyter-se6t7pfe", "RUNNING", None, 1.0, 0.0)]),
    ("kubeflow_pytorchjob_status_2019.yaml", [("default/pytorch-dist-mnist-gloo", "COMPLETED", 353.0, 334.0, 2.0)]),
    ("kueue_4224_workload_long_wait.yaml", [("default/action", "RUNNING", None, 8666.0, 0.0)]),
    ("kueue_1787_workload_list_check_pending.yaml", [("default/sleep-job-hjksj", "PENDING", None, None, 0.0)]),
    ("kueue_1726_workload_orphan_gpu.yaml", [("u117xx/job-ml-job-annotator-gt-webface-gpu-ff6d8", "RUNNING", None, 0.0, 2.0)]),
    ("kueue_2213_pod_workload_provisioningrequest.yaml", [("kueue-dws/dws-pod", "PREEMPTED", None, None, 1.0)]),
    ("kueue_5711_workload_rayjob.yaml", [("default/rayjob-sample-l58qx", "RUNNING", None, 0.0, 0.0)]),
    ("kueue_8101_jobset.yaml", [("test-tas", "PENDING", None, None, 4.0)]),
    ("kueue_10490_two_pods_preempted.yaml", [("multikueue-2kv6p/high-job", "CANCELLED", 0.0, 1.0, 0.0),
        ("multikueue-2kv6p/low-job", "CANCELLED", 0.0, 0.0, 0.0)]),
    ("volcano_podgroup_running.yaml", []),
]  # fmt: skip


@pytest.mark.traces
@pytest.mark.parametrize(("file", "expected"), SAMPLES, ids=[file for file, _ in SAMPLES])
def test_real_objects(traces: Path, file: str, expected: list[tuple[Any, ...]]) -> None:
    folder = traces / "raw_samples" / "kubernetes"
    batches = list(read(folder / file, CLUSTER))
    rows = pa.concat_tables([batch.jobs for batch in batches]).to_pylist()
    assert not any(batch.rejects for batch in batches)
    assert [tuple(row[name] for name in ("job_id", "state", "runtime_s", "queue_s", "gpu_count")) for row in rows] == expected


@pytest.mark.traces
def test_real_pod_list_of_jobs_and_services(traces: Path) -> None:
    """25 pods: of services, of the nodes themselves, one bare, one of an operator's, and six of jobs, three of which ended."""
    folder = traces / "raw_samples" / "kubernetes"
    (batch,) = read(folder / "hkube_podlist_2018.json", CLUSTER)
    ended = {row["job_id"]: row["runtime_s"] for row in batch.jobs.to_pylist() if row["runtime_s"] is not None}
    assert ended == {
        f"default/etcd-defrag-cron-{at}": s for at, s in ((1521957600, 12.0), (1521958200, 11.0), (1521958800, 13.0))
    }
    assert batch.rows_in == 25
