"""A registered model as MLflow sees it: a pyfunc around a bundle, which takes jobs as the scheduler would tell them.

Nothing is pickled: the model's folder holds the bundle as it is, and the library calls `_load_pyfunc` of this module, from the
installed runcast. Every column is a string or a double and may be null or missing, but for the submission time: a signature with
whole numbers would refuse the first null, and one with categories would refuse a user it had not seen.
"""

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, Schema

from runcast.data.settings import read_settings
from runcast.scheduler.jobs import SUBMISSION_FIELDS

with warnings.catch_warnings():  # MLflow 3.17 warns of type hints of its own while it is imported
    warnings.simplefilter("ignore", UserWarning)
    from mlflow.pyfunc import save_model

if TYPE_CHECKING:
    import pandas as pd

ANSWER: tuple[tuple[str, str], ...] = (
    ("p50_s", "double"),
    ("p90_s", "double"),
    ("point_s", "double"),
    ("confidence", "double"),
    ("source", "string"),
    ("n_history", "double"),
    ("model_version", "string"),
)


def signature() -> ModelSignature:
    """Return the declared signature: the canonical fields known at submission in, the forecast out."""
    given = [ColSpec("double" if f.is_number else "string", f.name, required=f.is_required) for f in SUBMISSION_FIELDS]
    return ModelSignature(inputs=Schema(given), outputs=Schema([ColSpec(kind, name) for name, kind in ANSWER]))


def save_pyfunc(folder: Path, bundle: Path, *, run_id: str | None = None, model_id: str | None = None) -> None:
    """Write the MLflow model `folder` around a copy of `bundle`; the ids say which run and logged model it is of."""
    with warnings.catch_warnings():
        # The signature is declared; MLflow asks for an example all the same, and with one it trips over pandas 3 itself.
        warnings.filterwarnings("ignore", ".*An input example was not provided", UserWarning)
        save_model(
            str(folder),
            mlflow_model=Model(run_id=run_id, model_id=model_id),
            loader_module="runcast.registry.pyfunc",
            data_path=str(bundle),
            signature=signature(),
            # stated, not inferred: inference takes seconds and imports the model; runcast itself is installed beside them
            pip_requirements=[f"{name}=={version(name)}" for name in ("mlflow", "numpy", "lightgbm")],
        )


class Forecaster:
    """What MLflow calls: `predict` takes one row for each job and returns one row for each, in the same order."""

    def __init__(self, bundle: Path) -> None:
        from runcast.scheduler.predictor import Predictor

        key = read_settings().pseudonym_key
        # a version is kept for good; only what serves expires
        self._predictor = Predictor.load(bundle, may_be_expired=True, pseudonym_key=key)

    def predict(self, model_input: "pd.DataFrame", params: dict[str, Any] | None = None) -> "pd.DataFrame":
        import pandas as pd

        rows = model_input.astype(object).where(model_input.notna(), None).to_dict("records")
        answers = [self._predictor.predict({str(k): v for k, v in row.items() if v is not None}) for row in rows]
        return pd.DataFrame(
            [{name: answer[name] for name, _ in ANSWER} for answer in answers], columns=[name for name, _ in ANSWER]
        )


def bundle_in(folder: Path) -> Path:
    """Return the bundle inside the MLflow model `folder`."""
    return folder / str(Model.load(str(folder)).flavors["python_function"]["data"])


def _load_pyfunc(data_path: str) -> Forecaster:
    """Called by MLflow with the folder that holds the bundle."""
    return Forecaster(Path(data_path))
