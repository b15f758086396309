"""What an episode has per frame: times, poses of the body, hands. Row i belongs to frame i of every video."""

import re

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.errors import TimeError
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.xperience.hdf5_values import Hdf5Values
from geo.recording import HandTrack

NAMES = "slam/frame_names"
_STAMP = re.compile(r"(\d{9,19})(?:\.[A-Za-z]{2,5})?", re.ASCII)
_CLOCKS_APART_NS = 1_000_000
_THUMB_IS_NEARER_BY = 0.75
_SKELETON_M = 1.0  # no hand is that long


def read_names(file: Hdf5Values) -> list[str]:
    """Names of the frames, one a row."""
    return file.texts(NAMES)


def read_stamps(file: Hdf5Values, names: list[str], warnings: list[str]) -> Int64[np.ndarray, "N"]:
    """Device time of every frame: the frames' names where they are time stamps (captions speak of these), else
    ``video/device_timestamp``.

    Raises:
        TimeError: neither holds times, or they do not rise. RecordingError: see ``Hdf5Values``.
    """  # noqa: D205
    count = len(names)
    found = [_STAMP.fullmatch(name) for name in names]
    by_name = np.array([int(match[1]) for match in found if match], dtype=object)
    by_video = _video_stamps(file, count) if file.has("video/device_timestamp") else None
    if len(by_name) != count:
        if by_video is None:
            bad = next(name for name, match in zip(names, found, strict=True) if not match)
            raise TimeError(
                f"{file.path}: frame names such as {bad[:40]!r} are no time stamps, and there is no "
                "video/device_timestamp: the frames have no times"
            )
        stamps = by_video
    else:
        stamps = _int64(by_name, f"{file.path}: {NAMES}")
        apart = 0 if by_video is None or not count else int(np.abs(stamps - by_video).max())
        if apart > _CLOCKS_APART_NS:
            warnings.append(
                f"{file.path.name}: {NAMES} and video/device_timestamp differ by up to {apart / 1e6:.1f} ms; the "
                "names are used, as the captions do"
            )
    fall = np.flatnonzero(np.diff(stamps) <= 0)
    if len(fall):
        i = int(fall[0])
        raise TimeError(
            f"{file.path}: time does not rise from frame {i} ({stamps[i]} ns) to {i + 1} ({stamps[i + 1]} ns)"
        )
    return stamps


def _int64(values: Int64[np.ndarray, "N"] | np.ndarray, what: str) -> Int64[np.ndarray, "N"]:
    if any(value >= 2**62 for value in values.tolist()):
        raise TimeError(f"{what}: a time lies more than 146 years from zero; are these nanoseconds?")
    return np.asarray(values, dtype=np.int64)


def _video_stamps(file: Hdf5Values, count: int) -> Int64[np.ndarray, "N"]:
    """``video/device_timestamp``: whole numbers, or their digits."""
    name = "video/device_timestamp"
    if file.dataset(name).dtype.kind in "iu":
        return _int64(file.whole(name, (count,)), f"{file.path}: {name}")
    texts = [text.strip() for text in file.texts(name, count)]
    bad = [text for text in texts if not re.fullmatch(r"\d{1,19}", text, re.ASCII)]
    if bad:
        raise TimeError(f"{file.path}: {name} holds {bad[0][:40]!r}, no whole nanoseconds")
    return _int64(np.array([int(text) for text in texts], dtype=object), f"{file.path}: {name}")


def read_world_from_body(file: Hdf5Values, count: int, warnings: list[str]) -> Float[np.ndarray, "N 4 4"]:
    """Pose of the body at every frame, NaN where there is none; the file has body_from_world.

    A row with NaN, or whose quaternion and translation are all zero, is no pose.

    Raises:
        RecordingError: another shape, or no pose at all. PoseError: quaternions that are not unit.
    """
    quats = file.floats("slam/quat_wxyz", (count, 4)).tolist()
    moves = file.floats("slam/trans_xyz", (count, 3)).tolist()
    rows = [PoseRow(i, (m[0], m[1], m[2]), (q[0], q[1], q[2], q[3])) for i, (q, m) in enumerate(zip(quats, moves))]  # noqa: B905
    return se3.inverse(poses_from_rows(rows, file.path, warnings, "frame"))


def finger_rows(joints: Float[np.ndarray, "T 21 3"]) -> list[int] | None:
    """Rows of the joints in the order of ``HandTrack``, or None where the data do not tell.

    The file's joints are a wrist and five chains of four. Which chain is which finger is written nowhere, so the
    bones decide: the thumb's first joint is the nearest to the wrist by far, and either its chain comes first (then
    index, middle and the other two) or last (MANO's own order). Of ring and little finger the little one is shorter.

    Args:
        joints: Joints of frames in which the hand is seen, in metres, any frame.
    """
    chains = joints[:, 1:].reshape(len(joints), 5, 4, 3)
    base = np.median(np.linalg.norm(chains[:, :, 0] - joints[:, None, 0], axis=-1), axis=0)
    length = np.median(np.linalg.norm(np.diff(chains, axis=2), axis=-1).sum(axis=-1), axis=0)
    order = np.argsort(base)
    thumb = int(order[0])
    plain = np.isfinite(base).all() and base[thumb] > 0 and float((base + length).max()) < _SKELETON_M
    if thumb not in (0, 4) or not plain or base[thumb] > _THUMB_IS_NEARER_BY * base[order[1]]:
        return None
    index, middle, third, fourth = (i for i in range(5) if i != thumb)
    reach = base + length
    ring, little = (third, fourth) if reach[third] >= reach[fourth] else (fourth, third)
    return [0, *(1 + 4 * finger + joint for finger in (thumb, index, middle, ring, little) for joint in range(4))]


def read_hand(
    file: Hdf5Values,
    side: str,
    stamps: Int64[np.ndarray, "N"],
    world_from_left: Float[np.ndarray, "N 4 4"],
    warnings: list[str],
) -> HandTrack | None:
    """A hand in world; None where it is never seen, not there, or its fingers cannot be told apart.

    The file has joints in the rectified left camera; a frame of zeros is one in which the hand was not seen. Frames
    without a pose are left out as well, since nothing takes the hand to the world.
    """
    name = f"hand_mocap/{side}_joints_3d"
    if not file.has(name):
        return None
    joints = file.floats(name, (len(stamps), 21, 3))
    seen = (
        np.isfinite(joints).all(axis=(1, 2)) & (joints != 0).any(axis=(1, 2)) & (np.abs(joints) < 100).all(axis=(1, 2))
    )
    if not seen.any():
        return None
    order = finger_rows(joints[seen])
    if order is None:
        warnings.append(f"{file.path.name}: the fingers in {name} cannot be told apart; the {side} hand is left out")
        return None
    known = np.flatnonzero(seen & np.isfinite(world_from_left).all(axis=(1, 2)))
    poses, ordered = world_from_left[known], joints[known][:, order]
    in_world = np.einsum("tij,tkj->tki", poses[:, :3, :3], ordered) + poses[:, None, :3, 3]
    return HandTrack(side, stamps[known], in_world, np.full(len(known), np.nan))
