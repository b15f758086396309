"""Cameras of recordings as the rasteriser takes them."""

import numpy as np
import pytest

from cuda_kernels.splat import rasterize
from geo.cameras import KannalaBrandtCamera, PinholeCamera
from recon.backend import splat_camera, splat_fisheye_camera
from recon.errors import ReconError

LENS = KannalaBrandtCamera(121, 101, 40.0, 42.0, 63.0, 48.5, distortion=(0.05, -0.01, 0.002, -0.0001))


def test_a_fisheye_draws_a_point_where_its_own_lens_projects_it():
    """Seen from a camera that stands 1 m to the right of the world's origin, turned a quarter to the left."""
    world_from_camera = np.array([[0.0, 0, -1, 1], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]])
    point = np.array([-0.5, 0.4, 1.2])
    in_camera = world_from_camera[:3, :3].T @ (point - world_from_camera[:3, 3])
    pixel = LENS.project(in_camera[None]).pixels_xy[0]
    one = np.array([[1, 0, 0, 0]], np.float32)
    arrays = point[None].astype(np.float32), one, np.full((1, 3), np.log(0.05), np.float32), np.zeros(1, np.float32)
    image = rasterize(*arrays, np.ones((1, 3), np.float32), splat_fisheye_camera(LENS, world_from_camera))
    v, u = np.mgrid[0:101, 0:121]
    centroid = [(axis * image.alpha).sum() / image.alpha.sum() for axis in (u, v)]
    assert centroid == pytest.approx(pixel, abs=0.03)
    assert image.along_ray


def test_the_calibrations_limit_goes_along():
    lens = KannalaBrandtCamera(20, 20, 9.0, 9.0, 9.5, 9.5, distortion=(0.0, 0.0, 0.0, 0.0), valid_theta_rad=1.25)
    assert splat_fisheye_camera(lens, np.eye(4)).valid_theta_rad == 1.25


def test_a_frame_without_pose_or_a_camera_with_skew_is_refused():
    nowhere = np.full((4, 4), np.nan)
    with pytest.raises(ReconError, match="no pose"):
        splat_fisheye_camera(LENS, nowhere)
    with pytest.raises(ReconError, match="no pose"):
        splat_camera(PinholeCamera(4, 4, 2.0, 2.0, 1.5, 1.5), nowhere)
    with pytest.raises(ReconError, match=r"skew 0\.5 px"):
        splat_camera(PinholeCamera(4, 4, 2.0, 2.0, 1.5, 1.5, skew_px=0.5), np.eye(4))
