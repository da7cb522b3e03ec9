"""Write the golden bundles anew: PYTHONPATH=src:benchmarks python tests/scheduler/golden/make.py

Needed when the features have changed (a bundle of other features is refused, as it should be) and when the format gets a new number;
the folder of an older format stays as it is. Forty made-up jobs; the answers are those of the training side.
"""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
from predictor import CLUSTER, CUT, made_up, questions

from runcast.data.cluster import Training
from runcast.features.catalog import feature_version
from runcast.features.table import build
from runcast.scheduler.bundle import FORMAT_VERSION
from runcast.scheduler.export import features_beside, history, pack, submitted_again
from runcast.training.fitting import fit_at, score_matrix
from runcast.training.scoring import ModelCard, Scorer, load_scorer, save_scorer

HERE = Path(__file__).parent
KINDS = ("cart", "gbdt", "runcast", "nearest_median")
TRAINING = Training.model_validate(
    {
        "min_jobs": 20,
        "gbdt": {"trees": 3, "leaves": 4, "min_data_in_leaf": 5},
        "cart": {"min_samples_leaf": 5},
        "runcast": {"trees": 3, "leaves": 4, "min_data_in_leaf": 5},
    }
)


def main() -> None:
    jobs = made_up(40, users=3)
    matrix = build(jobs.to_pandas(), CLUSTER.clock, CLUSTER.time_zone)
    fit = fit_at(matrix, round(CUT.timestamp() * 1e6), KINDS, TRAINING)
    again = submitted_again(jobs.slice(30), CUT)
    asked = [{**job, "submit_time": CUT.isoformat()} for job in questions(jobs, 10)[::-1]]
    for kind in KINDS:
        folder = HERE / f"format-{FORMAT_VERSION}" / kind
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            encoder = json.loads(fit.encoder.to_json()) if fit.encoder and kind != "nearest_median" else {}
            model = Path(scratch) / "model"
            save_scorer(Scorer(fit.fitted[kind].rule, ModelCard("bench", feature_version(), encoder, {}, {}, {})), model)
            state = history(jobs, CLUSTER.clock, CLUSTER.time_zone, CUT)
            made = {"model_version": f"{kind}-golden", "registered": None, "cut": CUT, "created": CUT}
            shutil.move(pack(Path(scratch), cluster=CLUSTER, model=model, state=state, **made), folder)
            found = score_matrix(load_scorer(model), features_beside(jobs, again, CLUSTER))
        numbers = {
            name: np.asarray(getattr(found, name)).tolist() for name in ("p50_s", "p90_s", "point_s", "confidence", "source")
        }
        answers = [dict(zip(numbers, row, strict=True)) for row in zip(*numbers.values(), strict=True)]
        pairs = [{"asked": job, "answer": answer} for job, answer in zip(asked, answers, strict=True)]
        (folder.parent / f"{kind}.json").write_text(json.dumps(pairs, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
