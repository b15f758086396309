"""The six stages, bound to one recording: rectify -> reconstruct -> track -> lift -> depth -> ask."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egospatial.hashing import digest_of, file_digest
from egospatial.stages import Progress, Stage, StageNotes
from egospatial.store import (
    depth_segments,
    geometry_file,
    layout,
    questions_file,
    recording_file,
    splats_file,
    track_segments,
    tracks_file,
    trajectories_file,
)  # fmt: skip
from egospatial.store.atomic import atomic_path, missing
from egospatial.workbench import Workbench, question_scene, without_moving_depth
from geo.cameras import PinholeCamera
from recon.records import DepthFrame, Reconstruction
from tracking.records import TrackSet

if TYPE_CHECKING:
    from recon.scene_depth import SceneDepth

STAGE_NAMES = ("rectify", "reconstruct", "track", "lift", "depth", "ask")


def stages_for(bench: Workbench) -> tuple[Stage, ...]:
    """The stages in order, working on this recording."""
    return (
        Stage("rectify", (), lambda f, key, p: _rectify(bench, p), rectify_digest),
        Stage("reconstruct", ("rectify",), lambda f, key, p: _reconstruct(bench, p), reconstruct_digest),
        Stage("track", ("rectify", "reconstruct"), lambda f, key, p: _track(bench, key, p), track_digest),
        Stage("lift", ("reconstruct", "track"), lambda f, key, p: _lift(bench, p), lift_digest),
        Stage("depth", ("reconstruct", "lift"), lambda f, key, p: _depth(bench, key, p), geometry_file.depth_digest),
        Stage("ask", ("lift",), lambda f, key, p: _ask(bench), ask_digest),
    )


def _files_digest(folder: Path, *names: str) -> str:
    for name in names:
        if not (folder / name).is_file():
            raise missing(folder / name)
    return digest_of([file_digest(folder / name) for name in names])


def rectify_digest(folder: Path) -> str:
    """Digest of recording.json, canonical.mp4 and the frames part of geometry.h5."""
    files = _files_digest(folder, layout.RECORDING, layout.VIDEO)
    return digest_of([files, geometry_file.frames_digest(folder)])


def reconstruct_digest(folder: Path) -> str:
    """Digest of splats.ply and reconstruction.h5."""
    return _files_digest(folder, layout.SPLATS, layout.RECONSTRUCTION)


def track_digest(folder: Path) -> str:
    """Digest of tracks.h5."""
    return _files_digest(folder, layout.TRACKS)


def lift_digest(folder: Path) -> str:
    """Digest of trajectories.h5 and events.jsonl."""
    return _files_digest(folder, layout.TRAJECTORIES, layout.EVENTS)


def ask_digest(folder: Path) -> str:
    """Digest of questions.jsonl and audit.json."""
    return _files_digest(folder, layout.QUESTIONS, layout.AUDIT)


def _rectify(bench: Workbench, progress: Progress) -> StageNotes:
    canonical = bench.canonical
    _write_canonical_video(bench, progress)
    provenance = recording_file.Provenance(
        str(bench.source), bench.recording.format_name, bench.selection.__dict__, bench.source_frames
    )
    geometry_file.write_frames(bench.folder, canonical)
    recording_file.write(bench.folder, canonical, provenance)
    posed = int(canonical.pose_valid.sum())
    warnings = [*bench.recording.warnings, *canonical.warnings]
    return StageNotes(
        list(dict.fromkeys(warnings)), {"frames": len(canonical.timestamps_ns), "frames_with_pose": posed}
    )


def _write_canonical_video(bench: Workbench, progress: Progress) -> None:
    """canonical.mp4 at the recording's own times, with the part of the audio that belongs to them."""
    from geo.rectify_stream import write_canonical_video

    def say(done: int, count: int) -> None:
        progress(done, count, "frames")

    with atomic_path(bench.folder / layout.VIDEO) as temporary:
        write_canonical_video(temporary, bench.canonical, progress=say)


def _reconstruct(bench: Workbench, progress: Progress) -> StageNotes:
    from recon.reconstruct import reconstruct

    result = reconstruct(bench.canonical, bench.config.reconstruct, progress)
    splats_file.write(bench.folder, result)
    bench.forget()
    report = result.report
    measurements = {
        name: getattr(report, name)
        for name in ("gaussians", "iterations", "psnr_held_out_db", "depth_median_error_m", "coverage", "fit_seconds")
    }
    return StageNotes(list(report.notes), measurements)


