"""MPS tables joined to a recording: world with +z up, poses, gaze as pixels, hands in world, points.

Gaze goes from CPF to the device (where the design of the glasses has them) and to the calibrated camera, as
projectaria_tools' ``get_gaze_vector_reprojection`` does.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.cameras import Camera
from geo.errors import TimeError
from geo.readers.mps.gaze import MpsGaze
from geo.readers.mps.hands import MpsHand, hand_track
from geo.readers.mps.slam import MpsTrajectory, read_points
from geo.recording import GazeTrack, HandTrack, ScenePoints
from geo.trajectory import Trajectory
from geo.world import World

DEFAULT_GAZE_DEPTH_M = 1.0  # projectaria_tools' own default for a gaze without depth


@dataclass(frozen=True)
class Posed:
    """world_from_device with the world that it speaks of."""

    trajectory: Trajectory
    world: World


def z_up_world(up_in_source: Float[np.ndarray, "3"] | None) -> World:
    """A metric world, turned so that the given direction is +z; unknown gravity stays unknown (FIELD P11)."""
    return World.without_up(metric=True) if up_in_source is None else World.with_up(True, up_in_source)


def posed(given: MpsTrajectory) -> Posed:
    """The trajectory in a world with +z up."""
    world = z_up_world(given.up_in_world)
    poses = se3.compose(world.world_from_source_world, given.trajectory.world_from_body)
    return Posed(Trajectory(given.trajectory.timestamps_ns, poses), world)


def ranges_overlap(first_ns: Int64[np.ndarray, "N"], second_ns: Int64[np.ndarray, "M"]) -> bool:
    """True if two rising clocks have times in common."""
    return bool(len(first_ns) and len(second_ns) and first_ns[0] <= second_ns[-1] and second_ns[0] <= first_ns[-1])


def no_overlap(what: str, stamps_ns: Int64[np.ndarray, "N"], frames_ns: Int64[np.ndarray, "M"]) -> str:
    """What to say of a table on another clock than the pictures (FIELD P5)."""
    return (
        f"{what} runs from {stamps_ns[0]} to {stamps_ns[-1]} ns, the pictures from {frames_ns[0]} to {frames_ns[-1]} "
        "ns: no overlap. Two recordings, or another clock than the device's (UTC, time code)?"
    )


def check_clock(path: Path, poses: Trajectory, frames_ns: Int64[np.ndarray, "M"]) -> None:
    """Refuse poses on another clock than the pictures; nothing is clamped (FIELD P5).

    Raises:
        TimeError: the ranges do not overlap; both are named.
    """
    if not ranges_overlap(poses.timestamps_ns, frames_ns):
        raise TimeError(no_overlap(str(path), poses.timestamps_ns, frames_ns))


def gaze_track(gaze: MpsGaze, camera: Camera, camera_from_cpf: Float[np.ndarray, "4 4"]) -> GazeTrack:
    """Gaze in pixels of a camera's pictures.

    The point that is looked at lies at the given depth, or at ``DEFAULT_GAZE_DEPTH_M`` along the ray where none is
    given: the pixel is then right for that depth only (eyes and camera are some centimetres apart).

    Args:
        gaze: Directions and depths in CPF.
        camera: The camera whose pictures the pixels are of.
        camera_from_cpf: CPF in this camera's axes.

    Returns:
        Pixels, NaN where the direction is unknown or the camera does not see it; ``depth_m`` is the distance from the
        camera to the point, NaN where the depth is not given.
    """
    known = np.isfinite(gaze.depth_m)
    distance = np.where(known, gaze.depth_m, DEFAULT_GAZE_DEPTH_M)
    points = se3.transform_points(camera_from_cpf, gaze.directions_in_cpf() * distance[:, None])
    pixels = camera.project(points).pixels_xy
    with np.errstate(invalid="ignore"):
        shown = camera.in_image(pixels)
    depth = np.where(known, np.linalg.norm(points, axis=1), np.nan)
    return GazeTrack(gaze.timestamps_ns, np.where(shown[:, None], pixels, np.nan), depth)


def gaze_on_frames(
    gaze: MpsGaze,
    path: Path,
    camera: Camera,
    camera_from_cpf: Float[np.ndarray, "4 4"],
    frames_ns: Int64[np.ndarray, "M"],
    warnings: list[str],
) -> GazeTrack | None:
    """``gaze_track``; None with a warning that names both ranges if gaze and pictures have no time in common."""
    if not ranges_overlap(gaze.timestamps_ns, frames_ns):
        warnings.append(f"gaze is left out: {no_overlap(path.name, gaze.timestamps_ns, frames_ns)}")
        return None
    track = gaze_track(gaze, camera, camera_from_cpf)
    undated = int((~np.isfinite(gaze.depth_m) & np.isfinite(gaze.yaw_rad)).sum())
    if undated:
        warnings.append(
            f"{path.name}: {undated} of {len(gaze.timestamps_ns)} gaze rows have no depth; their pixels are those of a "
            f"point {DEFAULT_GAZE_DEPTH_M:g} m away"
        )
    return track


def hand_tracks(
    hands: tuple[MpsHand, MpsHand],
    path: Path,
    poses: Trajectory,
    frames_ns: Int64[np.ndarray, "M"],
    warnings: list[str],
) -> tuple[HandTrack, ...]:
    """Hands in world; none with a warning if they and the pictures or the poses have no time in common."""
    stamps = hands[0].timestamps_ns
    for other in (frames_ns, poses.timestamps_ns):
        if not ranges_overlap(stamps, other):
            warnings.append(f"hands are left out: {no_overlap(path.name, stamps, other)}")
            return ()
    return tuple(hand_track(hand, poses) for hand in hands)


def scene_points(path: Path, graph_uid: str, world: World, warnings: list[str]) -> ScenePoints:
    """Points that pass MPS' own filter (inv_dist_std <= 0.001 /m, dist_std <= 0.05 m), in world.

    Raises:
        RecordingError: see ``geo.readers.mps.slam.read_points``.
    """
    points = read_points(path, warnings, graph_uid)
    placed = se3.transform_points(world.world_from_source_world, points.points_in_world)
    return ScenePoints(placed, points.distance_std_m)


def extended(trajectory: Trajectory, frames_ns: Int64[np.ndarray, "N"], limit_ns: int) -> tuple[Trajectory, int]:
    """The trajectory with its end poses held for frames that lie no further outside than the limit.

    Returns:
        The trajectory, and how many frames have such a pose.
    """
    first, last = int(trajectory.timestamps_ns[0]), int(trajectory.timestamps_ns[-1])
    before = frames_ns[(frames_ns < first) & (frames_ns >= first - limit_ns)]
    after = frames_ns[(frames_ns > last) & (frames_ns <= last + limit_ns)]
    poses = trajectory.world_from_body
    held = (np.repeat(poses[:1], len(before), 0), poses, np.repeat(poses[-1:], len(after), 0))
    stamps = np.concatenate([before, trajectory.timestamps_ns, after])
    return replace(trajectory, timestamps_ns=stamps, world_from_body=np.concatenate(held)), len(before) + len(after)
