"""FLAML's side of the outside check: reads arrays from a folder, searches for so many seconds, writes its answers there.

Run by an interpreter that holds FLAML and nothing of ours: `python automl.py FOLDER SECONDS`. The folder holds learned.npy (n, k),
learned_log.npy (n,) by rising end of the jobs, and asked.npy (m, k); it gets answered_log.npy (m,) and told.json.
"""

import json
import logging
import resource
import sys
import time
from pathlib import Path

#: FLAML's own list without its linear learner, which refuses unknown values.
LEARNERS = ["lgbm", "xgboost", "xgb_limitdepth", "rf", "extra_tree"]
#: What the search is judged by, absolute errors, is also what its boosted trees minimise; by themselves they minimise squares.
OBJECTIVES = {
    "lgbm": {"objective": {"domain": "regression_l1"}},
    "xgboost": {"objective": {"domain": "reg:absoluteerror"}},
    "xgb_limitdepth": {"objective": {"domain": "reg:absoluteerror"}},
}


def main(folder: Path, seconds: float, seed: int = 7) -> None:
    import flaml
    import numpy as np

    logging.getLogger("flaml").setLevel(logging.ERROR)
    learned, learned_log = np.load(folder / "learned.npy"), np.load(folder / "learned_log.npy")
    began = time.monotonic()
    search = flaml.AutoML()
    search.fit(
        learned, learned_log, task="regression", metric="mae",  # of ln(runtime): its median, as ours
        time_budget=seconds, estimator_list=LEARNERS, custom_hp=OBJECTIVES,
        eval_method="holdout", split_type="time", n_jobs=1, seed=seed, verbose=0,
    )  # fmt: skip
    answered_log = search.predict(np.load(folder / "asked.npy"))
    np.save(folder / "answered_log.npy", np.asarray(answered_log, np.float64))
    used = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    told = {
        "seconds": seconds,
        "version": flaml.__version__,
        "best": search.best_estimator,
        "wall_s": time.monotonic() - began,
        "processor_s": sum(one.ru_utime + one.ru_stime for one in used),
    }
    (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
