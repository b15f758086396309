"""Sensor depth of many frames, small: who may say that a place is empty."""

from collections.abc import Collection

import numpy as np

from geo.recording import CanonicalRecording
from recon.config import ReconstructConfig
from recon.records import DynamicMasks
from recon.sensor import binned_sensor, has_sensor
from recon.survey import small_camera
from recon.views import View

VOTER_WIDTH_PX = 128
MOST_VOTERS = 64


def free_space_voters(
    canonical: CanonicalRecording,
    dynamic: DynamicMasks,
    config: ReconstructConfig,
    left_out: Collection[int] = (),
    most: int = MOST_VOTERS,
) -> list[View]:
    """Views of up to ``most`` further frames spread over the recording, with depth and black pictures.

    Keyframes are chosen so that they overlap little; what hangs outside the sensor's narrow field in most of them may
    be looked through by the frames between. Frames without a pose or without sensor depth, and those of ``left_out``
    (those that are views already, and held-out ones, which only measure), do not vote; pixels where something moves
    have no depth.
    """
    if not has_sensor(canonical):
        return []
    posed = [int(frame) for frame in np.flatnonzero(canonical.pose_valid) if frame not in left_out]
    if len(posed) > most:
        posed = [posed[index] for index in np.linspace(0, len(posed) - 1, most).round().astype(int)]
    camera = small_camera(canonical.camera, VOTER_WIDTH_PX)
    black = np.zeros((camera.height_px, camera.width_px, 3), dtype=np.uint8)
    z_range = (config.min_sensor_z_m, config.max_sensor_z_m)
    voters = []
    for frame in posed:
        depth = binned_sensor(canonical, frame, camera, config.sensor_tolerance_ms, z_range)
        if not np.isfinite(depth.z_depth_m).any():
            continue
        static = ~dynamic.at(frame, camera.size_wh_px)
        z = np.where(depth.mixed | ~static, np.nan, depth.z_depth_m).astype(np.float32)
        voters.append(View(frame, black, z, static, camera, canonical.world_from_camera[frame]))
    return voters
