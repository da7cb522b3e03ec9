"""LSF's own files as sites published them, and the public log of one queue: values read off the records by eye."""

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runcast.data.cluster import Cluster, find_cluster
from runcast.data.errors import SourceError
from runcast.data.settings import EXAMPLES
from runcast.data.sources import table
from runcast.data.sources.batch import Batch
from runcast.data.sources.lsf import read

pytestmark = pytest.mark.traces

AIIDA = (
    "jobid stat exit_reason exec_host user slots max_req_proc exec_host queue finish_time start_time %complete submit_time name"
)

#: Options, jobs, rejects by line, and jobs by their number in the file: runtime, wait, processors, GPUs, nodes, limit, state.
SAMPLES: dict[str, tuple[dict[str, Any], int, list[int], dict[int, tuple[Any, ...]]]] = {
    "apel_51_706_911.lsb.acct": ({}, 3, [], {
        0: (544.0, 116_839.0, 1, None, 1, None, "COMPLETED"), 1: (16.0, 3.0, 16, None, 2, None, "FAILED"),
        2: (25.0, 16.0, 1, None, 1, None, "COMPLETED"),
    }),
    "hcs_10108_5jobs.lsb.acct": ({}, 4, [2], {0: (3.0, 1.0, 1, None, 1, None, "COMPLETED")}),
    "hcs_10108_82jobs.lsb.acct": ({}, 82, [], {0: (0.0, 1.0, 1, None, 1, None, "FAILED")}),
    "hcs_issue16.lsb.acct": ({}, 5, [3, 5, 7], {
        0: (None, None, 1, None, 1, 2_419_200.0, "CANCELLED"), 3: (12_345.0, 0.0, 1, None, 1, None, "COMPLETED"),
    }),
    "hcs_issue16b_never_started.lsb.acct": ({}, 1, [], {0: (None, None, 1, None, 1, None, "CANCELLED")}),
    "hcs_issue18.lsb.acct": ({}, 1, [], {0: (240_307.0, 7.0, 16, None, 1, None, "CANCELLED")}),
    "hcs_issue19_913.lsb.acct": ({}, 2, [], {1: (5.0, 2.0, 4, None, 1, None, "COMPLETED")}),
    "hcs_issue22_multicluster.lsb.acct": ({}, 1, [], {0: (17.0, 264.0, 1, None, 1, None, "COMPLETED")}),
    "hcs_issue26_706.lsb.acct": ({}, 5, [28], {1: (82.0, 5.0, 1, None, 1, None, "COMPLETED")}),
    "hcs_issue31_never_started.lsb.acct": ({}, 1, [], {0: (None, None, 1, None, 1, None, "CANCELLED")}),
    "hcs_issue9_hostfactor.lsb.acct": ({}, 10, [], {0: (455.0, 1.0, 2, None, 1, None, "COMPLETED")}),
    "hcs_not_enough_fields.lsb.acct": ({}, 2, [], {0: (15.0, 0.0, 1, None, 1, None, "COMPLETED")}),
    "hcs_numexhosts_damaged.lsb.acct": ({}, 1, [2, 8], {0: (487_824.0, 1.0, 1, None, 1, 2_419_200.0, "CANCELLED")}),
    "safe_703_slurm_ext.lsb.acct": ({}, 3, [1, 2], {0: (32.0, 6.0, 8, None, 1, None, "COMPLETED")}),
    "xdmod_911.lsb.acct": ({}, 2, [], {0: (40_368.0, 453.0, 128, None, 8, 43_200.0, "COMPLETED")}),
    "aiida_bjobs_o_pipe.txt": ({"fields": AIIDA.split(), "written": "2022-02-03"}, 7, [], {
        0: (60.0, 60.0, 1, None, 1, None, "TIMEOUT"), 1: (None, None, None, None, None, None, "PENDING"),
        5: (None, 480.0, 1, None, 1, None, "RUNNING"), 6: (120.0, 0.0, 1, None, 1, None, "COMPLETED"),
    }),
    "batcheuphoria_bjobs_extended.json": ({"written": "2020-12-31"}, 1, [], {0: (1.0, 0.0, 1, None, 1, 600.0, "COMPLETED")}),
    "blog_all_forms_2022.txt": ({"written": "2022-05-11"}, 3, [], {2: (668.0, 1.0, 1, None, 1, None, "COMPLETED")}),
    "blog_bhist_l_gpu8_2025.txt": ({}, 2, [], {
        0: (4601.0, 1.0, 1, 8, 1, None, "COMPLETED"), 1: (368.0, 0.0, 1, 8, 1, None, "COMPLETED"),
    }),
    "blog_bjobs_bhist_gpu_default_2018.txt": ({"written": "2018-12-01"}, 2, [], {1: (303.0, 0.0, 1, 1, 1, None, "COMPLETED")}),
    "blog_checkpoint_restart_2022.txt": ({"written": "2022-05-01"}, 3, [], {1: (346.0, 1.0, 1, None, 1, None, "CANCELLED")}),
    "ceems_bacct_l_gpu_2026.txt": ({}, 1, [], {0: (35.0, 1.0, 4, 4, 2, None, "COMPLETED")}),
    "gc3pie_bacct_l.txt": ({"written": "2012-12-31"}, 3, [], {
        0: (67.0, 50.0, 1, None, 1, None, "COMPLETED"), 2: (55.0, 60.0, 1, None, 1, None, "CANCELLED"),
    }),
    "hcs_bacct_l_unfolded.txt": ({}, 15, [], {
        4: (5.0, 1.0, 1, None, 1, None, "COMPLETED"), 13: (24.0, 0.0, 2, None, 1, None, "COMPLETED"),
    }),
    "pipelite_bhist_l_done_exit127.txt": ({"written": "2021-02-01"}, 2, [], {1: (0.0, 1.0, 1, None, 1, None, "FAILED")}),
}  # fmt: skip
VALUES = ("runtime_s", "queue_s", "cpu_count", "gpu_count", "node_count", "time_limit_s", "state")


