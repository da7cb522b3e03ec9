"""job_submit.lua inside a real slurmctld, against a service that answers, hangs, answers rubbish or is gone."""

import os
import re
import time
from collections.abc import Iterator

import pytest
from answering import Answering, answering, nobody_accepts
from one_node import OneNode

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

BOUND_MS = 20 + 80  # of timeout_ms, and what a busy 2-core machine may be late by
USERS = ("games", "news")  # any two accounts that every Debian has


@pytest.fixture
def service(node: OneNode) -> Iterator[Answering]:
    with answering(node.folder / "predict.sock") as running:
        wait_for_the_breaker()
        yield running


def wait_for_the_breaker() -> None:
    time.sleep(1.1)


def job(node: OneNode, number: int) -> dict[str, str]:
    """Return what `scontrol show job` says of a job, by key."""
    text = node.run("scontrol", "show", "job", "--oneliner", str(number)).stdout.strip()
    return {key: value.strip() for key, value in re.findall(r"([A-Z]\w+)=(.*?)(?= [A-Z][\w:/]+=|\s*$)", text)}


def asking_ms(log: str) -> list[float]:
    """Return how long slurmctld waited for each asking of a log (with report_every = 1)."""
    return [float(ms) for ms in re.findall(r"runcast: asked 1 times, \d without a forecast; .* max ([\d.]+) ms", log)]


def submit_held(node: OneNode, *options: str, user: str = USERS[0]) -> int:
    return node.submit("--hold", *options, user=user, script="sleep 1")


def test_the_forecast_stands_in_the_comment_and_the_limit_is_as_asked(node: OneNode, service: Answering) -> None:
    number = submit_held(
        node, "--job-name=train", "--gres=gpu:2", "--time=10", "--comment=mine", "--cpus-per-task=2", user=USERS[1]
    )
    shown = job(node, number)
    assert shown["Comment"] == "mine; runcast p50=90s p90=401s confidence=0.75 n=12 source=nearest_median model=demo/7"
    assert shown["TimeLimit"] == "00:10:00"
    assert shown["TimeMin"] == "N/A"
    asked = service.asked[-1]
    assert abs(asked.pop("submit_time") - time.time()) < 60
    assert asked == {
        "user": "news",
        "group": "news",
        "queue": "gpu",
        "qos": "normal",
        "job_name": "train",
        "work_dir": "/tmp",
        "gpu_count": 2,
        "cpu_count": 2,
        "node_count": 1,
        "time_limit_s": 600,
    }


def test_a_job_that_names_nothing_passes(node: OneNode, service: Answering) -> None:
    number = submit_held(node)
    assert job(node, number)["Comment"].startswith("runcast p50=90s")
    assert service.asked[-1]["time_limit_s"] == 7 * 86400
    assert service.asked[-1]["gpu_count"] == 0


def test_names_that_are_no_text_pass(node: OneNode, service: Answering) -> None:
    name = 'a"b\\c\n%s é\x01'
    number = submit_held(node, f"--job-name={name}")
    assert job(node, number)["Comment"].startswith("runcast p50=90s")
    assert service.asked[-1]["job_name"] == name


def test_shorter_work_is_placed_first(node: OneNode, service: Answering) -> None:
    service.forecasts = {"long": {"p50_s": 4000, "p90_s": 5000}, "short": {"p50_s": 4, "p90_s": 5}}
    numbers = {
        name: node.submit(f"--job-name={name}", "--begin=now+1hour", user=USERS[0], script="true") for name in ("long", "short")
    }
    shown = {name: int(job(node, number)["Priority"]) for name, number in numbers.items()}
    many_gpus = node.submit("--job-name=short", "--gres=gpu:8", "--begin=now+1hour", user=USERS[0], script="true")
    assert shown["short"] > int(job(node, many_gpus)["Priority"]) > shown["long"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hang", "timeout"),
        ("trickle", "timeout"),
        ("not_json", "rubbish"),
        ("noise", "rubbish"),
        ("header_without_end", "rubbish"),
        ("reversed", "rubbish"),
        ("close", "refused"),
        ("stale", "stale"),
        ("refused_field", "status"),
    ],
)
def test_a_faulty_service_costs_no_job_and_no_more_than_the_bound(
    node: OneNode, service: Answering, mode: str, reason: str
) -> None:
    submit_held(node)  # answered: the failures before it are forgotten
    service.asked.clear()
    service.mode, service.forget_s = mode, 0.5
    offset = node.slurmctld_log.stat().st_size
    numbers = [submit_held(node, f"--job-name={mode}") for _ in range(4)]
    log = node.log_since(offset)
    assert all(job(node, number)["JobState"] == "PENDING" and "Comment" not in job(node, number) for number in numbers)
    assert f"runcast: no forecast: {reason}: " in log
    assert "runcast: no forecast: pause: not asked again for 1 s" in log
    assert len(service.asked) == 2
    assert len(asking_ms(log)) == 2
    assert max(asking_ms(log)) < BOUND_MS
    assert log.count("_slurm_rpc_submit_batch_job: JobId=") == 4


def test_no_service_costs_no_job(node: OneNode) -> None:
    wait_for_the_breaker()
    offset = node.slurmctld_log.stat().st_size
    submit_held(node)
    assert "runcast: no forecast: refused: No such file or directory" in node.log_since(offset)
    with nobody_accepts(node.folder / "predict.sock"):
        submit_held(node)
    log = node.log_since(offset)
    assert log.count("runcast: no forecast: ") >= 2
    assert max(asking_ms(log)) < BOUND_MS


def test_the_service_is_asked_again_once_it_is_back(node: OneNode) -> None:
    wait_for_the_breaker()
    for _ in range(2):
        submit_held(node)
    offset = node.slurmctld_log.stat().st_size
    with answering(node.folder / "predict.sock"):
        skipped = submit_held(node)
        wait_for_the_breaker()
        answered = submit_held(node)
    assert "Comment" not in job(node, skipped)
    assert job(node, answered)["Comment"].startswith("runcast p50=90s")
    assert "runcast: the service answers again" in node.log_since(offset)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        pytest.param("runcast.lua", "return {", "runcast: not loaded, jobs pass without a forecast", id="half_written"),
        pytest.param("runcast.lua", None, "runcast: not loaded, jobs pass without a forecast", id="missing"),
        pytest.param(
            "job_submit.lua", "function slurm_job_submit(", "using previous script", id="invalid_hook_keeps_the_previous"
        ),
    ],
)
def test_a_broken_script_costs_no_job(node: OneNode, file: str, text: str | None, message: str) -> None:
    offset = node.slurmctld_log.stat().st_size
    path = node.folder / file
    good = path.read_text()
    try:
        path.unlink() if text is None else path.write_text(text)
        reload_plugin(node)
        submit_held(node)
        assert message in node.log_since(offset)
    finally:
        path.write_text(good)
        reload_plugin(node)
        submit_held(node)


def reload_plugin(node: OneNode) -> None:
    """Let slurmctld read the script again: it does so when the script's time of change is later than at its last load."""
    script, marker = node.folder / "job_submit.lua", node.folder / "changed"
    later = max(script.stat().st_mtime, marker.stat().st_mtime if marker.exists() else 0) + 2
    marker.touch()
    for path in (script, marker):
        os.utime(path, (later, later))
