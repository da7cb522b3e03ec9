"""What a cluster file would have to say for a refused record to be read, guessed from how its text looks."""

import re

from runcast.data.cluster import Source
from runcast.data.sources.batch import Reject

_CLOCK = r"\d{1,2}:\d{2}"

_LENGTHS = ("runtime_s_unreadable", "queue_s_unreadable")

#: How times look that `time: naive` does not read, and what reads them; day and month are told apart where one is above 12.
_TIMES = (
    (r"\b\d{16}\b", "epoch_us"),
    (r"\b\d{13}\b", "epoch_ms"),
    (r"\b\d{9,11}\b", "epoch_s"),
    (rf"\b(?:1[3-9]|2\d|3[01])([./-])\d{{1,2}}\1\d{{4}} {_CLOCK}", "{{format: '%d{0}%m{0}%Y %H:%M{1}'}}"),
    (rf"\b\d{{1,2}}([./-])(?:1[3-9]|2\d|3[01])\1\d{{4}} {_CLOCK}", "{{format: '%m{0}%d{0}%Y %H:%M{1}'}}"),
    (rf"\b\d{{1,2}}(\.)\d{{1,2}}\.\d{{4}} {_CLOCK}", "{{format: '%d{0}%m{0}%Y %H:%M{1}'}}"),
    (rf"\b\d{{1,2}}([/-])\d{{1,2}}\1\d{{4}} {_CLOCK}", "{{format: '%d{0}%m{0}%Y %H:%M{1}'}} (or %m{0}%d, if the month comes first)"),
    (rf"\b\d{{4}}([/.])\d{{2}}\1\d{{2}} {_CLOCK}", "{{format: '%Y{0}%m{0}%d %H:%M{1}'}}"),
    (rf"\b[A-Z][a-z]{{2}} +\d{{1,2}} {_CLOCK}:\d{{2}} \d{{4}}", "{{format: '%b %d %H:%M:%S %Y'}}"),
    (rf"\b\d{{4}} [A-Z][a-z]{{2}} +\d{{1,2}} {_CLOCK}:\d{{2}}", "{{format: '%Y %b %d %H:%M:%S'}}"),
    (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})", "aware"),
)  # fmt: skip


_TIMES_LONG = ("time_limit_s", "runtime_s", "queue_s")
_COUNTS = ("gpu_count", "cpu_count", "node_count", "restarts")
#: How numbers look that are no plain ones, of which columns, and what reads them.
_NUMBER_WORDS = (
    (r"[\d.]+ *(?:[kmgtp]i?b?|b)", ("mem_mib",), "`unit: suffix`"),
    (r"(?:\d+(?:-| days?,? +))?\d+:\d\d:\d\d(?:\.\d+)?", _TIMES_LONG, "`unit: hh:mm:ss`"),
    (r"(?:\d+(?:-| days?,? +))?\d+:\d\d", _TIMES_LONG, "`unit: hh:mm` (hours and minutes)"),
    (r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d+", (*_TIMES_LONG, *_COUNTS, "mem_mib"), "numbers without a comma: none is read"),
    (r"\d+ *[^\d.,e ].*", _COUNTS, "`pattern: '^(?P<value>[0-9]+)'`, if the number at its beginning is the count"),
    (r".*\D\d+", _COUNTS, "`pattern: '(?P<value>[0-9]+)$'`, if the number at its end is the count"),
)  # fmt: skip


def unit_hint(column: str, word: str) -> str:
    """Return a sentence, after a full stop, on what reads this word of a table's number column, else nothing."""
    for fits, columns, takes in _NUMBER_WORDS:
        if column in columns and re.fullmatch(fits, word.strip(), re.IGNORECASE):
            return f". Try {takes}"
    return ""


def hint(reject: Reject, source: Source) -> str:
    """Return a sentence, after a blank, on what `time:` or `unit:` takes for a table's record whose times cannot be read, else nothing."""
    if source.format == "table" and reject.reason in _LENGTHS:
        clock = ". Here perhaps `unit: hh:mm:ss`" if re.search(_CLOCK, reject.raw) else ""
        return f" Try: `unit:` says in what a length of time is: seconds, minutes, hours, days, hh:mm:ss{clock}"
    if source.format != "table" or not reject.reason.endswith(("_time_unreadable", "time_out_of_range", "in_the_future")):
        return ""
    said = source.options.get("time", "naive")
    for pattern, takes in _TIMES:
        match = re.search(pattern, reject.raw)
        if match:
            seconds = ":%S" if re.match(r":\d{2}", reject.raw[match.end() :]) else ""
            form = takes.format(match.group(1) if match.groups() else "", seconds)
            if form != said:
                return f" Try, if the time is {(match.group() + ('…' if seconds else ''))!r}: `time: {form}`"
    return (
        " Try: `time:` says how a column writes times: naive, aware, epoch_s, epoch_ms, epoch_us, seconds_from, format; "
        "`null_words` lists the words that mean none"
    )
