"""What the scorer decides for one job, and its passes over a queue with a service on a real socket."""

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answering import FORECAST, answering
from test_pending import EXPECTED, V22

from runcast.scheduler.client import Client, ServiceError, _read_answer
from runcast.scheduler.slurm.commands import SlurmCommandError
from runcast.scheduler.slurm.memory import MemoryFileError, held
from runcast.scheduler.slurm.scorer import (
    Change,
    Choice,
    Limits,
    Remembered,
    change_of,
    cost_points,
    main,
    note_text,
    order_refused,
    plan_refused,
    score,
    undo,
    undo_of,
)

NOTE = "runcast p50=90s p90=401s confidence=0.75 n=12 source=nearest_median model=demo/7"
JOB = replace(EXPECTED, nice=0, comment="")


def options(change: Change | None) -> list[str]:
    assert change is not None
    (command,) = change.commands
    assert command[:3] == ("scontrol", "update", "JobId=17")
    return list(command[3:])


def test_cost_is_the_logarithm_of_gpu_time() -> None:
    assert cost_points(FORECAST, 2.0, 1000) == 7500
    assert cost_points({"p50_s": 1e30}, 8.0, 1000) == 32000


@pytest.mark.parametrize(
    ("choice", "job", "expected"),
    [
        pytest.param(Choice(order="site_factor"), JOB, ["SiteFactor=24500"], id="site_factor"),
        pytest.param(Choice(order="nice"), JOB, ["Nice=7500"], id="nice"),
        pytest.param(Choice(order="nice"), replace(JOB, nice=50), ["Nice=7550"], id="nice_is_added_to_own_nice"),
        pytest.param(Choice(order="priority"), JOB, ["Priority=92500"], id="priority"),
        pytest.param(Choice(note="admin_comment"), JOB, [f"AdminComment={NOTE}"], id="admin_comment"),
        pytest.param(Choice(note="comment"), replace(JOB, comment="mine"), [f"Comment=mine; {NOTE}"], id="own_comment_stays"),
        pytest.param(
            Choice(note="comment"),
            replace(JOB, comment="mine; runcast p50=5s p90=9s n=1"),
            [f"Comment=mine; {NOTE}"],
            id="an_older_note_is_replaced",
        ),
        pytest.param(Choice(plan=True), replace(JOB, time_limit_min=60), ["TimeMin=7"], id="plan_in_whole_minutes"),
        pytest.param(
            Choice(order="nice", note="admin_comment", plan=True),
            replace(JOB, time_limit_min=60),
            ["Nice=7500", f"AdminComment={NOTE}", "TimeMin=7"],
            id="all_three",
        ),
    ],
)
def test_each_use_sets_its_own_field(choice: Choice, job: Any, expected: list[str]) -> None:
    assert options(change_of(job, FORECAST, choice, None)) == expected


@pytest.mark.parametrize(
    ("choice", "job"),
    [
        pytest.param(Choice(order="priority"), replace(JOB, is_held=True), id="a_held_job_stays_held"),
        pytest.param(Choice(plan=True), replace(JOB, time_limit_min=7), id="p90_reaches_the_limit"),
        pytest.param(Choice(plan=True), replace(JOB, time_limit_min=None), id="no_limit"),
    ],
)
def test_nothing_to_set_is_no_change(choice: Choice, job: Any) -> None:
    assert change_of(job, FORECAST, choice, None) is None


def test_no_choice_ever_names_the_time_limit() -> None:
    everything = [
        Choice(order, note=note, plan=True)
        for order in ("site_factor", "nice", "priority")
        for note in ("comment", "admin_comment")
    ]
    for choice in everything:
        change = change_of(replace(JOB, time_limit_min=60), FORECAST, choice, None)
        assert not any("timelimit" in word.lower() for word in options(change))


