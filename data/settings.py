"""Where things live: the only module that reads the environment.

`RUNCAST_HOME` (default ./var) holds the lake, models, reports and bundles; `RUNCAST_CLUSTERS` (default: the folder clusters/
beside this module) names the folders of the cluster files, several with a colon between; `MLFLOW_TRACKING_URI` names the
tracking store (default: SQLite below the home);
`RUNCAST_PSEUDONYM_KEY` is the key file for asking about jobs by their clear names, where a cluster's are pseudonyms.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from runcast.data.errors import NoFolder, SourceError

#: Cluster files of public logs, to copy from and to measure on; not among one's own clusters unless RUNCAST_CLUSTERS names the folder.
EXAMPLES = Path(__file__).resolve().parent / "clusters" / "examples"


@dataclass(frozen=True)
class Settings:
    """Paths of one installation; `environment` is kept so that `${NAME}` in cluster files can be expanded at use."""

    home: Path
    clusters: tuple[Path, ...]
    tracking_uri: str
    environment: Mapping[str, str]

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def models(self) -> Path:
        return self.home / "models"

    @property
    def reports(self) -> Path:
        return self.home / "report"

    @property
    def bundles(self) -> Path:
        return self.home / "bundles"

    @property
    def pseudonym_key(self) -> Path | None:
        """Key file for asking a cluster whose names are pseudonyms, where one is named."""
        named = self.environment.get("RUNCAST_PSEUDONYM_KEY")
        return Path(named) if named else None

    def with_examples(self) -> "Settings":
        """Return the same settings, also for processes that take `environment`, with the public logs' files beside one's own."""
        clusters = tuple(dict.fromkeys((*self.clusters, EXAMPLES)))
        environment = {**self.environment, "RUNCAST_CLUSTERS": os.pathsep.join(map(str, clusters))}
        return replace(self, clusters=clusters, environment=environment)

    def expand(self, text: str) -> str:
        """Return `text` with each `${NAME}` replaced; an unset name raises SourceError that says so."""

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in self.environment:
                raise SourceError(f"{name} is not set, and {text!r} needs it: set it to the folder that holds the logs")
            return self.environment[name]

        return re.sub(r"\$\{(\w+)\}", value, text)


def require_home(settings: Settings, *, is_made: bool = False) -> None:
    """Raise NoFolder where the home is no folder that can be read; one that is not there is none, unless the caller makes it."""
    remedy = "Set RUNCAST_HOME to the folder of the nights."
    try:
        next(settings.home.iterdir(), None)
    except FileNotFoundError:
        if not is_made:
            raise NoFolder(
                f"RUNCAST_HOME is {settings.home}, and nothing is there: no night has been run below it. {remedy} "
                "A first night makes it: runcast nightly --cluster NAME."
            ) from None
    except OSError as error:
        raise NoFolder(
            f"RUNCAST_HOME is {settings.home}, which cannot be read as a folder ({error.strerror}). {remedy}"
        ) from error


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from `environment` (default: the process's own)."""
    env = dict(os.environ if environment is None else environment)
    home = Path(env.get("RUNCAST_HOME") or "var").resolve()
    env["RUNCAST_HOME"] = str(home)  # the demo's cluster files refer to it, set or not
    named = [one for one in env.get("RUNCAST_CLUSTERS", "").split(os.pathsep) if one] or [str(EXAMPLES.parent)]
    clusters = tuple(dict.fromkeys(Path(one).resolve() for one in named))
    uri = env.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home / 'mlflow.db'}"
    return Settings(home=home, clusters=clusters, tracking_uri=uri, environment=env)
