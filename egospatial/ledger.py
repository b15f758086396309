"""run.json: what was done in an output folder, stage by stage, with what it took."""

import json
import platform
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from egospatial.errors import StoreError
from egospatial.store import layout
from egospatial.store.atomic import check_schema, write_json

SCHEMA = "egospatial.run/1"
_PACKAGES = ("egospatial", "numpy", "scipy", "numba", "h5py", "opencv-python-headless", "av", "torch", "gsplat", "sam2")


@dataclass
class StageEntry:
    """One stage's line. ``status``: running, done or failed; "running" of a dead run means it was killed."""

    status: str
    stage_hash: str
    config_hash: str
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: str = ""  # digest of what it wrote, as found at the end of the stage
    seconds: float = 0.0  # wall clock
    cpu_seconds: float = 0.0
    peak_memory_mib: float = 0.0
    started_utc: str = ""
    warnings: list[str] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass
class Ledger:
    """The whole of run.json."""

    recording_id: str
    source: str
    format_name: str
    input_digest: str
    selection: dict[str, Any]
    stages: dict[str, StageEntry] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    narrations: str | None = None
    camera: str | None = None  # the camera chosen; None: the recording's reference

    def save(self, folder: Path) -> None:
        """Write run.json atomically."""
        write_json(folder / layout.LEDGER, {"schema": SCHEMA, **asdict(self)})


def load(folder: Path) -> Ledger | None:
    """The ledger of a folder, or None if there is none yet.

    Raises:
        StoreError: run.json is there but damaged or of another version.
    """
    path = folder / layout.LEDGER
    if not path.is_file():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        check_schema(path, document.pop("schema", None), SCHEMA)
        stages = {name: StageEntry(**entry) for name, entry in document.pop("stages").items()}
        return Ledger(stages=stages, **document)
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: damaged ({error}). Remove it; the stages will then run again.") from error


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape results, without importing any."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