@pytest.mark.parametrize(
    ("p50_s", "p90_s", "changes"),
    [(90, 400.5, False), (98, 400.5, False), (100, 400.5, True), (90, 460, True), (80, 400.5, True)],
)
def test_a_forecast_is_written_again_only_when_it_has_moved_by_a_tenth(p50_s: float, p90_s: float, changes: bool) -> None:
    choice = Choice(order="nice")
    first = change_of(replace(JOB, nice=50), FORECAST, choice, None)
    assert first is not None
    after = replace(JOB, nice=7550)
    again = change_of(after, {**FORECAST, "p50_s": p50_s, "p90_s": p90_s}, choice, first.remembered)
    assert (again is not None) == changes
    if again is not None:
        assert again.remembered is not None
        assert again.remembered.nice_before == 50  # ours was not taken for the user's


def test_a_nice_that_somebody_changed_since_is_theirs() -> None:
    before = Remembered(10.0, 20.0, {"Nice": "3459"}, nice_before=0)
    change = change_of(replace(JOB, nice=200), FORECAST, Choice(order="nice"), before)
    assert options(change) == ["Nice=7700"]
    assert undo_of(replace(JOB, nice=200), before).commands == ()


def test_another_choice_puts_back_what_the_old_one_set() -> None:
    before = Remembered(90.0, 400.5, {"Nice": "7550", "AdminComment": NOTE}, nice_before=50)
    job = replace(JOB, nice=7550, admin_comment=NOTE)
    assert options(change_of(job, FORECAST, Choice(order="site_factor"), before)) == [
        "Nice=50",
        "AdminComment=",
        "SiteFactor=24500",
    ]


def test_undo_puts_everything_back() -> None:
    before = Remembered(
        90.0, 400.5, {"Nice": "7550", "SiteFactor": "1", "TimeMin": "7", "AdminComment": "", "Comment": ""}, nice_before=50
    )
    job = replace(JOB, nice=7550, comment=f"mine; {NOTE}", admin_comment=NOTE)
    assert sorted(options(undo_of(job, before))) == ["AdminComment=", "Comment=mine", "Nice=50", "SiteFactor=0", "TimeMin=0"]
    priority = undo_of(JOB, Remembered(90.0, 400.5, {"Priority": "92500"}))
    assert priority.commands == (("scontrol", "hold", "17"), ("scontrol", "release", "17"))


@pytest.mark.parametrize(
    ("version", "config", "expected"),
    [
        (
            "slurm-wlm 22.05.8",
            "SchedulerParameters     = time_min_as_soft_limit",
            "Slurm 22.05 would make a TimeMin the kill limit",
        ),
        ("slurm 23.11.4", "SchedulerParameters     = bf_continue", "does not hold time_min_as_soft_limit"),
        ("slurm 23.11.4", "", "does not hold time_min_as_soft_limit"),
        ("what", "", "did not tell a version"),
    ],
)
def test_a_plan_is_refused_where_it_could_kill(version: str, config: str, expected: str) -> None:
    assert expected in str(plan_refused(version, config))


def test_a_plan_is_allowed_with_the_soft_limit() -> None:
    assert plan_refused("slurm 24.05.1", "SchedulerParameters     = bf_continue,time_min_as_soft_limit\n") is None


