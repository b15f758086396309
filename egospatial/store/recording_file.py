"""recording.json: cameras, canonical K, quality, further views, world, clock, frame table, where it came from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from egospatial.errors import StoreError
from egospatial.store import layout
from egospatial.store.atomic import read_json, write_json
from geo.cameras import Camera, PinholeCamera
from geo.recording import CanonicalRecording
from geo.rectify_quality import RectifyQuality
from geo.world import Gravity, World

SCHEMA = "egospatial.recording/1"


@dataclass(frozen=True)
class Provenance:
    """Where a recording came from and which of its frames were taken."""

    source: str
    format_name: str
    selection: dict[str, Any]
    source_frames: Sequence[int]  # index of every kept frame among the reference camera's frames
    camera: str | None = None  # name of the camera that was rectified


@dataclass(frozen=True)
class FurtherView:
    """One more pinhole out of the same optical centre: its video, its mask of valid pixels, and how it is turned."""

    name: str
    file: str  # below the output folder
    mask_file: str
    camera: PinholeCamera
    canonical_from_view: Float[np.ndarray, "3 3"]  # rotation: the view's axes to the canonical camera's
    quality: RectifyQuality


def write(
    folder: Path,
    canonical: CanonicalRecording,
    provenance: Provenance,
    quality: RectifyQuality | None = None,
    further_views: Sequence[FurtherView] = (),
    views_coverage: float | None = None,
) -> None:
    """Write recording.json; ``views_coverage`` is the share of the lens that the further views show together."""
    times = canonical.timestamps_ns
    write_json(
        folder / layout.RECORDING,
        {
            "schema": SCHEMA,
            "recording_id": canonical.recording_id,
            "canonical_camera": camera_json(canonical.camera),
            "canonical_matrix": canonical.camera.matrix,
            "source_camera": camera_json(canonical.source_camera),
            "canonical_from_source": canonical.canonical_from_source,
            "valid_fraction": round(float(canonical.valid_mask.mean()), 6),
            "rectification": None if quality is None else quality_json(quality),
            "views": [_view_json(view) for view in further_views],
            "views_coverage": None if views_coverage is None else round(views_coverage, 6),
            "world": _world_json(canonical.world),
            "original_from_source_world": canonical.original_from_source_world,
            "clock": _clock_json(times),
            "sensor": _sensor_json(canonical),
            "has_gaze": canonical.gaze is not None,
            "hands": sorted(hand.side for hand in canonical.hands),
            "has_audio": canonical.audio_file is not None,
            "source": {
                "format": provenance.format_name, "selection": provenance.selection,
                "name": Path(provenance.source).name, "camera": provenance.camera,
            },
            "frames": {
                "timestamps_ns": times, "source_frames": np.asarray(provenance.source_frames),
                "pose_valid": canonical.pose_valid,
            },
            "warnings": canonical.warnings,
        },
    )  # fmt: skip


def read(folder: Path) -> dict[str, Any]:
    """Read recording.json as a document, its schema checked."""
    return read_json(folder / layout.RECORDING, SCHEMA)


def views(folder: Path) -> tuple[FurtherView, ...]:
    """The further views that recording.json names; none in a folder of a version that had none.

    Raises:
        StoreError: an entry that is no view, or a file that is not below the folder.
    """
    path = folder / layout.RECORDING
    try:
        return tuple(_view_from_json(item, folder) for item in read(folder).get("views", []))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{path}: entry of views is damaged ({type(error).__name__}: {error}). Run rectify."
        ) from error


def quality_json(quality: RectifyQuality) -> dict[str, Any]:
    """The figures, six digits each (the round trip, which is rounding itself, two)."""
    digits = {field.name: 2 if field.name == "round_trip_error_px" else 6 for field in fields(quality)}
    return {name: float(f"{value:.{digits[name]}g}") for name, value in asdict(quality).items()}


def quality_from_json(item: dict[str, Any]) -> RectifyQuality:
    """The figures that ``quality_json`` wrote; null is unknown."""
    names = (field.name for field in fields(RectifyQuality))
    return RectifyQuality(**{name: float("nan") if item[name] is None else float(item[name]) for name in names})


def _view_json(view: FurtherView) -> dict[str, Any]:
    return {
        "name": view.name,
        "file": view.file,
        "mask_file": view.mask_file,
        "camera": camera_json(view.camera),
        "matrix": view.camera.matrix,
        "canonical_from_view": view.canonical_from_view,
        "rectification": quality_json(view.quality),
    }


def _view_from_json(item: dict[str, Any], folder: Path) -> FurtherView:
    for name in (item["file"], item["mask_file"]):
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise StoreError(f"{folder / layout.RECORDING}: view file {name!r} is not below the folder.")
    camera = camera_from_json(item["camera"])
    rotation = np.asarray(item["canonical_from_view"], dtype=np.float64)
    if not isinstance(camera, PinholeCamera) or rotation.shape != (3, 3):
        raise ValueError("no pinhole, or no 3x3 rotation")
    quality = quality_from_json(item["rectification"])
    return FurtherView(item["name"], item["file"], item["mask_file"], camera, rotation, quality)


def camera_json(camera: Camera) -> dict[str, Any]:
    """Model, size and parameters of a camera, as ``camera_from_json`` takes them."""
    return {
        "model": camera.model,
        "width": camera.width_px,
        "height": camera.height_px,
        "params": camera.params,
        "valid_theta_rad": getattr(camera, "valid_theta_rad", None),
        "valid_radius_focal": getattr(camera, "valid_radius", None),
    }


def camera_from_json(item: dict[str, Any]) -> Camera:
    """The camera that ``camera_json`` described."""
    if item["model"] == PinholeCamera.model:
        return PinholeCamera(item["width"], item["height"], *item["params"])
    from geo.cameras import camera_from_params
    from geo.cameras.distorted import DistortedCamera

    size, radius = (item["width"], item["height"]), item.get("valid_radius_focal")
    camera = camera_from_params(item["model"], size, item["params"], item["valid_theta_rad"])
    return replace(camera, valid_radius=radius) if isinstance(camera, DistortedCamera) else camera


def world_from_json(item: dict[str, Any]) -> World:
    """The world record that recording.json describes."""
    sigma = item["up_sigma_rad"]
    return World(
        metric=item["metric"],
        gravity=Gravity(item["gravity"]),
        up_sigma_rad=float("nan") if sigma is None else float(sigma),
        world_from_source_world=np.asarray(item["world_from_source_world"], dtype=np.float64),
    )


def original_from_source_world(document: dict[str, Any]) -> np.ndarray:
    """What undoes the source files' own change of world; the identity in folders that do not say it."""
    return np.asarray(document.get("original_from_source_world", np.eye(4)), dtype=np.float64)


def _world_json(world: World) -> dict[str, Any]:
    return {
        "metric": world.metric,
        "gravity": str(world.gravity),
        "up_axis": "+z" if world.has_up else None,
        "up_sigma_rad": world.up_sigma_rad,
        "world_from_source_world": world.world_from_source_world,
    }


def _clock_json(times: np.ndarray) -> dict[str, Any]:
    steps = np.diff(times)
    return {
        "domain": "device",
        "unit": "ns",
        "first_ns": int(times[0]) if len(times) else None,
        "last_ns": int(times[-1]) if len(times) else None,
        "median_step_ns": int(np.median(steps)) if len(steps) else None,
        "longest_step_ns": int(steps.max()) if len(steps) else None,
    }


def _sensor_json(canonical: CanonicalRecording) -> dict[str, Any] | None:
    sensor = canonical.sensor
    if sensor is None:
        return None
    return {"camera": camera_json(sensor.camera), "images": len(sensor.timestamps_ns)}
