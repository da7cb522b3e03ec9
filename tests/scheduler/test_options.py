"""Numbers on the command lines of the processes beside the scheduler: what has no sense ends them at once, with exit code 2 and why."""

from collections.abc import Callable, Sequence

import pytest

from runcast.scheduler.kubernetes import webhook
from runcast.scheduler.options import seconds, whole
from runcast.scheduler.serve import main as serve
from runcast.scheduler.slurm import feeder, scorer

SERVE = (serve, ["--bundle", "none", "--socket", "none"])
SCORE = (scorer.main, ["--memory", "none", "--note", "comment"])
EVENTS = (feeder.main, ["events", "--memory", "none"])
LOG = (feeder.main, ["log", "--folder", "none"])
WEBHOOK = (webhook.main, [])


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        (SERVE, "--socket-mode", "999"),
        (SERVE, "--socket-mode", "-1"),  # chmod would take it for 7777
        (SERVE, "--socket-mode", "7777777777777"),
        (SERVE, "--served-days", "x"),
        (SERVE, "--served-days", "-1"),
        (SERVE, "--flush-every", "nan"),
        (SERVE, "--flush-every", "x"),
        (SCORE, "--every", "0"),
        (SCORE, "--every", "nan"),
        (SCORE, "--timeout", "-1"),
        (SCORE, "--timeout", "0"),
        (SCORE, "--max-seconds", "inf"),
        (EVENTS, "--every", "-1"),
        (EVENTS, "--timeout", "0"),
        (EVENTS, "--first-pass", "nan"),
        (EVENTS, "--first-pass", "-5"),
        (LOG, "--days", "0"),
        (LOG, "--days", "-400000000000"),
        (WEBHOOK, "--port", "99999"),
        (WEBHOOK, "--timeout", "-1"),
    ],
)
def test_number_without_sense_is_refused_at_the_start(
    capsys: pytest.CaptureFixture[str], command: tuple[Callable[[Sequence[str]], int], list[str]], option: str, value: str
) -> None:
    main, others = command
    with pytest.raises(SystemExit, match="2"):
        main([*others, f"{option}={value}"])
    said = capsys.readouterr().err
    assert f"argument {option}: expected " in said
    assert f"found {value!r}" in said


def test_what_has_sense_is_read() -> None:
    assert (seconds(0, 60)("0"), seconds()("0.2"), whole(1, 9)("9"), whole(0, 0o777, base=8)("660")) == (0.0, 0.2, 9, 0o660)
