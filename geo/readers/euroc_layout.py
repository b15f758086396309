"""The EuRoC layout (EuRoC MAV, TUM VI) with a Kalibr camchain: a rig.json that nobody has to write.

``mav0/camN/data/<nanoseconds>.png``, one ``*camchain*.yaml`` whose camera N is that folder's, and
``mav0/state_groundtruth_estimate0/data.csv`` or ``mav0/mocap0/data.csv``: poses of the IMU in the EuRoC format. World
coordinates are in metres; the way up is not stated by the files.

Sources: EuRoC MAV data set, "ASL data set format"; TUM VI data set, "Data format".
"""

import re
from pathlib import Path
from typing import Any

from geo.images import list_images

_CAMERA = re.compile(r"cam(\d{1,2})", re.ASCII)
_TRUTHS = ("mav0/state_groundtruth_estimate0/data.csv", "mav0/mocap0/data.csv")
_CHAIN_PLACES = ("", "mav0", "dso", "calibration", "calib")


def found_parts(folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Camera folders, camchains and trajectories of the layout, as paths inside the folder."""
    mav = folder / "mav0"
    cameras = sorted(
        (entry.name for entry in (mav.iterdir() if mav.is_dir() else []) if _CAMERA.fullmatch(entry.name)),
        key=lambda name: int(name[3:]),
    )
    chains = [
        f"{place}/{path.name}".lstrip("/")
        for place in _CHAIN_PLACES
        for path in sorted((folder / place).glob("*camchain*.yaml"))
    ]
    cameras = [name for name in cameras if (mav / name / "data").is_dir()]
    return cameras, chains, [name for name in _TRUTHS if (folder / name).is_file()]


def layout_faults(folder: Path) -> list[str]:
    """What is missing for the layout, or there more than once; empty if it can be read."""
    cameras, chains, truths = found_parts(folder)
    faults = [] if cameras else ["mav0/cam0/data"]
    if len(chains) != 1:
        faults.append("one *camchain*.yaml" + (f" (there are {', '.join(chains)})" if chains else ""))
    if len(truths) != 1:
        faults.append(f"one of {' and '.join(_TRUTHS)}")
    return faults


def layout_manifest(folder: Path) -> dict[str, Any]:
    """Content of the rig.json that says what the layout means; see ``layout_faults`` first."""
    cameras, chains, truths = found_parts(folder)
    entries = {
        name: {
            "camchain": chains[0],
            "camera": name,
            "images": f"mav0/{name}/data/%d{_suffix(folder / 'mav0' / name / 'data')}",
            "timestamps_ns": "names",
        }
        for name in cameras
    }
    return {
        "format": "kalibr_rig/1",
        "reference_camera": cameras[0],
        "cameras": entries,
        "trajectory": {"file": truths[0], "format": "euroc", "body": "imu"},
        "world": {"metric": True, "up": None},
    }


def _suffix(folder: Path) -> str:
    """Ending of the pictures' names: that of the first one."""
    images = list_images(folder)
    return images[0].suffix if images else ".png"
