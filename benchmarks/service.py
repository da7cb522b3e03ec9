"""The service under a steady load: requests at a fixed rate over a Unix socket, each timed from when it was due.

    python benchmarks/service.py [--rate 2000] [--seconds 60] [--clients 16] [--kind gbdt] [--flush-every 1]

The service runs in one process on one core, the clients in another. A request that has to wait for an earlier one counts its wait.
A twentieth of the requests are events, kept before they are answered. Prints percentiles, the service's share of its core, and what a
flush of this disk takes by itself, with --flush-every 0 the least an event can take.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from predictor import made_up, questions, write

from runcast.scheduler.bundle import make_current

EVENT_EVERY = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--kind", default="gbdt")
    parser.add_argument("--flush-every", default="1")
    options = parser.parse_args()
    jobs = made_up(options.jobs)
    with tempfile.TemporaryDirectory() as folder:
        bundle = write(jobs, Path(folder), options.kind, created=None)
        make_current(bundle.parent, bundle.name)
        path = Path(folder) / "s"
        command = [sys.executable, "-m", "runcast.scheduler.serve", "--bundle", folder, "--socket", str(path)]
        command += ["--flush-every", options.flush_every]
        service = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL)
        try:
            asyncio.run(drive(options, path, service.pid, questions(jobs, 5000)))
        finally:
            service.terminate()
            service.wait()
        show("a flush", flushes_s(Path(folder) / "flushed"))


async def drive(options: argparse.Namespace, path: Path, pid: int, asked: list[dict[str, Any]]) -> None:
    while not path.exists():
        await asyncio.sleep(0.1)
    forecasts: list[float] = []
    events: list[float] = []
    failed: list[bytes] = []
    begin = time.perf_counter() + 0.5
    used = cpu_s(pid)
    each = options.rate / options.clients
    await asyncio.gather(
        *(
            client(path, begin + n / options.rate, each, options.seconds, n, asked, (forecasts, events, failed))
            for n in range(options.clients)
        )
    )
    took = time.perf_counter() - begin
    share = (cpu_s(pid) - used) / took
    print(
        f"{(len(forecasts) + len(events)) / took:.0f} requests/s for {took:.0f} s, {len(failed)} failed, {share:.0%} of one core"
    )
    if failed:
        print(failed[0].decode())
    show("forecasts", forecasts)
    show("events", events)


def show(name: str, times_s: list[float]) -> None:
    p50, p90, p99, p999 = np.percentile(np.array(times_s) * 1000, [50, 90, 99, 99.9])
    print(f"{name:10} p50 {p50:6.2f}  p90 {p90:6.2f}  p99 {p99:6.2f}  p99.9 {p999:6.2f} ms  n {len(times_s)}")


def flushes_s(path: Path, count: int = 200) -> list[float]:
    """Return how long it takes to append an event's bytes to a file and flush them, again and again."""
    found = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 300)
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - began)
            time.sleep(0.005)
    return found


async def client(
    path: Path, begin: float, rate: float, seconds: float, number: int, asked: list[dict[str, Any]], found: Any
) -> None:
    forecasts, events, failed = found
    reader, writer = await asyncio.open_unix_connection(str(path))
    sent = 0
    while (due := begin + sent / rate) < begin + seconds:
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        is_event = sent % EVENT_EVERY == 0
        if is_event:
            told = {**asked[sent % len(asked)], "event": "submitted", "job_id": f"{number}-{sent}"}
            writer.write(request("/v1/events", told))
        else:
            writer.write(request("/v1/predict", asked[(sent * 16 + number) % len(asked)]))
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        (events if is_event else forecasts).append(time.perf_counter() - due)
        if not head.startswith(b"HTTP/1.1 200"):
            failed.append(body)
        sent += 1
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def request(path: str, content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    return b"POST %s HTTP/1.1\r\nHost: runcast\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
