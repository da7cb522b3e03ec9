"""What was acknowledged is there after any death; what was not, is not."""

import contextlib
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from runcast.scheduler.errors import JournalError
from runcast.scheduler.journal import Journal

EVENTS = [{"event": "submitted", "job_id": str(n), "note": 'ä\n"x'} for n in range(5)]


def _reopened(path: Path) -> list[dict[str, object]]:
    journal = Journal(path)
    events = journal.read()
    journal.close()
    return events


def test_events_come_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS[:2])
    journal.append([])
    journal.append(EVENTS[2:])
    journal.close()
    assert _reopened(tmp_path / "j") == EVENTS


def test_cut_off_end_is_dropped_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS)
    journal.close()
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert _reopened(path) == EVENTS[: sum(end <= cut for end in ends)]
        journal = Journal(path)
        journal.append([{"event": "after"}])
        journal.close()
        assert _reopened(path)[-1] == {"event": "after"}


def test_damaged_line_is_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS)
    journal.close()
    path.write_bytes(path.read_bytes().replace(b'"job_id":"2"', b'"job_id":"9"'))
    journal = Journal(path)
    assert journal.damaged_lines == 1
    assert journal.read() == [EVENTS[i] for i in (0, 1, 3, 4)]
    journal.close()


def test_second_writer_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    with pytest.raises(JournalError, match="another service writes it"):
        Journal(tmp_path / "j")
    journal.close()
    assert _reopened(tmp_path / "j") == []


def test_full_disk_keeps_what_was_acknowledged_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """A file size limit is the full disk: the kernel writes what fits of a line and refuses the rest."""
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
        with pytest.raises(JournalError, match="events could not be kept"):
            journal.append(EVENTS[:2])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    journal.append(EVENTS[:1])
    journal.close()
    assert _reopened(path) == [*EVENTS, EVENTS[0]]


def test_shortened_to_what_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS)
    assert journal.keep(lambda e: str(e["job_id"]) >= "3") == 3
    journal.append([{"event": "after"}])
    journal.close()
    assert _reopened(path) == [*EVENTS[3:], {"event": "after"}]
    assert [p.name for p in tmp_path.iterdir() if "writing" in p.name] == []


def test_removed_file_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS)
    path.unlink()
    assert journal.read() == EVENTS
    journal.append([{"event": "after"}])
    journal.close()
    assert _reopened(path) == [*EVENTS, {"event": "after"}]


def test_what_cannot_be_a_journal_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "j"):
        with pytest.raises(JournalError, match="cannot be opened"):
            Journal(path)


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "j"
    writer = textwrap.dedent(
        f"""
        from pathlib import Path
        from runcast.scheduler.journal import Journal
        journal = Journal(Path({str(path)!r}))
        for n in range(10**6):
            journal.append([{{"event": "x", "n": n}}])
            print(n, flush=True)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", writer], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    acknowledged = -1
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged >= 200:
            process.kill()
            break
    acknowledged = max([acknowledged, *map(int, process.stdout.read().split("\n")[:-1])])
    process.stdout.close()
    process.wait()
    kept = [event["n"] for event in _reopened(path)]
    assert kept[: acknowledged + 1] == list(range(acknowledged + 1))
    assert len(kept) <= acknowledged + 2


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the files that were flushed with fdatasync, as they then were."""
    sizes: list[int] = []
    real = os.fdatasync

    def flush(file: int) -> None:
        sizes.append(os.fstat(file).st_size)
        real(file)

    monkeypatch.setattr(os, "fdatasync", flush)
    return sizes


def test_append_flushes_where_asked_and_flush_does_the_rest(tmp_path: Path, flushed: list[int]) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS[:1], is_flushed=True)
    first = journal.size_bytes
    journal.flush()
    journal.append(EVENTS[1:], is_flushed=False)
    assert flushed == [first]
    journal.flush()
    journal.flush()
    assert flushed == [first, journal.size_bytes]
    journal.close()


def test_flush_is_of_the_file_that_took_the_journals_place(tmp_path: Path, flushed: list[int]) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS, is_flushed=False)
    journal.keep(lambda event: event["job_id"] == "3")
    journal.flush()
    assert flushed == [journal.size_bytes]
    journal.close()


def test_flush_that_the_disk_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS, is_flushed=False)

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(JournalError, match="may not be on disk \\(Input/output error\\)"):
        journal.flush()
    journal.close()


