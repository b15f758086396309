"""The six stages, bound to one recording: rectify -> reconstruct -> track -> lift -> depth -> ask."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from egospatial.hashing import digest_of, file_digest
from egospatial.quality import write_quality
from egospatial.rectify_stage import rectify_digest, run_rectify
from egospatial.stages import Progress, Stage, StageNotes
from egospatial.store import (
    depth_segments,
    geometry_file,
    layout,
    questions_file,
    splats_file,
    track_segments,
    tracks_file,
    trajectories_file,
)  # fmt: skip
from egospatial.store.atomic import missing
from egospatial.store.depth_coding import DepthCoding
from egospatial.workbench import Workbench, question_scene, without_moving_depth
from geo.cameras import PinholeCamera
from recon.records import AlignmentOutcome, DepthFrame, Reconstruction
from tracking.records import TrackSet

if TYPE_CHECKING:
    from recon.scene_depth import SceneDepth

_ROOM = 4.0  # reach in metres of the scene that the stored depth's codes are laid out for
STAGE_NAMES = ("rectify", "reconstruct", "track", "lift", "depth", "ask")


def stages_for(bench: Workbench) -> tuple[Stage, ...]:
    """The stages in order, working on this recording."""
    return (
        Stage("rectify", (), lambda f, key, p: run_rectify(bench, p), rectify_digest, version=2),
        Stage("reconstruct", ("rectify",), lambda f, key, p: _reconstruct(bench, p), reconstruct_digest),
        Stage("track", ("rectify", "reconstruct"), lambda f, key, p: _track(bench, key, p), track_digest, version=2),
        Stage("lift", ("reconstruct", "track"), lambda f, key, p: _lift(bench, p), lift_digest, version=2),
        Stage(
            "depth",
            ("reconstruct", "lift"),
            lambda f, key, p: _depth(bench, key, p),
            geometry_file.depth_digest,
            version=2,
        ),
        Stage("ask", ("lift",), lambda f, key, p: _ask(bench), ask_digest),
    )


def _files_digest(folder: Path, *names: str) -> str:
    for name in names:
        if not (folder / name).is_file():
            raise missing(folder / name)
    return digest_of([file_digest(folder / name) for name in names])


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


def _reconstruct(bench: Workbench, progress: Progress) -> StageNotes:
    from recon.reconstruct import reconstruct

    result = reconstruct(bench.scene_recording, bench.config.reconstruct, progress)
    splats_file.write(bench.folder, result)
    write_quality(bench.folder, result.quality, result.report.notes)
    bench.forget()
    report = result.report
    measurements = {
        name: getattr(report, name)
        for name in ("gaussians", "iterations", "psnr_held_out_db", "depth_median_error_m", "coverage", "fit_seconds")
    }
    if result.quality is not None:
        measurements["step_seconds"] = {name: round(value, 2) for name, value in result.quality.step_seconds.items()}
    return StageNotes(list(report.notes), measurements)


def _scene_depth(bench: Workbench, cache_frames: int = 16) -> "SceneDepth":
    from recon.scene_depth import SceneDepth

    settings = bench.config.depth
    return SceneDepth(
        bench.scene_recording,
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

    canonical, done, results = bench.scene_recording, track_segments.read_all(bench.folder, key), []
    found = track_objects(canonical, _scene_depth(bench), bench.narrations, bench.config.track, progress, done)
    for result in found:
        if result.plan.object_id not in done:
            track_segments.write(bench.folder, key, canonical.camera.size_wh_px, result)
        results.append(result)
    return assemble(canonical, bench.narrations, results)


def _lift(bench: Workbench, progress: Progress) -> StageNotes:
    from lifting.lift import lift

    lifted = lift(bench.scene_recording, _scene_depth(bench), bench.tracks, bench.config.lift, progress)
    trajectories_file.write(bench.folder, lifted)
    bench.forget()
    return StageNotes(
        list(lifted.warnings),
        {"objects": len(lifted.trajectories), "events": len(lifted.events), "relations": len(lifted.relations)},
    )


def _depth(bench: Workbench, key: str, progress: Progress) -> StageNotes:
    from recon.fuse import fuse_frames

    reconstruction = bench.reconstruction
    provided = None if bench.config.depth.folder_as_sensor else bench.provided

    def produce(frames: Sequence[int]) -> Iterable[DepthFrame]:
        start, stop = frames[0], frames[-1] + 1
        moving = trajectories_file.read_moving(bench.folder, start, stop)
        return fuse_frames(
            bench.scene_recording, reconstruction, moving, bench.config.depth, start=start, stop=stop, provided=provided
        )

    coding = depth_coding(bench, reconstruction)
    out_of_reach = depth_segments.write_depth(
        bench.folder, depth_camera(bench), len(bench.canonical.timestamps_ns), produce, key, coding,
        bench.config.store.depth_frames_per_segment, progress,
    )  # fmt: skip
    reach = f"nearer than {coding.first_z:.3g} or beyond {coding.farthest:.3g}"
    warnings = [f"{out_of_reach} depth pixels {reach} were stored as none"] if out_of_reach else []
    return _with_provided_notes(bench, StageNotes(warnings))


def _with_provided_notes(bench: Workbench, notes: StageNotes) -> StageNotes:
    """What became of provided depth: frames by outcome, and the median of their residuals."""
    table = geometry_file.DepthReader(bench.folder).provided
    if table is None:
        return notes
    counts = {kind.name.lower(): count for kind, count in table.counts().items() if count and kind}
    residuals = table.residual[np.isfinite(table.residual) & (table.outcome == AlignmentOutcome.USED)]
    notes.measurements.update(
        provided=counts, provided_residual_median=float(np.median(residuals)) if len(residuals) else float("nan")
    )
    refused = {name: count for name, count in counts.items() if name != "used"}
    if refused:
        told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in refused.items())
        notes.warnings.append(f"provided depth was not used in some frames: {told}")
    return notes


def depth_coding(bench: Workbench, reconstruction: Reconstruction) -> DepthCoding:
    """How depth is stored: as it is for metric recordings; else moved by a power of two that suits the scene's size."""
    means = np.asarray(reconstruction.model.means_in_world, dtype=np.float64)
    origins = bench.canonical.world_from_camera[bench.canonical.pose_valid, :3, 3]
    if bench.canonical.world.metric or len(means) == 0 or len(origins) == 0:
        return DepthCoding()
    reach = float(np.quantile(np.linalg.norm(means - np.median(origins, axis=0), axis=1), 0.999))
    return DepthCoding().scaled(float(2.0 ** np.round(np.log2(max(reach, 1e-9) / _ROOM))))


def _ask(bench: Workbench) -> StageNotes:
    from spatial_qa.ask import ask

    scene = question_scene(bench.folder, without_moving_depth(bench.lifted))
    questions = ask(scene, bench.config.ask)
    questions_file.write(bench.folder, questions)
    return StageNotes([], {"questions": len(questions.questions), "refusals": len(questions.refusals)})
