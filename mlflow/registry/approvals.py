"""The home's own record of which versions passed their gates: what may serve is decided here, never by the tracking store.

The tracking store shows models to people, and whoever can reach it can move an alias, set a tag or change a file. So a promotion
writes one small file below RUNCAST_HOME/approvals/<cluster>/, and a version counts as approved where its file is there and its
cluster, kind, night, data and model hash are the file's. A version rolled back by hand keeps its file, with the moment.
"""

import json
from dataclasses import asdict, dataclass, replace
from glob import escape
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from runcast.data.files import write_whole
from runcast.registry.errors import ApprovalDamaged

_BEGUN = "begun"


class Version(Protocol):
    """What an approval is of: a version of a registered model, as the tracking store tells it."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def night(self) -> str: ...
    @property
    def data_fingerprint(self) -> str: ...
    @property
    def model_sha256(self) -> str: ...


@dataclass(frozen=True)
class Approval:
    """A version that passed: what it is, and when it was rolled back by hand (ISO 8601, UTC), None where it was not."""

    cluster: str
    kind: str
    night: str
    data_fingerprint: str
    model_sha256: str
    rolled_back_at: str | None = None


@dataclass(frozen=True)
class Approvals:
    """The record below one home; `root` is its folder."""

    root: Path

    def add(self, version: Version) -> None:
        """Write that `version` passed; in place of another's whose number it has, as a store brought back from a backup gives again.

        What was rolled back stays so.
        """
        before = self._read(version)
        if before is None or (before.rolled_back_at is None and before != _approval(version)):
            self._write(version, _approval(version))

    def roll_back(self, version: Version, at: str) -> None:
        """Write that `version` was rolled back: it is not approved again."""
        self._write(version, replace(_approval(version), rolled_back_at=at))

    def has(self, version: Version) -> bool:
        """Whether `version` passed, is the one that passed, and was not rolled back."""
        return self._read(version) == _approval(version)

    def rolled_back_at(self, version: Version) -> str | None:
        """Return when `version` was rolled back by hand; None where it was not."""
        approval = self._read(version)
        return None if approval is None else approval.rolled_back_at

    def remove(self, version: Version) -> None:
        """Forget a version that is deleted from the registry."""
        self._path(version).unlink(missing_ok=True)

    def has_begun(self, cluster: str) -> bool:
        """Whether the home has a whole record of this cluster; one from before there were any has none."""
        return (self.root / quote(cluster, safe="") / _BEGUN).exists()

    def begin(self, cluster: str) -> None:
        """Write that the record of this cluster is whole from now on."""
        write_whole(self.root / quote(cluster, safe="") / _BEGUN, b"")

    def _read(self, version: Version) -> Approval | None:
        path = self._path(version)
        try:
            return Approval(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise ApprovalDamaged(
                f"{path}: cannot be read ({error}); it says that {version.name}/{version.version} passed its gates. Delete it, and run "
                f"that night's promote and export again (night {version.night}), or take it from a backup."
            ) from error

    def _write(self, version: Version, approval: Approval) -> None:
        write_whole(self._path(version), (json.dumps(asdict(approval), indent=1, sort_keys=True) + "\n").encode())

    def _path(self, version: Version) -> Path:
        """Return the file of a version: where there is one it is by name and number, since its cluster is a tag that anybody may change."""
        file = f"{version.name}.{int(version.version)}.json"
        return next(self.root.glob(f"*/{escape(file)}"), self.root / quote(version.cluster, safe="") / file)


def _approval(version: Version) -> Approval:
    return Approval(version.cluster, version.kind, version.night, version.data_fingerprint, version.model_sha256)
