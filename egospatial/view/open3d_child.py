"""Open3D in a process of its own: ``python -m egospatial.view.open3d_child picture|window ARRAYS.npz ...``.

Graphics libraries may end the process that uses them (no display, no driver); then only this child is gone.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

_POINT_PX = 4.0


def _geometries(arrays: Any) -> list[Any]:
    import open3d as o3d

    cloud = o3d.geometry.PointCloud(o3d.utility.Vector3dVector(arrays["points"]))
    cloud.colors = o3d.utility.Vector3dVector(arrays["point_rgb"])
    ends = arrays["segments"].reshape(-1, 3)
    lines = o3d.geometry.LineSet(
        o3d.utility.Vector3dVector(ends), o3d.utility.Vector2iVector(np.arange(len(ends)).reshape(-1, 2))
    )
    lines.colors = o3d.utility.Vector3dVector(arrays["segment_rgb"])
    return [geometry for geometry, count in ((cloud, len(arrays["points"])), (lines, len(ends))) if count]


def _open_window(arrays: Any, width: int, height: int, visible: bool) -> Any:
    import open3d as o3d

    window = o3d.visualization.Visualizer()
    if not window.create_window("egospatial", width, height, visible=visible):
        raise SystemExit("no window could be made (no display?)")
    for geometry in _geometries(arrays):
        window.add_geometry(geometry)
    options = window.get_render_option()
    if options is None:
        raise SystemExit("no render options: the window has no graphics context")
    options.point_size, options.background_color = _POINT_PX, np.full(3, 0.09)
    control = window.get_view_control()
    parameters = control.convert_to_pinhole_camera_parameters()
    focal = height / 2 / np.tan(np.radians(65) / 2)
    # The legacy viewer takes principal points at (size - 1) / 2 only.
    parameters.intrinsic.set_intrinsics(width, height, focal, focal, width / 2 - 0.5, height / 2 - 0.5)
    parameters.extrinsic = np.linalg.inv(arrays["world_from_viewer"])
    control.convert_from_pinhole_camera_parameters(parameters, allow_arbitrary=True)
    return window


def main(arguments: list[str]) -> None:
    """Draw to a PNG file, or open a window until it is closed."""
    mode, source = arguments[0], arguments[1]
    arrays = np.load(source, allow_pickle=False)
    if mode == "window":
        window = _open_window(arrays, 1280, 800, visible=True)
        window.run()
        window.destroy_window()
        return
    target, width, height = arguments[2], int(arguments[3]), int(arguments[4])
    window = _open_window(arrays, width, height, visible=False)
    window.poll_events()
    window.update_renderer()
    buffer = np.asarray(window.capture_screen_float_buffer(do_render=True))
    window.destroy_window()
    if buffer.ndim != 3 or buffer.std() < 1e-6:
        raise SystemExit("the picture is empty")
    from egospatial.view.images import write_image

    write_image(Path(target), (np.clip(buffer, 0, 1) * 255).round().astype(np.uint8))


if __name__ == "__main__":
    main(sys.argv[1:])