def batches_of(path: Path, **options: Any) -> list[Batch]:
    source = {"format": "lsf", "paths": ["x"], "options": options}
    return list(read(path, Cluster.model_validate({"name": "c", "source": source, "time_zone": "Europe/Zurich"})))


@pytest.mark.parametrize("name", SAMPLES)
def test_sample_loads_with_the_values_that_stand_in_it(traces: Path, name: str) -> None:
    options, count, lines, expected = SAMPLES[name]
    batches = batches_of(traces / "raw_samples" / "lsf" / name, **options)
    jobs = pa.concat_tables([batch.jobs for batch in batches]).to_pylist()
    assert (len(jobs), [reject.line for batch in batches for reject in batch.rejects]) == (count, lines)
    assert {at: tuple(jobs[at][column] for column in VALUES) for at in expected} == expected


def test_array_of_a_sample_has_the_id_that_lsf_prints(traces: Path) -> None:
    batches = batches_of(traces / "raw_samples" / "lsf" / "apel_51_706_911.lsb.acct")
    jobs = pa.concat_tables([batch.jobs for batch in batches])
    assert jobs.select(["job_id", "job_name"]).to_pylist()[1] == {"job_id": "436491[23]", "job_name": "imb_sr"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hcs_10108.lsb.events", "it is an lsb.events"),
        ("batcheuphoria_bjobs_many.json", "no submit_time, start_time"),
        ("pipelite_job_report_mail.txt", "nothing that LSF writes"),
        ("gc3pie_bacct_l.txt", "the dates have no year"),
    ],
)
def test_sample_that_tells_no_jobs_is_refused(traces: Path, name: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        batches_of(traces / "raw_samples" / "lsf" / name)


OF_ITS_OWN_READER = {
    "cluster": "283a72dab169", "job_id": "ef7d0b423f75", "job_key": "600ac505199d", "array_id": "7897c50b9711",
    "array_task": "7897c50b9711", "user": "6426c5f1cbc7", "group": "7897c50b9711", "account": "7897c50b9711",
    "queue": "7897c50b9711", "qos": "7897c50b9711", "job_name": "8f9de06c75a1", "work_dir": "37ded02e4d30",
    "submit_time": "11af54731e46", "gpu_count": "3ab69efe9b03", "gpu_model": "7897c50b9711", "cpu_count": "6bcfa28decee",
    "mem_mib": "7897c50b9711", "node_count": "7897c50b9711", "time_limit_s": "7897c50b9711", "time_limit_kind": "bd30689b3298",
    "priority": "7897c50b9711", "task_role": "7897c50b9711", "framework": "7897c50b9711", "start_time": "6d6277011aed",
    "node_list": "9c4161f0ab69", "end_time": "c192919267b5", "state": "053fec30c9aa", "label": "424b327d2bb2",
    "runtime_s": "a8d9a29a6e9d", "queue_s": "44ee65243da8", "attempts": "71109faa6bba", "source": "d1d224d58567",
    "flags": "79191b91c77f",
}  # fmt: skip


def test_public_log_by_table_is_what_its_own_reader_gave(traces: Path) -> None:
    """Each column of the 31,946 jobs, as the format that read this CSV alone had it (commit 428e386)."""
    cluster = find_cluster(EXAMPLES, "lsf")
    jobs = pa.concat_tables([batch.jobs for batch in table.read(traces / "lsf_justqueue_2019" / "jobs.csv.gz", cluster)])
    assert {name: _digest(jobs[name].to_pylist()) for name in jobs.column_names} == OF_ITS_OWN_READER


def _digest(values: list[Any]) -> str:
    return hashlib.sha256(repr(values).encode()).hexdigest()[:12]
