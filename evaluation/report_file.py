"""A night's report.json as it is read again: by the registry, the alarm and the terminal. Light: no model library is needed to read it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runcast.evaluation.errors import ReportDamaged, ReportMissing

#: What is read of a night's report, and what it is; of some every value is an object too.
_OBJECTS = ("predictors", "verdicts", "coverage")
_HOLDS: Mapping[str, type] = {"jobs": int, "data": dict, "drift": list, **dict.fromkeys(_OBJECTS, dict)}


def read_document(path: Path) -> dict[str, Any]:
    """Return what an evaluation wrote of a night at `path`; raises ReportMissing, ReportDamaged."""
    again = f"Evaluate the night again: runcast evaluate --cluster {path.parent.parent.name} --date {path.parent.name}"
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ReportMissing(f"no report at {path}. {again}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ReportDamaged(f"{path} is damaged ({str(error)[:100]}). {again}") from error
    held = document if isinstance(document, dict) else {}
    wrong = [name for name, kind in _HOLDS.items() if not isinstance(held.get(name), kind)]
    wrong += [name for name in _OBJECTS if name not in wrong and not all(isinstance(one, dict) for one in held[name].values())]
    if wrong:
        raise ReportDamaged(f"{path} is damaged: {', '.join(wrong)} are not what an evaluation writes. {again}")
    return held
