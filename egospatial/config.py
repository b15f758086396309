"""The configuration of a run: the stages' own config dataclasses, put together."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from egospatial import settings
from egospatial.errors import ConfigError
from egospatial.hashing import plain
from geo.rectify import RectifyConfig
from lifting.config import LiftConfig
from recon.fuse import DepthConfig
from recon.reconstruct import ReconstructConfig
from spatial_qa.ask import AskConfig
from tracking.track import TrackConfig

SCHEMA = "egospatial.config/1"


@dataclass(frozen=True)
class StoreConfig:
    """How results are stored."""

    depth_frames_per_segment: int = 16
    """Depth frames that a kill can cost at most. Does not change results."""

    def __post_init__(self) -> None:
        """Refuse what cannot be."""
        if self.depth_frames_per_segment < 1:
            raise ConfigError("setting store.depth_frames_per_segment: expected at least 1 frame.")


@dataclass(frozen=True)
class RunConfig:
    """Settings of all stages; ``--set rectify.width_px=512`` changes the field ``width_px`` of ``rectify``."""

    rectify: RectifyConfig = field(default_factory=RectifyConfig)
    reconstruct: ReconstructConfig = field(default_factory=ReconstructConfig)
    track: TrackConfig = field(default_factory=TrackConfig)
    lift: LiftConfig = field(default_factory=LiftConfig)
    depth: DepthConfig = field(default_factory=DepthConfig)
    ask: AskConfig = field(default_factory=AskConfig)
    store: StoreConfig = field(default_factory=StoreConfig)

    def of_stage(self, name: str) -> dict[str, Any]:
        """What a stage's results depend on, JSON-able."""
        settings: dict[str, Any] = {"own": plain(getattr(self, name))}
        if name in ("track", "lift"):  # they look at depth through the depth stage's eyes
            names = ("width_px", "sensor_tolerance_ms", "min_sensor_z_m", "max_sensor_z_m")
            settings["depth"] = {key: getattr(self.depth, key) for key in names}
        if name == "reconstruct" and self.depth.folder_as_sensor:
            settings["sensor"] = {
                key: value for key, value in plain(self.depth).items() if key.startswith(("folder", "provided"))
            }
        return settings


def resolve(config_file: Path | None = None, assignments: tuple[str, ...] = ()) -> RunConfig:
    """Defaults, then the file, then ``key=value`` words; later ones win.

    Raises:
        ConfigError: unknown key, wrong type, unreadable file.
    """
    config = RunConfig()
    if config_file is not None:
        document = dict(settings.read_config_file(config_file))
        if document.pop("schema", SCHEMA) != SCHEMA:
            raise ConfigError(f"{config_file}: schema is not {SCHEMA!r}; written by another version?")
        try:
            config = settings.updated(config, document)
        except ConfigError as error:
            raise ConfigError(f"{config_file}: {error}") from error
    return settings.updated(config, settings.parse_assignments(assignments))


def document_of(config: RunConfig) -> dict[str, Any]:
    """The resolved configuration as it is saved beside the results; ``--config`` takes it back."""
    return {"schema": SCHEMA, **plain(config)}
