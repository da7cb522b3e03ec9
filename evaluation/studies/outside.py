"""An outside check: a general search over models (FLAML) on our own feature matrix, beside ours on the same jobs.

FLAML lives in an environment of its own, so that it moves no pin of ours; arrays go to it and come back as files (automl.py).
"""

import hashlib
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from runcast.data.cluster import Training
from runcast.evaluation.errors import OutsideCheckFailed
from runcast.evaluation.metrics import Floats
from runcast.evaluation.replay import test_rows
from runcast.evaluation.report import write_atomically
from runcast.evaluation.studies.headline import headline, headline_of
from runcast.features.encoder import Encoder
from runcast.features.matrix import Matrix
from runcast.training.fitting import answer, fit_at
from runcast.training.forecast import FLOOR_S, Inputs
from runcast.training.gbdt import without_dates
from runcast.training.rows import encoded_inputs, ended_before

OURS = ("gbdt", "runcast")


def compare_outside(
    matrix: Matrix, training: Training, test_share: float, python: Path | None, seconds: float, folder: Path
) -> dict[str, Any]:
    """Return the headline and processor seconds of FLAML and of ours: trained once before the latest `test_share` of the jobs.

    FLAML gets what `gbdt` reads: every feature and code but the dates. Its answers are kept below a hard limit as ours are.
    `python` is an interpreter with FLAML, `folder` is for the arrays, where a search of the same arrays and seconds is not
    repeated. Raises OutsideCheckFailed.
    """
    rows = test_rows(matrix, test_share)
    cut_us = int(matrix.submit_us[rows[0]])
    asked, actual_s = matrix.take(rows), matrix.ended.runtime_s[rows]
    learned = matrix.take(ended_before(matrix, cut_us, training))
    encoder = Encoder.fit(learned)
    given, wanted = (without_dates(encoded_inputs(one, encoder)) for one in (learned, asked))
    answered_log, told = search(given, np.log(learned.ended.runtime_s), wanted, python, seconds, folder)
    answered_s = np.fmin(np.maximum(np.exp(answered_log), FLOOR_S), wanted.hard_limit_s)
    predictors: dict[str, Any] = {"flaml": {**headline_of(actual_s, answered_s), **told}}
    for kind in OURS:
        began = time.process_time()
        fit = fit_at(matrix, cut_us, (kind,), training)
        taken_s = time.process_time() - began
        predictors[kind] = {**headline(actual_s, answer(fit, asked)[kind]), "processor_s": taken_s}
    return {"learned": len(learned), "asked": len(rows), "predictors": predictors}


def search(
    learned: Inputs, learned_log: Floats, asked: Inputs, python: Path | None, seconds: float, folder: Path
) -> tuple[Floats, dict[str, Any]]:
    """Return FLAML's answers, and its version, best learner, wall and processor seconds; see automl.py for the files."""
    told_file = folder / "told.json"
    digest = hashlib.sha256(learned.values.tobytes() + learned_log.tobytes() + asked.values.tobytes()).hexdigest()
    wanted = {"arrays": digest, "seconds": seconds}
    told = json.loads(told_file.read_text(encoding="utf-8")) if told_file.exists() else {}
    if wanted.items() <= told.items():
        return np.load(folder / "answered_log.npy"), told
    if python is None:
        raise OutsideCheckFailed("name an interpreter that holds FLAML with --python; docs/studies.md says how to make one.")
    folder.mkdir(parents=True, exist_ok=True)
    told_file.unlink(missing_ok=True)
    for name, array in (("learned", learned.values), ("learned_log", learned_log), ("asked", asked.values)):
        np.save(folder / f"{name}.npy", array)
    command = [str(python), str(Path(__file__).with_name("automl.py")), str(folder), str(seconds)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise OutsideCheckFailed(f"{python}: cannot be run ({error.strerror}). Name an interpreter that has FLAML.") from error
    if done.returncode:
        raise OutsideCheckFailed(f"{python}: the search ended with code {done.returncode}: {done.stderr.strip()[-500:]}")
    told = json.loads(told_file.read_text(encoding="utf-8")) | wanted
    write_atomically(told_file, json.dumps(told) + "\n")
    return np.load(folder / "answered_log.npy"), told