class Queue:
    """Commands as slurmctld would take them, on a queue kept here: squeue shows what scontrol has set."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = {str(job["job_id"]): dict(job) for job in jobs}
        self.commands: list[tuple[str, ...]] = []
        self.fails: set[str] = set()

    def __call__(self, command: Sequence[str]) -> str:
        if command[0] == "squeue":
            return json.dumps({"jobs": list(self.jobs.values())})
        self.commands.append(tuple(command))
        target = command[2].removeprefix("JobId=")
        if target in self.fails:
            raise SlurmCommandError(f"{' '.join(command)}: exit 1: no")
        names = {"Nice": "nice", "AdminComment": "admin_comment", "Comment": "comment"}
        for word in command[3:]:
            name, _, value = word.partition("=")
            self.jobs[target][names.get(name, name)] = int(value) if name == "Nice" else value
        return ""


CHOICE = Choice(order="nice", note="admin_comment")


@pytest.fixture
def queue() -> Queue:
    return Queue(*({**V22, "job_id": number, "nice": 5 * number} for number in (1, 2, 3)))


def test_a_second_pass_changes_nothing_and_undo_restores_the_queue(tmp_path: Path, queue: Queue) -> None:
    before = json.dumps(queue.jobs)
    with answering(tmp_path / "s"), held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        first = score(memory, client, queue, CHOICE, Limits(), gpus_tracked=False)
        assert (first.changed, first.unchanged, len(queue.commands)) == (3, 0, 3)
        second = score(memory, client, queue, CHOICE, Limits(), gpus_tracked=False)
        assert (second.changed, second.unchanged, len(queue.commands)) == (0, 3, 3)
        assert queue.jobs["2"]["nice"] == 10 + 7500
        back = undo(memory, queue, Limits())
        assert back.changed == 3
        assert json.dumps(queue.jobs) == before
        assert undo(memory, queue, Limits()).pending == 0


def test_a_pass_is_bounded_and_the_next_goes_on(tmp_path: Path, queue: Queue) -> None:
    with answering(tmp_path / "s"), held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        first = score(memory, client, queue, CHOICE, Limits(updates=2), gpus_tracked=False)
        assert (first.changed, first.left_for_later) == (2, 1)
        ticks = iter(range(0, 1000, 10))
        slow = score(memory, client, queue, CHOICE, Limits(seconds=5, clock=lambda: next(ticks)), gpus_tracked=False)
        assert (slow.changed, slow.left_for_later, slow.unchanged) == (0, 1, 2)
        assert score(memory, client, queue, CHOICE, Limits(), gpus_tracked=False).changed == 1


def test_a_change_that_failed_is_tried_again_and_keeps_what_was_there(tmp_path: Path, queue: Queue) -> None:
    with answering(tmp_path / "s"), held(tmp_path / "m.json") as memory:
        client = Client(tmp_path / "s", 5.0)
        queue.fails = {"2"}
        report = score(memory, client, queue, CHOICE, Limits(), gpus_tracked=False)
        assert (report.changed, len(report.failed)) == (2, 1)
        queue.fails = set()
        assert score(memory, client, queue, CHOICE, Limits(), gpus_tracked=False).changed == 1
        undo(memory, queue, Limits())
        assert queue.jobs["2"]["nice"] == 10


def test_a_dry_run_prints_the_commands_and_changes_nothing(
    tmp_path: Path, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(tmp_path / "s"), held(tmp_path / "m.json") as memory:
        score(memory, Client(tmp_path / "s", 5.0), queue, CHOICE, Limits(is_dry_run=True), gpus_tracked=False)
    assert capsys.readouterr().out.splitlines()[0] == f"scontrol update JobId=1 Nice=7505 'AdminComment={NOTE}'"
    assert queue.commands == []
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hang", "timeout"),
        ("trickle", "timeout"),
        ("not_json", "rubbish"),
        ("deep", "rubbish"),
        ("stale", "status"),
        ("reversed", "rubbish"),
    ],
)
def test_without_a_usable_answer_nothing_is_changed(tmp_path: Path, queue: Queue, mode: str, reason: str) -> None:
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        service.mode, service.forget_s = mode, 1.0
        with pytest.raises(ServiceError, match=reason):
            score(memory, Client(tmp_path / "s", 0.3), queue, CHOICE, Limits(), gpus_tracked=False)
    assert queue.commands == []


@pytest.mark.attack
@pytest.mark.parametrize(
    "odd",
    [
        {"confidence": 10**400},
        {"confidence": float("nan")},
        {"confidence": True},
        {"n_history": 10**4000},
        {"n_history": True},
        {"source": "x\n"},
        {"model_version": "\x1b[2J; Comment=mine"},
        {"model_version": "m" * 10_000},
        {"model_version": ["x"]},
    ],
)
def test_of_a_service_that_answers_oddly_only_the_forecast_is_written(tmp_path: Path, queue: Queue, odd: dict[str, Any]) -> None:
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        service.forecasts = {job["name"]: odd for job in queue.jobs.values()}
        assert score(memory, Client(tmp_path / "s", 5.0), queue, CHOICE, Limits(), gpus_tracked=False).changed == 3
    notes = [job["admin_comment"] for job in queue.jobs.values()]
    words = {"confidence": "confidence=", "n_history": " n=", "source": "source=", "model_version": "model="}
    assert all(words[name] not in note for name in odd for note in notes)


@pytest.mark.attack
def test_a_service_that_refuses_writes_no_line_of_a_log(tmp_path: Path) -> None:
    """A line end in its message would begin a line of the scorer's log that the service chose."""
    answer = json.dumps({"error": {"message": "no\nscorer: all is well\x1b[2J"}}).encode()
    with pytest.raises(ServiceError) as refused:
        _read_answer(422, answer)
    assert str(refused.value).isprintable()


