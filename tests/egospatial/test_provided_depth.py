"""``--set depth.folder=...``: the folder fills what nothing else knows, stands for a sensor, and counts as an input."""

import json
from dataclasses import replace
from pathlib import Path

import cv2
import frontdoor_makers as make
import numpy as np
import pytest

from cuda_kernels.errors import InputError
from egospatial.config import resolve
from egospatial.errors import ConfigError
from egospatial.pipeline import stages_for
from egospatial.selection import Selection
from egospatial.stages import stage_hashes
from egospatial.store import geometry_file, splats_file, trajectories_file
from egospatial.workbench import Workbench
from geo import se3
from geo.recording import ScenePoints
from lifting.records import Lifted, SceneSurfaces
from recon.model import empty_model
from recon.records import AlignmentOutcome, DepthOrigin, DynamicMasks, Reconstruction

FRAMES, SIZE = 4, (40, 30)


@pytest.fixture
def recording(tmp_path):
    """Four flat pictures of a wall 2 m ahead, without a sensor."""
    folder = tmp_path / "wall"
    (folder / "rgb").mkdir(parents=True)
    for frame in range(FRAMES):
        cv2.imwrite(str(folder / f"rgb/{frame:06d}.png"), np.full((*SIZE[::-1], 3), 100 + frame, np.uint8))
    times = {"start_ns": 1_000_000_000, "rate_hz": 10}
    camera = {
        "model": "PINHOLE", "width": SIZE[0], "height": SIZE[1], "params": [30, 30, 19.5, 14.5], "images": "rgb/%06d.png",
        "reference_from_camera": None, "rolling_shutter_s": 0, "timestamps_ns": times,
    }  # fmt: skip
    manifest = {
        "format": "egospatial/1", "id": "wall", "reference_camera": "eye", "world": {"metric": True, "up": [0, 0, 1]},
        "cameras": {"eye": camera},
    }  # fmt: skip
    (folder / "recording.json").write_text(json.dumps(manifest))
    rows = [f"{1_000_000_000 + k * 100_000_000},{0.1 * k},0,1.5,0.5,-0.5,0.5,-0.5" for k in range(FRAMES)]
    (folder / "trajectory.csv").write_text("\n".join(["timestamp_ns,tx,ty,tz,qw,qx,qy,qz", *rows]) + "\n")
    return folder


@pytest.fixture
def depth(tmp_path):
    """Depth in millimetres for frames 0, 1 and 3, with a hole in the corner."""
    folder = tmp_path / "depth"
    folder.mkdir()
    for frame in (0, 1, 3):
        counts = np.full(SIZE[::-1], 2000 + frame, np.uint16)
        counts[0, 0] = 0
        cv2.imwrite(str(folder / f"{frame:06d}.png"), counts)
    return folder


def bench_of(recording, *words, out="out"):
    return Workbench(recording, recording.parent / out, resolve(None, words), Selection())


def metric(depth, *more):
    return (f"depth.folder={depth}", "depth.folder_kind=metric", "depth.folder_unit_m=0.001", *more)


def run_stage(bench, name):
    stage = next(stage for stage in stages_for(bench) if stage.name == name)
    return stage.run(bench.folder, "key", lambda done, total, what: None)


def run_depth(bench):
    """The depth stage on a scene of which nothing else is known."""
    bench.folder.mkdir(exist_ok=True)
    geometry_file.write_frames(bench.folder, bench.canonical)
    masks = DynamicMasks(np.zeros((FRAMES, 3, 4), dtype=bool))
    splats_file.write(bench.folder, Reconstruction(empty_model(), masks, make.reconstruction().report))
    surfaces = SceneSurfaces(np.zeros(0), np.zeros(0), float("nan"), float("nan"))
    trajectories_file.write(bench.folder, Lifted((), (), (), surfaces, None, ()))
    return run_stage(bench, "depth")


def test_the_folder_fills_what_nothing_else_knows_and_the_store_says_how(recording, depth):
    bench = bench_of(recording, *metric(depth))
    notes = run_depth(bench)
    reader = geometry_file.DepthReader(bench.folder)
    frame = reader.read(1)
    assert (frame.origin.ravel()[1:] == DepthOrigin.PROVIDED).all() and frame.origin[0, 0] == DepthOrigin.NONE
    np.testing.assert_allclose(frame.z_depth_m.ravel()[1:], 2.001, rtol=2e-4)
    np.testing.assert_allclose(frame.sigma_m.ravel()[1:], 0.2001, rtol=0.053)
    assert np.isnan(reader.read(2).z_depth_m).all()
    used, missing = AlignmentOutcome.USED, AlignmentOutcome.MISSING
    assert reader.provided.outcome.tolist() == [used, used, missing, used]
    assert notes.measurements["provided"] == {"used": 3, "missing": 1}
    assert notes.warnings == ["provided depth was not used in some frames: 1 missing"]


