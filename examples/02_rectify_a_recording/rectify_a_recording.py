"""A fisheye recording becomes a pinhole view with a pose per frame; one frame is written as a picture.

Usage: python examples/02_rectify_a_recording/rectify_a_recording.py [RECORDING] [PICTURE.png]
Without a recording, a small one is simulated first.
"""

import sys
import tempfile
from pathlib import Path

from PIL import Image

from egospatial.simulator import simulate
from geo.readers import open_recording
from geo.rectify import RectifyConfig, rectify


def main(arguments: list[str]) -> None:
    """Open, rectify, look."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(arguments[0]) if arguments else simulate(Path(scratch), "small", seed=1).recording_dir
        recording = open_recording(source)
        canonical = rectify(recording, RectifyConfig(width_px=256, height_px=256))
        camera, pose = canonical.camera, canonical.world_from_camera[0]
        print(f"{recording.recording_id}: {recording.reference.camera.model} -> focal length {camera.fx_px:.1f} px")
        print(f"{int(canonical.pose_valid.sum())} of {len(canonical.timestamps_ns)} frames have a pose")
        print(f"the first camera stands at {pose[:3, 3].round(2)} m, gravity is {canonical.world.gravity}")
        picture = Path(arguments[1]) if len(arguments) > 1 else Path(scratch) / "frame.png"
        Image.fromarray(canonical.frames.read(0)).save(picture)
        print(f"picture of {camera.width_px}x{camera.height_px} px written")


if __name__ == "__main__":
    main(sys.argv[1:])
