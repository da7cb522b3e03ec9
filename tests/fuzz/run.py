"""`make fuzz`: many mutated lines of every format through its source, from a seed; counts and lines a second for each.

python tests/fuzz/run.py --seed 1 --lines 1000000

A file that breaks a law is kept below --keep with the seed that makes it again; the exit code is then 1.
"""

import argparse
import json
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from laws import Reading, check_reading
from mutator import mutated_line, mutated_record
from samples import LAYOUTS, Layout, make_job

LINES_PER_FILE = 2000
_COUNTED = ("lines", "mutated", "accepted", "rejected", "skipped", "refused")  # refused: files as a whole
_MUTATED = 0.6  # share of lines; the others are what damage must not spread to


@dataclass
class Tally:
    """Counts of one layout."""

    lines: int = 0
    mutated: int = 0
    accepted: int = 0
    rejected: int = 0
    skipped: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


def make_file(layout: Layout, seed: str, lines: int) -> tuple[bytes, int]:
    """Return a file of this layout, equal for equal seeds, and how many of its lines were mutated."""
    draw = Random(seed)
    rows = [layout.row(make_job(draw, number)) for number in range(1, lines + 1)]
    chosen = [False, *(draw.random() < _MUTATED for _ in rows[1:])]  # the first record may say what the file is
    if layout.document is not None:
        records = [
            json.dumps(mutated_record(row, draw) if is_chosen else row) for row, is_chosen in zip(rows, chosen, strict=True)
        ]
        content = layout.document(records).encode()
        if draw.random() < 0.1:  # the document itself, not only what it says
            content = mutated_line(content, content, draw)
        return content, sum(chosen)
    plain = [str(row).encode() for row in rows]
    quotes = draw.random() < 0.3  # where a quote opens, lines run into one another: most files have none
    changed = [
        mutated_line(line, draw.choice(plain), draw) if is_chosen else line for line, is_chosen in zip(plain, chosen, strict=True)
    ]
    if not quotes:
        changed = [line.replace(b'"', b"'") for line in changed] if layout.file.endswith(".csv") else changed
    return layout.head.encode() + b"\n".join(changed) + b"\n", sum(chosen)


def fuzz(layout: Layout, seed: int, lines: int, keep: Path, *, lines_per_file: int = LINES_PER_FILE) -> Tally:
    """Read `lines` mutated lines of one layout, file by file."""
    tally, began = Tally(), time.perf_counter()
    for number in range(-(-lines // lines_per_file)):
        name = f"{layout.name}-{seed}-{number}"
        content, mutated = make_file(layout, name, min(lines_per_file, lines - number * lines_per_file))
        tally.lines += min(lines_per_file, lines - number * lines_per_file)
        tally.mutated += mutated
        with tempfile.TemporaryDirectory() as folder:
            try:
                reading = check_reading(layout, content, Path(folder), blocks_too=number % 12 == 0)
            except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{name}.log").write_bytes(content)
                tally.faults.append(f"{name}: {traceback.format_exc()}")
                reading = Reading()
        tally.accepted += reading.accepted
        tally.rejected += reading.rejected
        tally.skipped += reading.skipped
        tally.refused += bool(reading.refused)
    tally.seconds = time.perf_counter() - began
    return tally


def main() -> int:
    """Fuzz every layout; return 1 where a law was broken."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--lines", type=int, default=1_000_000, help="over all layouts")
    options.add_argument(
        "--layout", choices=[layout.name for layout in LAYOUTS], action="append", help="only these; default: all"
    )
    options.add_argument("--keep", type=Path, default=Path("var/fuzz"), help="where files that break a law are kept")
    asked = options.parse_args()
    warnings.simplefilter("error")  # as in the tests: numpy warns where a number became another
    layouts = [layout for layout in LAYOUTS if not asked.layout or layout.name in asked.layout]
    show("layout", *_COUNTED, "faults", "lines/s")
    total, faults = Tally(), []
    for layout in layouts:
        tally = fuzz(layout, asked.seed, asked.lines // len(layouts), asked.keep)
        show(layout.name, *figures(tally))
        for name in (*_COUNTED, "seconds"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        faults += tally.faults
    total.faults = faults
    show("all", *figures(total))
    sys.stderr.writelines(f"\n{fault}" for fault in faults)
    return 1 if faults else 0


def figures(tally: Tally) -> list[int]:
    return [*(getattr(tally, name) for name in _COUNTED), len(tally.faults), round(tally.lines / max(tally.seconds, 1e-9))]


def show(name: str, *cells: object) -> None:
    sys.stdout.write(f"{name:18}" + "".join(f"{cell:>10}" for cell in cells) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
