"""A fisheye of 190 degrees sees more than one pinhole can show: several views show all of it, and how well.

Usage: python examples/04_views_of_a_wide_lens/views.py
"""

import numpy as np

from geo import camera_from_params
from geo.rectify_quality import rectify_quality
from geo.virtual_views import coverage, virtual_views


def main() -> None:
    """An equidistant lens whose picture of 640 x 640 reaches 95 degrees from the axis at its sides."""
    reach_rad = np.radians(95)
    focal_px = 320 / reach_rad
    lens = camera_from_params("KB4", (640, 640), [focal_px, focal_px, 319.5, 319.5, 0, 0, 0, 0], reach_rad)
    views = virtual_views(lens, fov_deg=100)
    print(f"the front view alone shows {100 * coverage(lens, views[:1]):.0f} % of what the lens sees")
    for view in views:
        quality = rectify_quality(lens, view.camera, view.source_from_view)
        axis_in_lens = view.source_from_view[:, 2].round(2)
        size = f"{view.camera.width_px} px square"
        seen = 100 * quality.coverage
        print(f"  {view.name}: {size}, looks along {axis_in_lens} of the lens, {seen:.0f} % of it has a source pixel")
    print(f"{len(views)} views together show {100 * coverage(lens, views):.1f} %")


if __name__ == "__main__":
    main()
