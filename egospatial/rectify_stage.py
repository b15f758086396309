"""The rectify stage: canonical.mp4, further views of a wide lens, poses, and recording.json with the quality report."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np

from egospatial.hashing import digest_of, file_digest
from egospatial.stages import Progress, StageNotes
from egospatial.store import geometry_file, layout, recording_file
from egospatial.store.atomic import atomic_path, missing, write_bytes
from egospatial.workbench import Workbench
from geo.recording import CanonicalRecording, PickedFrames
from geo.rectify_quality import rectify_quality
from geo.virtual_views import VirtualView, coverage, virtual_views


def rectify_digest(folder: Path) -> str:
    """Digest of recording.json, canonical.mp4, the further views it names, and the frames part of geometry.h5."""
    paths = [folder / layout.RECORDING, folder / layout.VIDEO]
    for path in paths:
        if not path.is_file():
            raise missing(path)
    further = [folder / name for item in recording_file.views(folder) for name in (item.file, item.mask_file)]
    for path in further:
        if not path.is_file():
            raise missing(path)
    files = digest_of([file_digest(path) for path in (*paths, *further)])
    return digest_of([files, geometry_file.frames_digest(folder)])


def run_rectify(bench: Workbench, progress: Progress) -> StageNotes:
    """Write all that the stage gives."""
    canonical = bench.canonical
    _write_video(bench.folder / layout.VIDEO, canonical, "frames", progress)
    views, share = _write_views(bench, progress)
    quality = rectify_quality(canonical.source_camera, canonical.camera, canonical.canonical_from_source.T)
    provenance = recording_file.Provenance(
        str(bench.source), bench.recording.format_name, bench.selection.__dict__, bench.source_frames,
        bench.recording.reference.name,
    )  # fmt: skip
    geometry_file.write_frames(bench.folder, canonical)
    recording_file.write(bench.folder, canonical, provenance, quality, views, share)
    _remove_old_views(bench.folder, views)
    posed = int(canonical.pose_valid.sum())
    warnings = [*bench.recording.warnings, *canonical.warnings]
    measurements = {"frames": len(canonical.timestamps_ns), "frames_with_pose": posed}
    return StageNotes(list(dict.fromkeys(warnings)), {**measurements, "views": len(views)} if views else measurements)


def _write_video(path: Path, canonical: CanonicalRecording, what: str, progress: Progress) -> None:
    """A video at the recording's own times, with the part of its audio that belongs to them."""
    from geo.rectify_stream import write_canonical_video

    with atomic_path(path) as temporary:
        write_canonical_video(temporary, canonical, progress=lambda done, count: progress(done, count, what))


def _write_views(bench: Workbench, progress: Progress) -> tuple[tuple[recording_file.FurtherView, ...], float | None]:
    """views/<name>.mp4 and its mask for every further view, and the share of the lens that they show together."""
    from geo.rectify import RectifiedFrames, remap_table

    config = bench.config.rectify
    if not config.extra_views:
        return (), None
    source = bench.recording.reference
    views = virtual_views(source.camera, config.extra_views_fov_deg, config.extra_views_size_px)
    pictures = PickedFrames(source.frames, bench.source_frames)
    written = []
    for view in views:
        table = remap_table(source.camera, view.camera, view.source_from_view)
        files = f"{layout.VIEWS}/{view.name}.mp4", f"{layout.VIEWS}/{view.name}_valid.png"
        shown = replace(bench.canonical, frames=RectifiedFrames(pictures, table), audio_file=None)
        _write_video(bench.folder / files[0], shown, f"frames of view {view.name}", progress)
        write_bytes(bench.folder / files[1], _png(view))
        quality = rectify_quality(source.camera, view.camera, view.source_from_view)
        rotation = bench.canonical.canonical_from_source @ view.source_from_view
        written.append(recording_file.FurtherView(view.name, *files, view.camera, rotation, quality))
    return tuple(written), coverage(source.camera, views)


def _remove_old_views(folder: Path, views: tuple[recording_file.FurtherView, ...]) -> None:
    """Files in views/ that an earlier run with other settings wrote, once recording.json names them no more."""
    kept = {folder / name for view in views for name in (view.file, view.mask_file)}
    if not kept:
        shutil.rmtree(folder / layout.VIEWS, ignore_errors=True)
        return
    for path in (folder / layout.VIEWS).iterdir():
        if path not in kept:
            path.unlink()


def _png(view: VirtualView) -> bytes:
    """The valid mask as a picture: 255 valid, 0 not."""
    import cv2

    ok, data = cv2.imencode(".png", view.valid_mask.astype(np.uint8) * 255)
    if not ok:
        raise AssertionError("a uint8 image is always encoded")
    return bytes(data.tobytes())
