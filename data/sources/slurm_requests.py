"""What a Slurm job asked for: CPUs, nodes, GPUs, memory and time.

Requests are read from ReqTRES, ReqCPUS, ReqNodes, ReqGRES and ReqMem. Allocations (AllocTRES, NCPUS, NNodes) are known only after
the start and stand in for a missing request only where the cluster file says so.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runcast.data.cluster import Cluster
from runcast.data.sources.durations import Limit, time_limit, time_limit_of_minutes
from runcast.data.sources.record import floats
from runcast.data.sources.slurm_fields import Fields, SlurmOptions, Tally
from runcast.data.sources.slurm_resources import gres, memory, tres


def requests(
    fields: Fields, cluster: Cluster, options: SlurmOptions, tally: Tally
) -> tuple[dict[str, pa.Array], dict[str, np.ndarray]]:
    """Return the canonical columns of each record's request, and flags."""
    asked = fields.read("reqtres", tres)
    cpus = _first_known(asked.numbers(lambda t: t.cpus), fields.counts("reqcpus"))
    nodes = _first_known(asked.numbers(lambda t: t.nodes), fields.counts("reqnodes"))
    listed = fields.read("reqgres", gres)
    gpus, models = asked.numbers(lambda t: t.gpus.total), asked.texts(lambda t: t.gpus.model)
    models = _where_unknown(gpus, listed.texts(lambda g: g.model), models)
    per_node = listed.numbers(lambda g: g.per_node)
    gpus = _first_known(gpus, listed.numbers(lambda g: g.per_job) + np.where(per_node == 0, 0, per_node * nodes))
    mem_mib = asked.numbers(lambda t: t.mem_mib)
    filled = np.zeros(fields.rows, bool)
    if options.allocated_as_requested:
        got = fields.read("alloctres", tres)
        lacked = [cpus, nodes, gpus]
        cpus = _first_known(cpus, got.numbers(lambda t: t.cpus), fields.counts("alloccpus"), fields.counts("ncpus"))
        nodes = _first_known(nodes, got.numbers(lambda t: t.nodes), fields.counts("allocnodes"), fields.counts("nnodes"))
        models = _where_unknown(gpus, got.texts(lambda t: t.gpus.model), models)
        gpus = _first_known(gpus, got.numbers(lambda t: t.gpus.total))
        filled = np.logical_or.reduce([np.isnan(a) & ~np.isnan(b) for a, b in zip(lacked, (cpus, nodes, gpus), strict=True)])
    if cluster.gpus_tracked:
        says = asked.mask(lambda t: t.cpus is not None and not t.is_accelerated)  # every TRES list names CPUs; "" does not
        gpus = np.where(np.isnan(gpus) & says, 0.0, gpus)
    mem_mib = _first_known(mem_mib, _memory(fields, cpus, nodes, tally))
    if options.allocated_as_requested:
        mem_mib = _first_known(mem_mib, got.numbers(lambda t: t.mem_mib))
    numbers = {"cpu_count": cpus, "node_count": nodes, "gpu_count": gpus, "mem_mib": mem_mib}
    columns = {name: floats(values, ~np.isnan(values)) for name, values in numbers.items()}
    return columns | {"gpu_model": models} | _limits(fields, cluster, options, tally), {"allocated_as_requested": filled}


def _memory(fields: Fields, cpus: np.ndarray, nodes: np.ndarray, tally: Tally) -> np.ndarray:
    """Return ReqMem in MiB for the whole job, NaN where it is not given or not understood."""
    asked = fields.read("reqmem", memory)
    tally.note("memory_unreadable", int(asked.mask(lambda m: not m.readable).sum()))
    return _first_known(
        asked.numbers(lambda m: m.mib if m.scope == "job" else None),
        asked.numbers(lambda m: m.mib if m.scope == "node" else None) * nodes,
        asked.numbers(lambda m: m.mib if m.scope == "cpu" else None) * cpus,
    )


def _limits(fields: Fields, cluster: Cluster, options: SlurmOptions, tally: Tally) -> dict[str, pa.Array]:
    """Return each job's limit and its kind; sacct writes Partition_Limit of a job that names none, until it starts."""
    how: Callable[[str], Limit] = time_limit if "timelimit" in fields.columns else time_limit_of_minutes
    limits = fields.read("timelimit" if "timelimit" in fields.columns else "timelimitraw", how)
    seconds = limits.numbers(lambda limit: limit.seconds)
    tally.note("time_limit_unreadable", int(limits.mask(lambda limit: limit.kind == "unreadable").sum()))
    kinds = {"given": cluster.time_limit, "unlimited": "unlimited", "partition": "partition"}
    kind = limits.texts(lambda limit: kinds.get(limit.kind, "absent"))
    if options.partition_limits and (of_partition := limits.mask(lambda limit: limit.kind == "partition")).any():
        known = {name: time_limit(text) for name, text in options.partition_limits.items()}
        partitions = fields.read("partition", lambda text: known.get(text.partition(",")[0], Limit(None, "partition")))
        seconds = np.where(of_partition, partitions.numbers(lambda limit: limit.seconds), seconds)
        kind = pc.if_else(pa.array(of_partition), partitions.texts(lambda limit: kinds[limit.kind]), kind)
    return {"time_limit_s": floats(seconds, ~np.isnan(seconds)), "time_limit_kind": kind}


def _first_known(*columns: np.ndarray) -> np.ndarray:
    found = columns[0]
    for column in columns[1:]:
        found = np.where(np.isnan(found), column, found)
    return found


def _where_unknown(numbers: np.ndarray, instead: pa.Array, texts: pa.Array) -> pa.Array:
    """Take the text of another column where this one's number is not known."""
    return pc.if_else(pa.array(np.isnan(numbers)), instead, texts)
