"""Hands of HOT3D: what the files hold without the hand models, which are under licences of their own.

``umetrack_hand_pose_trajectory.jsonl`` gives the pose of the wrist and the angles of the joints,
``mano_hand_pose_trajectory.jsonl`` MANO's parameters. Where the other joints are is only told by the models
(UmeTrack's user profile, MANO's files). UmeTrack's wrist is a point of the hand, joint 0 of ``HandTrack``; MANO's
translation is not (the model's own wrist lies some centimetres off it), so it gives no joint.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from geo.errors import RecordingError
from geo.readers.hot3d.tables import Mask
from geo.readers.json_values import finite_numbers, parsed_json
from geo.readers.pose_rows import PoseRow, poses_from_rows
from geo.readers.text_files import read_text, shown
from geo.recording import HandTrack

UMETRACK, MANO = "umetrack_hand_pose_trajectory.jsonl", "mano_hand_pose_trajectory.jsonl"
SIDES = {"0": "left", "1": "right"}
_JOINTS = 21


@dataclass(frozen=True)
class HandPoses:
    """One hand as a model's parameters at rising times.

    ``world_from_wrist`` is the file's ``wrist_xform`` (for MANO the model's global transform). ``parameters`` are the
    joint angles (UmeTrack, 22) or the pose coefficients (MANO, 15). ``confidence`` is NaN where it is not given.
    """

    side: str
    timestamps_ns: Int64[np.ndarray, "T"]
    world_from_wrist: Float[np.ndarray, "T 4 4"]
    parameters: Float[np.ndarray, "T P"]
    confidence: Float[np.ndarray, "T"]


@dataclass
class _Rows:
    """Rows of one side while they are read."""

    stamps: list[int]
    poses: list[PoseRow]
    parameters: list[list[float]]
    confidence: list[float]


def read_hand_poses(path: Path) -> tuple[HandPoses, ...]:
    """Hands of a ``*_hand_pose_trajectory.jsonl``, left before right; a hand that is never there is left out.

    Raises:
        RecordingError: unreadable, a line that is cut off, parts missing, times that do not rise, no hand at all.
        PoseError: a rotation that is not unit.
    """
    rows = {key: _Rows([], [], [], []) for key in SIDES}
    before = -1
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        entry = parsed_json(line, where)
        stamp, hands = (entry.get("timestamp_ns"), entry.get("hand_poses")) if isinstance(entry, dict) else (None, None)
        if not isinstance(stamp, int) or isinstance(stamp, bool) or not before < stamp < 1 << 63:
            raise RecordingError(f"{where}: timestamp_ns = {shown(str(stamp))} is no time after the line before")
        if not isinstance(hands, dict):
            raise RecordingError(f"{where} has no hand_poses; is it another file?")
        before = stamp
        for key, hand in hands.items():
            if key not in SIDES:
                raise RecordingError(f"{where}: hand {shown(key)} is neither 0 (left) nor 1 (right)")
            _add(rows[key], stamp, hand, f"{where} hand {key}", number)
    found = tuple(_hand_poses(SIDES[key], part, path) for key, part in rows.items() if part.stamps)
    if not found:
        raise RecordingError(f"{path} holds not a single hand; is it cut off?")
    return found


def _add(rows: _Rows, stamp: int, hand: Any, where: str, number: int) -> None:
    wrist = hand.get("wrist_xform") if isinstance(hand, dict) else None
    if not isinstance(wrist, dict):
        raise RecordingError(f"{where} has no wrist_xform")
    x, y, z = finite_numbers(wrist.get("t_xyz"), 3, f"{where}: t_xyz")
    qw, qx, qy, qz = finite_numbers(wrist.get("q_wxyz"), 4, f"{where}: q_wxyz")
    parameters = finite_numbers(hand.get("joint_angles", hand.get("pose")), None, f"{where}: joint_angles or pose")
    if rows.parameters and len(parameters) != len(rows.parameters[0]):
        raise RecordingError(f"{where} has {len(parameters)} parameters, the rows before {len(rows.parameters[0])}")
    confidence = hand.get("hand_confidence")
    rows.stamps.append(stamp)
    rows.poses.append(PoseRow(number, (x, y, z), (qw, qx, qy, qz)))
    rows.parameters.append(parameters)
    rows.confidence.append(
        math.nan if confidence is None else finite_numbers([confidence], 1, f"{where}: hand_confidence")[0]
    )


def _hand_poses(side: str, rows: _Rows, path: Path) -> HandPoses:
    return HandPoses(
        side,
        np.array(rows.stamps, dtype=np.int64),
        poses_from_rows(rows.poses, path, []),
        np.array(rows.parameters, dtype=np.float64),
        np.array(rows.confidence, dtype=np.float64),
    )


def read_wrists(folder: Path, mask: Mask | None, warnings: list[str]) -> tuple[HandTrack, ...]:
    """The wrists of UmeTrack as joint 0 of ``HandTrack``; all other joints are NaN.

    Times at which ``hand_pose_available`` did not pass are NaN as well.

    Raises:
        RecordingError, PoseError: see ``read_hand_poses``.
    """
    path = folder / UMETRACK
    if not path.is_file():
        if (folder / MANO).is_file():
            warnings.append(f"{MANO} holds parameters only; joints need the MANO model and are not given")
        return ()
    warnings.append(f"{UMETRACK}: hands have their wrist only; the other joints need the hand model")
    failed = np.empty(0, dtype=np.int64) if mask is None else mask.all_bad_ns()
    tracks = []
    for hand in read_hand_poses(path):
        joints = np.full((len(hand.timestamps_ns), _JOINTS, 3), np.nan)
        joints[:, 0] = hand.world_from_wrist[:, :3, 3]
        bad = np.isin(hand.timestamps_ns, failed)
        joints[bad] = np.nan
        tracks.append(HandTrack(hand.side, hand.timestamps_ns, joints, np.where(bad, np.nan, hand.confidence)))
    return tuple(tracks)
