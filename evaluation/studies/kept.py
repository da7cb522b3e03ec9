"""What a study found in one log is kept as JSON beside what it was asked, so that a study that was stopped goes on where it was."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runcast.evaluation.report import write_atomically


def find_or_keep(path: Path, asked: Mapping[str, Any], find: Callable[[], dict[str, Any]], again: bool = False) -> dict[str, Any]:
    """Return what the file holds where it was asked the same, else (or where `again`) find and write it.

    `asked` is what the finding depends on: data, features, parameters, and what a reader may want to know of it.
    """
    wanted = json.loads(json.dumps(asked))
    if not again and path.exists():
        held = json.loads(path.read_text(encoding="utf-8"))
        if held["asked"] == wanted:
            return dict(held["found"])
    found: dict[str, Any] = json.loads(json.dumps(find()))
    write_atomically(path, json.dumps({"asked": wanted, "found": found}, indent=1) + "\n")
    return found


@dataclass(frozen=True)
class Replays:
    """Where `runcast accuracy` leaves what it replayed, so that figures and worth need no second replay."""

    folder: Path

    def document(self, log: str) -> Path:
        return self.folder / f"{log}.json"

    def predictions(self, log: str) -> Path:
        return self.folder / f"{log}.parquet"