def _scene_depth(bench: Workbench, cache_frames: int = 16) -> "SceneDepth":
    from recon.scene_depth import SceneDepth

    settings = bench.config.depth
    return SceneDepth(
        bench.canonical,
        bench.reconstruction,
        depth_camera(bench),
        cache_frames,
        sensor_tolerance_ms=settings.sensor_tolerance_ms,
        sensor_range_m=(settings.min_sensor_z_m, settings.max_sensor_z_m),
    )


def depth_camera(bench: Workbench) -> PinholeCamera:
    """The canonical camera at the size of the stored depth."""
    from recon.survey import small_camera

    return small_camera(bench.canonical.camera, bench.config.depth.width_px)


def _track(bench: Workbench, key: str, progress: Progress) -> StageNotes:
    narrations, canonical = bench.narrations, bench.canonical
    if any(narration.groundings for narration in narrations.narrations):
        tracks = _track_objects(bench, key, progress)
    else:
        tracks = TrackSet(canonical.camera.size_wh_px, canonical.timestamps_ns, (), (), "none")
    warnings = tuple(dict.fromkeys([*narrations.warnings, *tracks.warnings]))
    tracks_file.write(bench.folder, replace(tracks, warnings=warnings))
    track_segments.clear(bench.folder)
    bench.forget()
    measurements = {"objects": len(tracks.tracks), "verdicts": len(tracks.verdicts), "tracker": tracks.tracker}
    return StageNotes(list(warnings), measurements)


def _track_objects(bench: Workbench, key: str, progress: Progress) -> TrackSet:
    """Object by object, each stored when it is done: a killed run tracks only what is left."""
    from tracking.track import assemble, track_objects

    canonical, done, results = bench.canonical, track_segments.read_all(bench.folder, key), []
    found = track_objects(canonical, _scene_depth(bench), bench.narrations, bench.config.track, progress, done)
    for result in found:
        if result.plan.object_id not in done:
            track_segments.write(bench.folder, key, canonical.camera.size_wh_px, result)
        results.append(result)
    return assemble(canonical, bench.narrations, results)


def _lift(bench: Workbench, progress: Progress) -> StageNotes:
    from lifting.lift import lift

    lifted = lift(bench.canonical, _scene_depth(bench), bench.tracks, bench.config.lift, progress)
    trajectories_file.write(bench.folder, lifted)
    bench.forget()
    return StageNotes(
        list(lifted.warnings),
        {"objects": len(lifted.trajectories), "events": len(lifted.events), "relations": len(lifted.relations)},
    )


def _depth(bench: Workbench, key: str, progress: Progress) -> StageNotes:
    from recon.fuse import fuse_frames

    reconstruction, moving = bench.reconstruction, bench.lifted.moving_depth

    def produce(frames: Sequence[int]) -> Iterable[DepthFrame]:
        settings = bench.config.depth
        return fuse_frames(bench.canonical, reconstruction, moving, settings, start=frames[0], stop=frames[-1] + 1)

    unit_m = depth_unit(bench, reconstruction)
    too_deep = depth_segments.write_depth(
        bench.folder, depth_camera(bench), len(bench.canonical.timestamps_ns), produce, key, unit_m,
        bench.config.store.depth_frames_per_segment, progress,
    )  # fmt: skip
    warnings = [f"{too_deep} depth pixels beyond {65535 * unit_m:.1f} were stored as none"] if too_deep else []
    return StageNotes(warnings, {"unit_m": unit_m})


def depth_unit(bench: Workbench, reconstruction: Reconstruction) -> float:
    """Step of the stored depth: as set for metric recordings; else a power of two that suits the scene's size."""
    if bench.canonical.world.metric:
        return bench.config.store.depth_unit_m
    means = np.asarray(reconstruction.model.means_in_world, dtype=np.float64)
    origins = bench.canonical.world_from_camera[bench.canonical.pose_valid, :3, 3]
    if len(means) == 0 or len(origins) == 0:
        return bench.config.store.depth_unit_m
    reach = float(np.quantile(np.linalg.norm(means - np.median(origins, axis=0), axis=1), 0.999))
    return float(2.0 ** np.ceil(np.log2(max(reach, 1e-9) * 4 / 65535)))


def _ask(bench: Workbench) -> StageNotes:
    from spatial_qa.ask import ask

    scene = question_scene(bench.folder, without_moving_depth(bench.lifted))
    questions = ask(scene, bench.config.ask)
    questions_file.write(bench.folder, questions)
    return StageNotes([], {"questions": len(questions.questions), "refusals": len(questions.refusals)})