def _line_of(text: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(text), text)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[" * 100_000, b"3", b"[]", b'"event"', b"{}", b'{"event": ["ended"]}', b'{"event": null}', b"\xff\xfe"],
    ids=["empty", "cut off", "deep", "number", "list", "text", "no event", "list for a kind", "null for a kind", "no UTF-8"],
)
def test_line_with_a_right_checksum_that_holds_no_event_is_left_out_and_counted(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.append(EVENTS[:1])
    journal.close()
    with path.open("ab") as file:
        file.write(_line_of(text))
    journal = Journal(path)
    journal.append(EVENTS[1:])
    assert (journal.damaged_lines, journal.cut_off_bytes, journal.count, journal.read()) == (1, 0, 5, EVENTS)
    journal.close()


def test_what_is_cut_off_is_counted(tmp_path: Path) -> None:
    (tmp_path / "j").write_bytes(_line_of(b'{"event":"x"}') + b"0123")
    journal = Journal(tmp_path / "j")
    assert (journal.count, journal.cut_off_bytes, journal.damaged_lines) == (1, 4, 0)
    journal.close()


@contextlib.contextmanager
def read_only(journal: Journal) -> Iterator[None]:
    """A file system that went read-only: neither written to nor cut, as with EROFS, though the descriptor is another."""
    writable = os.dup(journal._file)
    unwritable = os.open(journal.path, os.O_RDONLY)
    os.dup2(unwritable, journal._file)
    try:
        yield
    finally:
        os.dup2(writable, journal._file)
        os.close(writable)
        os.close(unwritable)


def test_read_only_file_system_is_an_error_each_time_and_over_when_it_is_writable_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS[:1])
    with read_only(journal):
        for _ in range(3):
            with pytest.raises(JournalError, match="events could not be kept"):
                journal.append(EVENTS)
        assert journal.read() == EVENTS[:1]
    journal.append(EVENTS[1:])
    journal.close()
    assert _reopened(tmp_path / "j") == EVENTS


def test_half_a_line_that_could_not_be_cut_back_is_cut_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full in the middle of a long line and then refuses to cut it: a shorter line after it must not leave its end."""
    journal = Journal(tmp_path / "j")
    real = os.pwrite

    def half(file: int, data: bytes, offset: int) -> int:
        real(file, data[: len(data) // 2], offset)
        raise OSError(28, "No space left on device")

    def refuse(_file: int, _size: int) -> None:
        raise OSError(30, "Read-only file system")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", half)
        broken.setattr(os, "ftruncate", refuse)
        with pytest.raises(JournalError, match="No space left"):
            journal.append([{"event": "long", "note": "x" * 1000}])
    journal.append([{"event": "short"}])
    journal.close()
    assert _reopened(tmp_path / "j") == [{"event": "short"}]


def test_writer_whose_caller_has_gone_and_the_next_one_do_not_write_over_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that stops writes what waits while a thread still writes what was cancelled."""
    journal = Journal(tmp_path / "j")
    real, begun = os.pwrite, threading.Event()

    def slow(file: int, data: bytes, offset: int) -> int:
        begun.set()
        time.sleep(0.1)
        return real(file, data, offset)

    monkeypatch.setattr(os, "pwrite", slow)
    first = threading.Thread(target=journal.append, args=(EVENTS[:3],))
    first.start()
    begun.wait()
    journal.append(EVENTS[3:])
    first.join()
    journal.close()
    assert _reopened(tmp_path / "j") == EVENTS


def test_flush_takes_no_descriptor(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS, is_flushed=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        journal.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    journal.close()


def test_flush_that_was_refused_is_made_good_by_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a refusal the kernel takes the pages for clean: another fdatasync of that file would say all is well."""
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS, is_flushed=False)
    before = (tmp_path / "j").stat().st_ino

    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", refuse)
        with pytest.raises(JournalError, match="may not be on disk"):
            journal.flush()
    journal.flush()
    assert (tmp_path / "j").stat().st_ino != before
    journal.append([{"event": "after"}])
    journal.close()
    assert _reopened(tmp_path / "j") == [*EVENTS, {"event": "after"}]


def test_journal_of_a_busy_day_is_gone_through_and_shortened_without_holding_it(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(b"".join(_line_of(b'{"event":"ended","n":%d,"note":"%s"}' % (n, b"x" * 800)) for n in range(20_000)))
    tracemalloc.start()
    try:
        journal = Journal(path)
        with contextlib.closing(journal.snapshot()) as events:
            assert [sum(event["n"] for event in events) for _ in range(2)] == [199_990_000] * 2
        assert journal.keep(lambda event: bool(event["n"] % 2)) == 10_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 << 20, f"{peak} bytes for a journal of {20_000 * 850}"
    assert (journal.count, journal.size_bytes) == (10_000, path.stat().st_size)
    journal.close()
    assert [event["n"] for event in _reopened(path)] == list(range(1, 20_000, 2))


def test_snapshot_stays_as_it_was_while_events_come_and_the_file_is_replaced(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.append(EVENTS[:3])
    with contextlib.closing(journal.snapshot()) as events:
        journal.append(EVENTS[3:])
        journal.keep(lambda event: event["job_id"] == "4")
        assert list(events) == EVENTS[:3]
    journal.close()
