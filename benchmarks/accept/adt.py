"""Letter B of issue 3: an ADT clip. Boxes, gaze and moving objects through the reader, projectaria_tools beside it.

Boxes: every object with a given 2D box in the colour pictures; a grid on the faces of its true 3D box is projected by
the reader's camera, and by projectaria_tools' own calibration with poses parsed here from the raw tables; each gives a
2D box and an IoU with the given one, and the two IoUs are compared object by object.

Gaze: the ray "hits what it should" if, in each picture that has masks and depth, the reader's pixel is the one of
projectaria_tools' own function, the mask there is of the same object as at that function's pixel in the raw mask, the
point at the depth image's depth lies in that object's true 3D box (2 cm), the object is the fork (the wearer tosses
salad with it), and where the gaze has a depth it is that of the depth image to 5 cm.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.accept.boxes_2d import box_around, iou, stored_pixels, surface_points
from benchmarks.accept.harness import Letter, samples

RGB = "214-1"
MOVING_CM = {"WoodenFork": 12.6, "WoodenSpoon": 10.3}
TOLERANCE_NS = 40_000_000


def measure(letter: Letter) -> None:
    """All of letter B."""
    from geo.readers import open_recording

    folder = samples() / "adt_apartment_clip" / "original"
    recording = open_recording(folder)
    letter.true("recognised", recording.format_name == "adt", str(recording.format_name))
    _boxes(letter, recording, folder)
    _gaze(letter, recording, folder)
    _motion(letter, recording)


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _pose(numbers: list[float], quat_xyzw: list[float]) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    out = np.eye(4)
    out[:3, :3], out[:3, 3] = Rotation.from_quat(quat_xyzw).as_matrix(), numbers
    return out


def _their_poses(folder: Path) -> tuple[dict[int, np.ndarray], Callable[[str, int], np.ndarray]]:
    """world_from_device by time in ns, and world_from_object, both from the raw tables."""
    device = {
        int(row["tracking_timestamp_us"]) * 1000: _pose(
            [float(row[f"t{a}_world_device"]) for a in "xyz"], [float(row[f"q{a}_world_device"]) for a in "xyzw"]
        )
        for row in _rows(folder / "aria_trajectory.csv")
    }
    objects: dict[str, dict[int, np.ndarray]] = {}
    for row in _rows(folder / "scene_objects.csv"):
        pose = _pose([float(row[f"t_wo_{a}[m]"]) for a in "xyz"], [float(row[f"q_wo_{a}"]) for a in "xyzw"])
        objects.setdefault(row["object_uid"], {})[int(row["timestamp[ns]"])] = pose

    def object_at(uid: str, stamp: int) -> np.ndarray:
        return objects[uid][min(objects[uid], key=lambda t: 0 if t == -1 else abs(t - stamp))]

    return device, object_at


def _their_device(folder: Path) -> Any:
    from projectaria_tools.core import data_provider

    return data_provider.create_vrs_data_provider(str(folder / "video.vrs")).get_device_calibration()


def _boxes(letter: Letter, recording: Any, folder: Path) -> None:
    from geo import se3

    theirs = _their_device(folder).get_camera_calib("camera-rgb")
    theirs_from_device = np.linalg.inv(theirs.get_transform_device_camera().to_matrix())
    device, object_at = _their_poses(folder)
    given = {item.object_id: item for item in recording.given_objects}
    camera = recording.reference.camera
    ours_iou: dict[str, list[float]] = {}
    their_iou: dict[str, list[float]] = {}
    for row in _rows(folder / "2d_bounding_box.csv"):
        item = given.get(row["object_uid"])
        if row["stream_id"] != RGB or item is None or item.box_in_object is None:
            continue
        stamp = int(row["timestamp[ns]"])
        want = np.array([float(row[f"{axis}_{end}[pixel]"]) for end in ("min", "max") for axis in "xy"])
        points = surface_points(item.box_in_object)
        nearest = recording.trajectory.nearest(stamp, 1_000_000)  # the last box is 0.7 us after the last pose
        world_from_camera = recording.trajectory.world_from_body[nearest] @ recording.reference.reference_from_camera
        camera_from_object = se3.inverse(world_from_camera) @ item.world_from_object_at(stamp, TOLERANCE_NS)
        pixels = camera.project(se3.transform_points(camera_from_object, points)).pixels_xy
        pixels = pixels[camera.in_image(pixels)]  # as theirs, which gives no pixel outside the picture
        ours_iou.setdefault(item.object_id, []).append(iou(box_around(stored_pixels(camera, pixels)), want))
        world_from_device = device[min(device, key=lambda t: abs(t - stamp))]
        place = theirs_from_device @ np.linalg.inv(world_from_device) @ object_at(item.object_id, stamp)
        projected = [theirs.project(point) for point in points @ place[:3, :3].T + place[:3, 3]]
        seen = np.array([pixel for pixel in projected if pixel is not None]).reshape(-1, 2)
        their_iou.setdefault(item.object_id, []).append(iou(box_around(seen), want))
    apart = [float(np.abs(np.subtract(ours_iou[uid], their_iou[uid])).max()) for uid in ours_iou]
    letter.at_least("objects with 2D boxes", len(apart), 40)
    letter.at_most("largest difference of IoU to projectaria's", max(apart), 0.01)
    medians = [float(np.median([np.median(v) for v in found.values()])) for found in (ours_iou, their_iou)]
    letter.note(f"median IoU with the given boxes: ours {medians[0]:.4f}, projectaria's {medians[1]:.4f}")
    letter.note(f"{sum(len(found) for found in ours_iou.values())} boxes (given ones show what is visible only)")


def _gaze(letter: Letter, recording: Any, folder: Path) -> None:
    from geo import se3
    from geo.readers import adt
    from geo.readers.depth_files import DepthCoding

    segmentations = adt.open_segmentations(folder)
    depth_times, depth = adt.open_depth(
        folder / "depth_images.vrs", RGB, DepthCoding(recording.reference.camera, 0.001, invalid=(0.0,))
    )
    given = {int(item.object_id): item for item in recording.given_objects}
    camera, gaze = recording.reference.camera, recording.gaze
    worst_px, worst_depth_cm, hits = 0.0, 0.0, []
    for stamp in recording.reference.timestamps_ns.tolist():
        mask = segmentations.nearest(stamp, 1_000_000)
        if mask is None:
            continue
        row = int(np.argmin(np.abs(gaze.timestamps_ns - stamp)))
        pixel = gaze.points_xy_px[row]
        u, v = (round(float(value)) for value in pixel)
        uid = int(segmentations.read(mask)[v, u])
        their_pixel, their_uid = _their_gaze(folder, row, segmentations.frames, mask)
        worst_px = max(worst_px, float(np.abs(stored_pixels(camera, pixel[None])[0] - their_pixel).max()))
        ray = camera.unproject(pixel).directions
        index = int(np.argmin(np.abs(depth_times - stamp)))
        in_camera = ray / ray[2] * float(depth.read(index)[v, u])
        if np.isfinite(gaze.depth_m[row]):
            worst_depth_cm = max(worst_depth_cm, 100 * abs(float(np.linalg.norm(in_camera)) - float(gaze.depth_m[row])))
        pose = recording.trajectory.poses_at(np.array([stamp]))[0] @ recording.reference.reference_from_camera
        item = given.get(uid)
        if item is None:
            hits.append(f"nothing at {pixel}")
            continue
        place = se3.inverse(item.world_from_object_at(stamp, TOLERANCE_NS)) @ pose
        inside = np.abs(se3.transform_points(place, in_camera) - item.box_in_object.mean(axis=0))
        in_box = bool((inside <= np.ptp(item.box_in_object, axis=0) / 2 + 0.02).all())
        hits.append(item.label if in_box and uid == their_uid else f"{item.label} (outside, or theirs is {their_uid})")
    letter.at_most("gaze pixel to projectaria's own", worst_px, 0.01, " px")
    letter.true("gaze hits the fork, in its 3D box, as with projectaria's", hits == ["WoodenFork"] * 2, ", ".join(hits))
    letter.at_most("gaze depth to depth image", worst_depth_cm, 5.0, " cm")


def _their_gaze(folder: Path, row: int, masks: Any, index: int) -> tuple[np.ndarray, int]:
    """Pixel as stored by projectaria_tools' own functions, and the uid in the raw mask there."""
    from projectaria_tools.core import mps
    from projectaria_tools.core.mps.utils import get_gaze_vector_reprojection

    device = _their_device(folder)
    gaze = mps.read_eyegaze(str(folder / "eyegaze.csv"))[row]
    camera = device.get_camera_calib("camera-rgb")
    pixel = get_gaze_vector_reprojection(gaze, "camera-rgb", device, camera, gaze.depth or 1.0)
    u, v = (round(float(value)) for value in pixel)
    return np.asarray(pixel), int(masks.file.raw(masks.stream_id, index)[v, u])


def _motion(letter: Letter, recording: Any) -> None:
    """How far each object's origin is at the end from where it was at first."""
    others, furthest = 0.0, (0.0, "none")
    for item in recording.given_objects:
        places = item.world_from_object[:, :3, 3]
        if item.label in MOVING_CM:
            net = 100 * float(np.linalg.norm(places[-1] - places[0]))
            letter.true(f"{item.label} moves", abs(net - MOVING_CM[item.label]) < 0.1, f"{net:.2f} cm")
        else:
            others = max(others, 1000 * float(np.linalg.norm(places[-1] - places[0])))
            furthest = max(furthest, (1000 * float(np.linalg.norm(places - places[0], axis=1).max()), item.label))
    letter.at_most("largest motion of the others", others, 0.1, " mm")
    moving = sum(not item.static for item in recording.given_objects)
    letter.at_least("objects given", len(recording.given_objects), 349)
    letter.note(f"on the way the others get no further than {furthest[0]:.3f} mm ({furthest[1]})")
    letter.note(f"{moving} objects have poses by time")