def test_without_a_folder_nothing_is_asked_and_nothing_stored(recording):
    bench = bench_of(recording)
    notes = run_depth(bench)
    assert geometry_file.DepthReader(bench.folder).provided is None and notes.measurements == {}


def test_the_folder_stands_for_the_sensor_in_every_stage_that_looks_at_depth(recording, depth):
    bench = bench_of(recording, *metric(depth, "depth.folder_as_sensor=true"), "reconstruct.iterations=0")
    assert bench.canonical.sensor is None and len(bench.scene_recording.sensor.frames) == 3
    run_depth(bench)
    frame = geometry_file.DepthReader(bench.folder).read(1)
    assert (frame.origin.ravel()[1:] == DepthOrigin.SENSOR).mean() > 0.9
    report_of = run_stage(bench, "reconstruct")
    assert not any("no sensor depth, and splats" in note for note in report_of.warnings)
    assert splats_file.read(bench.folder).model.means_in_world.shape[0] > 0, "splats placed from the folder's depth"


def hashes(bench):
    names = [stage.name for stage in stages_for(bench)]
    configs = {name: bench.config.of_stage(name) for name in names}
    return stage_hashes(stages_for(bench), configs, bench.inputs())


def changed(a, b):
    return [name for name in a if a[name] != b[name]]


def test_another_folder_or_other_files_in_it_run_the_stages_that_use_it(recording, depth):
    plain, filled = hashes(bench_of(recording)), hashes(bench_of(recording, *metric(depth)))
    assert changed(plain, filled) == ["depth"]
    sensor = hashes(bench_of(recording, *metric(depth, "depth.folder_as_sensor=true")))
    assert changed(plain, sensor) == ["reconstruct", "track", "lift", "depth", "ask"]
    cv2.imwrite(str(depth / "000002.png"), np.full(SIZE[::-1], 3000, np.uint16))
    assert changed(filled, hashes(bench_of(recording, *metric(depth)))) == ["depth"]
    again = hashes(bench_of(recording, *metric(depth, "depth.folder_as_sensor=true")))
    assert changed(sensor, again) == ["reconstruct", "track", "lift", "depth", "ask"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("depth.folder=x",), r"depth.*folder_kind is ''; state what x holds"),
        (("depth.folder=x", "depth.folder_kind=inverse"), "folder_kind is 'inverse'"),
        (("depth.folder=x", "depth.folder_kind=metric", "depth.folder_camera=[640]"), "folder_camera has 1 numbers"),
        (("depth.folder_unit=0.001",), "Did you mean depth.folder_unit_m"),
    ],
)
def test_settings_that_cannot_be_end_before_anything_runs(words, message):
    with pytest.raises(ConfigError, match=message):
        resolve(None, words)


def test_a_folder_that_is_not_there_is_said_before_anything_runs(recording):
    with pytest.raises(InputError, match="absent: no such folder of depth files"):
        bench_of(recording, *metric(Path("absent"))).inputs()


def test_scene_points_are_turned_into_the_canonical_world(recording, depth):
    """The reader's world was turned once (T), the canonical one a quarter turn about z further: (1, 0, 0) -> (0, 1, 0)."""
    bench = bench_of(recording, *metric(depth))
    assert bench.provided.points_in_world is None, "the recording has no points"
    turned = se3.from_rotation_translation(
        se3.rotation_from_axis_angle(np.array([0.3, 0.2, 0.1])), np.array([1.0, 2, 3])
    )
    quarter = se3.from_rotation_translation(se3.rotation_from_axis_angle(np.array([0, 0, np.pi / 2])), np.zeros(3))
    points = ScenePoints(np.array([[1.0, 0.0, 0.0]]), np.array([0.01]))
    bench = bench_of(recording, *metric(depth))
    worlds = (replace(bench.recording.world, world_from_source_world=m) for m in (turned, quarter @ turned))
    first, second = worlds
    bench.__dict__["canonical"] = replace(bench.canonical, world=second)
    bench.__dict__["recording"] = replace(bench.recording, points=points, world=first)
    np.testing.assert_allclose(bench.provided.points_in_world, [[0.0, 1.0, 0.0]], atol=1e-12)
