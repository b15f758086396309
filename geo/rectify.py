"""Stage 1: a recording to its canonical view, with a pose per frame and +z up where that can be known."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, UInt8

from cuda_kernels.remap_table import RemapTable, make_table
from geo import se3
from geo.cameras import Camera, PinholeCamera
from geo.errors import CameraError, ShapeError, listed
from geo.gravity import GravityEstimate, estimate_up
from geo.recording import (
    CanonicalRecording,
    FrameSource,
    GazeTrack,
    HandTrack,
    Recording,
    SensorDepth,
    turned_hands,
    turned_points,
)
from geo.surfels import sample_surfels
from geo.trajectory import Trajectory
from geo.view import (
    RectifyConfig,
    canonical_to_source,
    canonical_view,
    source_pixels,
    source_to_canonical,
)
from geo.world import Gravity, World, turn_to_z_up

__all__ = [
    "RectifiedFrames",
    "RectifyConfig",
    "canonical_to_source",
    "canonical_view",
    "rectify",
    "source_to_canonical",
]


@dataclass(frozen=True)
class RectifiedFrames:
    """Frames of the canonical view, made when asked for; nothing is kept."""

    source: FrameSource
    table: RemapTable

    def __len__(self) -> int:
        return len(self.source)

    def read(self, index: int) -> UInt8[np.ndarray, "H W 3"]:
        """RGB image of the canonical view; black where the source has no pixel."""
        from cuda_kernels.remap import remap_bilinear  # numba: imported where it is needed

        return remap_bilinear(self.source.read(index), self.table)


def remap_table(source: Camera, target: PinholeCamera, source_from_target: Float[np.ndarray, "3 3"]) -> RemapTable:
    """Source pixel of every target pixel, packed for the kernels."""
    there = source_pixels(source, target, source_from_target)
    return make_table(there.pixels_xy, there.valid, source.size_wh_px)


def rectify(recording: Recording, config: RectifyConfig | None = None) -> CanonicalRecording:
    """Describe the canonical view of a recording; pixels are remapped when a frame is read.

    The pose of a canonical frame is world_from_reference(t) @ reference_from_camera @ camera_from_canonical. Where
    gravity is unknown and there is depth, up is estimated from support planes, and the whole world (poses, sensor
    poses, hands) is turned so that +z is up; ``World.world_from_source_world`` says how.

    Raises:
        ShapeError: frames and time stamps disagree. TimeError: poses and pictures do not overlap in time.
        CameraError: the view that the settings ask for shows nothing of the source.
    """
    settings = config or RectifyConfig()
    reference = recording.reference
    if len(reference.frames) != len(reference.timestamps_ns):
        raise ShapeError(
            f"{recording.recording_id}: {len(reference.frames)} frames but {len(reference.timestamps_ns)} time stamps"
        )
    view = canonical_view(reference.camera, settings)
    gap_ns = round(settings.max_pose_gap_ms * 1e6)
    source_from_canonical = se3.from_rotation_translation(view.source_from_canonical, np.zeros(3))
    world_from_reference = recording.trajectory.poses_at(reference.timestamps_ns, gap_ns)
    world_from_source = se3.compose(world_from_reference, reference.reference_from_camera)
    sensor = _sensor(recording, gap_ns)
    warnings = [*recording.warnings, *_pose_warnings(world_from_source)]
    world, turn = recording.world, np.eye(4)
    if world.gravity is Gravity.UNKNOWN and sensor is not None and settings.estimate_gravity:
        world, turn, note = _turned_world(world, world_from_source, sensor, settings.gravity_images)
        warnings.append(note)
    unchanged = view.camera == reference.camera and np.array_equal(view.source_from_canonical, np.eye(3))
    table = remap_table(reference.camera, view.camera, view.source_from_canonical)
    if not table.valid.any():
        raise CameraError(
            f"{recording.recording_id}: the canonical view shows nothing that camera {reference.name} sees; turn it "
            "back (rectify.pitch_deg, yaw_deg, roll_deg) or set rectify.fx_fy_cx_cy_px to a view inside the picture"
        )
    canonical = CanonicalRecording(
        recording_id=recording.recording_id,
        camera=view.camera,
        timestamps_ns=reference.timestamps_ns,
        world_from_camera=se3.compose(turn, world_from_source, source_from_canonical),
        valid_mask=table.valid,
        frames=reference.frames if unchanged else RectifiedFrames(reference.frames, table),
        world=world,
        source_camera=reference.camera,
        canonical_from_source=view.source_from_canonical.T,
        sensor=None if sensor is None else replace(sensor, world_from_camera=turn @ sensor.world_from_camera),
        hands=_known_hands(turned_hands(recording.hands, turn)),
        audio_file=reference.audio_file,
        warnings=tuple(warnings),
        audio_offset_ns=reference.audio_offset_ns,
        source_frames=reference.source_frames,
        source_start_ns=reference.source_start_ns,
        original_from_source_world=recording.original_from_source_world,
        points=turned_points(recording.points, turn),
    )
    return replace(canonical, gaze=_gaze(recording.gaze, canonical))


def _sensor(recording: Recording, gap_ns: int) -> SensorDepth | None:
    """Sensor depth with a pose for every image; NaN poses where the trajectory has none."""
    depth = recording.depth
    if depth is None:
        return None
    if len(depth.frames) != len(depth.timestamps_ns):
        raise ShapeError(
            f"{recording.recording_id}: {len(depth.frames)} depth images but {len(depth.timestamps_ns)} time stamps"
        )
    world_from_reference = recording.trajectory.poses_at(depth.timestamps_ns, gap_ns)
    poses = se3.compose(world_from_reference, depth.reference_from_camera)
    return SensorDepth(depth.camera, depth.timestamps_ns, poses, depth.frames)


def _pose_warnings(world_from_camera: Float[np.ndarray, "N 4 4"]) -> list[str]:
    lost = np.flatnonzero(~np.isfinite(world_from_camera).all(axis=(1, 2)))
    if not len(lost):
        return []
    named = listed(lost.tolist(), 10)
    return [f"{len(lost)} of {len(world_from_camera)} frames have no pose (frames {named})"]


def _turned_world(
    world: World, world_from_source: Float[np.ndarray, "N 4 4"], sensor: SensorDepth, image_count: int
) -> tuple[World, Float[np.ndarray, "4 4"], str]:
    """World with +z up by estimate, the turn to it, and what to tell the user."""
    estimate = gravity_of(world_from_source, sensor, image_count)
    if not estimate.ok:
        return world, np.eye(4), f"gravity is unknown and could not be estimated: {estimate.reason}"
    turn = turn_to_z_up(estimate.up_in_world)
    turned = World(
        metric=world.metric,
        gravity=Gravity.ESTIMATED,
        up_sigma_rad=estimate.sigma_rad,
        world_from_source_world=se3.compose(turn, world.world_from_source_world),
    )
    note = (
        f"gravity is estimated from {len(estimate.planes)} level planes, sigma {np.degrees(estimate.sigma_rad):.1f} "
        f"degrees (mean camera up leans {np.degrees(estimate.camera_tilt_rad):.0f} degrees)"
    )
    return turned, turn, note


def gravity_of(
    world_from_camera: Float[np.ndarray, "N 4 4"], sensor: SensorDepth, image_count: int = 24
) -> GravityEstimate:
    """Up from a recording's depth images, see ``geo.gravity.estimate_up``."""
    surfels = sample_surfels(sensor.frames, sensor.camera, sensor.world_from_camera, image_count)
    return estimate_up(world_from_camera, surfels)


def _known_hands(hands: tuple[HandTrack, ...]) -> tuple[HandTrack, ...]:
    """Hands that are seen at least once."""
    return tuple(hand for hand in hands if len(hand.timestamps_ns))


def _gaze(gaze: GazeTrack | None, canonical: CanonicalRecording) -> GazeTrack | None:
    """Gaze in canonical pixels; NaN where the canonical view does not show it."""
    if gaze is None:
        return None
    projection = source_to_canonical(canonical, gaze.points_xy_px)
    shown = projection.valid & canonical.camera.in_image(projection.pixels_xy)
    return replace(gaze, points_xy_px=np.where(shown[:, None], projection.pixels_xy, np.nan))


def trajectory_of(canonical: CanonicalRecording) -> Trajectory:
    """The canonical camera's poses as a trajectory (frames without a pose are gaps)."""
    return Trajectory.from_rows(canonical.timestamps_ns, canonical.world_from_camera, canonical.recording_id)
