"""What is fitted by scikit-learn or LightGBM, by name: these run in a process of their own; see isolation.py."""

from collections.abc import Callable, Mapping

from runcast.data.cluster import Training
from runcast.training.cart import fit_cart
from runcast.training.forecast import Floats, Inputs
from runcast.training.gbdt import fit_gbdt, without_dates
from runcast.training.runcast import fit_runcast
from runcast.training.scoring import Rule

Fitter = Callable[[Inputs, Floats, Training], Rule]


def _cart(inputs: Inputs, runtime_s: Floats, training: Training) -> Rule:
    return fit_cart(inputs, runtime_s, training.cart, training.seed)


def _gbdt(inputs: Inputs, runtime_s: Floats, training: Training) -> Rule:
    return fit_gbdt(inputs, runtime_s, training.gbdt, training.seed, training.threads)


def _runcast(inputs: Inputs, runtime_s: Floats, training: Training) -> Rule:
    return fit_runcast(without_dates(inputs), runtime_s, training.runcast, training.seed, training.threads)


#: Of the literature's two, the trees; their published features include dates.
FITTERS: Mapping[str, Fitter] = {
    "cart": _cart,
    "gbdt": lambda inputs, runtime_s, training: _gbdt(without_dates(inputs), runtime_s, training),
    "runcast": _runcast,
    "mlaas": _cart,
    "helios": _gbdt,
}
