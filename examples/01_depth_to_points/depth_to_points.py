"""A depth image becomes points in the world, and an oriented box says which of them it holds.

Usage: python examples/01_depth_to_points/depth_to_points.py
"""

import numpy as np

from geo import Box3, PinholeCamera, se3
from geo.boxes import contains
from geo.depth import unproject


def main() -> None:
    """A wall two metres ahead of a camera that stands 1.5 m above the floor and looks along +y."""
    camera = PinholeCamera(64, 48, fx_px=60.0, fy_px=60.0, cx_px=31.5, cy_px=23.5)
    world_from_camera = np.eye(4)
    world_from_camera[:3, :3] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]  # columns: camera x, y, z axes in the world
    world_from_camera[:3, 3] = [0, 0, 1.5]
    z_depth_m = np.full((48, 64), 2.0, dtype=np.float32)
    z_depth_m[0, 0] = np.nan  # no depth: stays unknown
    points_in_world = se3.transform_points(world_from_camera, unproject(z_depth_m, camera).reshape(-1, 3))
    box = Box3(np.array([0.0, 2.0, 1.5]), np.array([0.48, 0.1, 0.48]), np.eye(3))
    inside = contains(box, points_in_world)
    print(f"{np.isfinite(points_in_world[:, 0]).sum()} of {len(points_in_world)} pixels have a point")
    print(f"{inside.sum()} of them lie in the box around the middle of the wall")


if __name__ == "__main__":
    main()