def test_one_job_that_the_service_refuses_does_not_cost_the_others(tmp_path: Path, queue: Queue) -> None:
    queue.jobs["2"]["name"] = "refuse me"
    with answering(tmp_path / "s") as service, held(tmp_path / "m.json") as memory:
        service.refused_names = {"refuse me"}
        report = score(memory, Client(tmp_path / "s", 5.0), queue, CHOICE, Limits(), gpus_tracked=False)
    assert (report.changed, report.without_forecast) == (2, 1)


def test_two_scorers_do_not_share_a_memory(tmp_path: Path) -> None:
    with held(tmp_path / "m.json"), pytest.raises(MemoryFileError, match="another process uses it"), held(tmp_path / "m.json"):
        pass


@pytest.mark.parametrize(
    ("order", "config", "expected"),
    [
        ("site_factor", "PriorityType            = priority/basic", "takes priority/multifactor"),
        ("nice", "PriorityParameters = (null)\nPriorityType            = priority/basic\n", "takes priority/multifactor"),
        ("nice", "PriorityType            = priority/multifactor", "None"),
        ("priority", "PriorityType            = priority/basic", "None"),
        (None, "PriorityType            = priority/basic", "None"),
    ],
)
def test_an_order_that_moves_nothing_is_refused(order: str | None, config: str, expected: str) -> None:
    assert expected in str(order_refused(order, config))


def test_the_scorer_ends_with_the_reason_where_its_order_would_move_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho 'PriorityType            = priority/basic'\n")  # as `scontrol show config` of 22.05
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert main(["--memory", str(tmp_path / "m.json"), "--order", "site_factor"]) == 2
    assert "--order is refused: PriorityType is priority/basic; --order site_factor takes priority/multifactor" in caplog.text


def test_a_damaged_memory_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"1:')
    with held(tmp_path / "m.json") as memory, pytest.raises(MemoryFileError, match=r"m\.json: cannot be read"):
        memory.load()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to set"),
        (["--order", "priority", "--priority-top", "100"], "must exceed 32 x --order-points"),
        (["--note", "comment", "--every", "0"], "--every: expected 1 to"),
        (["--note", "comment", "--max-updates", "-1"], "--max-updates: expected a whole number from 1 to"),
        (["--order", "nice", "--order-points", "-5"], "--order-points: expected a whole number from 1 to"),
    ],
)
def test_a_command_line_without_sense_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit):
        main(["--memory", str(tmp_path / "m.json"), *arguments])
    assert message in capsys.readouterr().err


def test_the_note_leaves_out_what_is_no_plain_word() -> None:
    assert (
        note_text({**FORECAST, "model_version": "a b; rm", "confidence": None})
        == "runcast p50=90s p90=401s n=12 source=nearest_median"
    )


def test_memory_of_another_or_in_no_folder_is_a_named_error(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"1": {"what": 2}}')
    with held(tmp_path / "m.json") as memory, pytest.raises(MemoryFileError, match="not the scorer's own"):
        undo(memory, lambda _command: "{}", Limits())
    with pytest.raises(MemoryFileError, match="cannot be used"), held(tmp_path / "m.json" / "below"):
        pass
