import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from runcast.data.cluster import CartParameters, GbdtParameters, Training
from runcast.training.errors import ModelFileError
from runcast.training.forecast import Inputs
from runcast.training.kinds import KINDS, fit
from runcast.training.scoring import RULES, ModelCard, Scorer, load_scorer, save_scorer

TRAINING = Training(min_jobs=100, cart=CartParameters(max_depth=6), gbdt=GbdtParameters(trees=30, leaves=15))
CARD = ModelCard(
    cluster="venus",
    feature_version="f1",
    encoder={"user": ["a", "b"]},
    parameters={"trees": 30},
    training={"jobs": 1500},
    libraries={"lightgbm": lightgbm.__version__},
)
NAMES = [kind.name for kind in KINDS]


@pytest.fixture
def make_scorer(make_jobs: Callable) -> Callable[[str], Scorer]:
    def make(kind: str) -> Scorer:
        inputs, runtime_s = make_jobs(1500)
        return Scorer(fit(kind, inputs, runtime_s, TRAINING).rule, CARD)

    return make


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_every_kind_can_be_read_back() -> None:
    assert set(RULES) == set(NAMES)


@pytest.mark.parametrize("kind", NAMES)
def test_folder_gives_back_the_same_answers_bit_for_bit(
    kind: str, make_scorer: Callable, make_jobs: Callable, tmp_path: Path
) -> None:
    scorer, (asked, _) = make_scorer(kind), make_jobs(2000, seed=8)
    save_scorer(scorer, tmp_path / kind)
    loaded = load_scorer(tmp_path / kind, feature_version="f1")
    assert loaded.card == CARD
    assert loaded.kind == kind
    for name in ("p50_s", "p90_s", "point_s", "confidence", "source"):
        assert (getattr(loaded.forecast(asked), name) == getattr(scorer.forecast(asked), name)).all()


@pytest.mark.parametrize("kind", NAMES)
def test_one_job_is_answered_as_within_the_table(kind: str, make_scorer: Callable, make_jobs: Callable) -> None:
    scorer, (asked, _) = make_scorer(kind), make_jobs(50, seed=8)
    together = scorer.forecast(asked)
    for row in range(50):
        alone = scorer.forecast(asked.take(np.array([row])))
        assert (alone.p50_s[0], alone.p90_s[0], alone.confidence[0]) == (
            together.p50_s[row],
            together.p90_s[row],
            together.confidence[row],
        )


@pytest.mark.parametrize("kind", NAMES)
def test_edge_values_get_a_valid_answer(kind: str, make_scorer: Callable) -> None:
    """Unknown, unseen code, -1, infinities, a fraction where a code stands: always finite, ordered and at least a second."""
    names = make_scorer("gbdt").columns
    edges = np.array([np.nan, -1, 0, 1e9, 3.7, 99, np.inf, -np.inf, 2.0**31], np.float32)
    values = np.repeat(edges[:, None], len(names), axis=1)
    forecast = make_scorer(kind).forecast(Inputs(names, values, np.full(len(edges), np.nan)))
    assert np.isfinite(forecast.p90_s).all()
    assert (forecast.p50_s >= 1).all()
    assert (forecast.p50_s <= forecast.p90_s).all()
    assert ((forecast.confidence >= 0) & (forecast.confidence <= 1)).all()


@pytest.mark.parametrize("kind", ["cart", "gbdt"])
def test_column_order_and_extra_columns_change_nothing(kind: str, make_scorer: Callable, make_jobs: Callable) -> None:
    scorer, (asked, _) = make_scorer(kind), make_jobs(200, seed=8)
    backwards = Inputs(
        ("extra", *asked.names[::-1]),
        np.column_stack([np.zeros(200, np.float32), asked.values[:, ::-1]]),
        asked.hard_limit_s,
    )
    assert (scorer.forecast(backwards).p50_s == scorer.forecast(asked).p50_s).all()


@pytest.mark.parametrize("kind", NAMES)
def test_hard_limit_caps_and_no_limit_does_not(kind: str, make_scorer: Callable, make_jobs: Callable) -> None:
    scorer, (asked, _) = make_scorer(kind), make_jobs(200, seed=8)
    capped = scorer.forecast(replace(asked, hard_limit_s=np.full(200, 90.0)))
    assert capped.p90_s.max() == 90.0
    assert scorer.forecast(asked).p90_s.max() > 90.0


@pytest.mark.parametrize("kind", NAMES)
def test_saving_twice_gives_the_same_bytes(kind: str, make_scorer: Callable, tmp_path: Path) -> None:
    save_scorer(make_scorer(kind), tmp_path / "first")
    save_scorer(make_scorer(kind), tmp_path / "second")
    save_scorer(make_scorer(kind), tmp_path / "second")
    assert content_of(tmp_path / "first") == content_of(tmp_path / "second")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_changed_number_is_found(make_scorer: Callable, tmp_path: Path) -> None:
    save_scorer(make_scorer("request"), tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    path.write_text(path.read_text().replace('"fallback_s": ', '"fallback_s": 1'))
    with pytest.raises(ModelFileError, match=r"model\.json: the content does not match its checksum"):
        load_scorer(tmp_path / "m")


def test_changed_or_missing_booster_is_found(make_scorer: Callable, tmp_path: Path) -> None:
    save_scorer(make_scorer("gbdt"), tmp_path / "m")
    with (tmp_path / "m" / "p90.txt").open("a") as file:
        file.write("\n")
    with pytest.raises(ModelFileError, match=r"p90\.txt: the content does not match its checksum"):
        load_scorer(tmp_path / "m")
    (tmp_path / "m" / "p90.txt").unlink()
    with pytest.raises(ModelFileError, match=r"p90\.txt: cannot be read"):
        load_scorer(tmp_path / "m")


def test_half_written_or_absent_model_is_found(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is this a model folder"):
        load_scorer(tmp_path)
    (tmp_path / "model.json").write_text('{"format": 1, "kin')
    with pytest.raises(ModelFileError, match="not valid JSON"):
        load_scorer(tmp_path)


def test_other_features_are_refused(make_scorer: Callable, tmp_path: Path) -> None:
    save_scorer(make_scorer("cart"), tmp_path / "m")
    with pytest.raises(ModelFileError, match="trained on feature version f1, asked for f2; retrain"):
        load_scorer(tmp_path / "m", feature_version="f2")


def test_model_of_a_later_lightgbm_is_refused_and_a_tree_is_not(make_scorer: Callable, tmp_path: Path) -> None:
    newer = replace(CARD, libraries={"lightgbm": "99.1.0", "scikit-learn": "99.0"})
    save_scorer(Scorer(make_scorer("gbdt").rule, newer), tmp_path / "m")
    with pytest.raises(ModelFileError, match=rf"written with lightgbm 99\.1\.0, this machine has {lightgbm.__version__}"):
        load_scorer(tmp_path / "m")
    save_scorer(Scorer(make_scorer("cart").rule, replace(CARD, libraries={"scikit-learn": "99.0"})), tmp_path / "tree")
    assert load_scorer(tmp_path / "tree").kind == "cart"


def test_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"format": 2}))
    with pytest.raises(ModelFileError, match="model format 2, this version reads 1"):
        load_scorer(tmp_path)


def test_scoring_works_where_only_numpy_and_lightgbm_are_installed() -> None:
    import runcast

    absent = ("pandas", "pyarrow", "sklearn", "mlflow", "airflow", "great_expectations", "pydantic", "yaml")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import runcast.training.scoring"
    source = str(Path(runcast.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": source}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
