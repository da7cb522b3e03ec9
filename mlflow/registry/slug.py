"""Names that every part of MLflow accepts.

MLflow's rules differ by place: a registered model refuses `/` and `:`, a logged model refuses `.` as well, a metric refuses `@`,
`%` and brackets. One alphabet fits all of them: letters, digits, `_` and `-`. A name that had to be changed carries a hash of the
original, so that two clusters never share a name.
"""

import hashlib
import re
import unicodedata

from runcast.registry.errors import RegistryError

LONGEST = 100  # MLflow allows 250 in metric keys; a metric key joins up to three of these with a prefix

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]+")


def slug(text: str) -> str:
    """Return `text` in letters, digits, `_` and `-`; changed names end in 8 hex digits of the original's hash.

    >>> slug("venus")
    'venus'
    >>> slug("venus/gbdt")
    'venus-gbdt-2bd2f4da'
    """
    if not text.strip():
        raise RegistryError(f"{text!r} cannot be a name: it is blank")
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    plain = _NOT_ALLOWED.sub("-", ascii_text).strip("-")[:LONGEST]
    if plain == text:
        return text
    return f"{plain[: LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}".lstrip("-")


def model_name(cluster: str, kind: str) -> str:
    """Return the registered model's name of a cluster's models of one kind."""
    return f"runcast-{slug(cluster)}-{slug(kind)}"


def metric_key(*parts: str) -> str:
    """Return a metric's key, its parts joined by `/`: MLflow's pages group charts by what stands before it.

    A share such as a target of 0.089 keeps its dot: `coverage/0.089`.
    """
    return "/".join(part if re.fullmatch(r"\d+\.\d+", part) else slug(part) for part in parts)
