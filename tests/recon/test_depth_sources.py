"""Depth from elsewhere: aligned where it has to be, refused with a reason where it cannot be, put only where nothing is."""

from dataclasses import replace

import numpy as np
import pytest

from geo.cameras import PinholeCamera
from geo.world import Gravity, World
from recon.depth_config import DepthConfig
from recon.depth_sources import (
    AlignRules,
    Anchors,
    DepthKind,
    DepthPrediction,
    DepthProvider,
    FolderDepth,
    FolderLayout,
    NetworkDepth,
    ProvidedDepth,
    aligned,
    fill_frame,
    point_anchors,
    with_provided_sensor,
)
from recon.depth_sources.align import fit
from recon.errors import ReconError
from recon.fuse import fuse_frames
from recon.model import empty_model
from recon.records import AlignmentOutcome, DepthFrame, DepthOrigin, DynamicMasks, ReconReport, Reconstruction
from recon.scene_depth import SceneDepth

NAN = float("nan")
RULES = AlignRules()
SIZE = (96, 72)
REPORT = ReconReport((), (), 0, 0, 0, NAN, NAN, NAN, NAN, 0.0)
DISPARITY, DEPTH, METRIC = DepthKind.AFFINE_DISPARITY, DepthKind.AFFINE_DEPTH, DepthKind.METRIC


def anchors_of(z, seed=0):
    return Anchors(np.random.default_rng(seed).uniform(0, 70, (len(z), 2)), np.asarray(z, dtype=np.float64))


def depths(count=400, seed=1):
    return np.random.default_rng(seed).uniform(0.5, 4.0, count)


def as_values(z, kind, scale, shift):
    """Values that become z: z or 1 / z = scale * value + shift."""
    return ((z if kind is DEPTH else 1 / z) - shift) / scale


@pytest.mark.parametrize("kind", [DEPTH, DISPARITY])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.002, 0.15), (350.0, -2.5), (1e-9, 0.3)])
def test_scale_and_shift_are_found_exactly_from_exact_values(kind, scale, shift):
    z = depths()
    found = fit(as_values(z, kind, scale, shift), anchors_of(z), kind, RULES, SIZE)
    assert found.used and found.alignment.anchors == 400
    assert found.alignment.scale == pytest.approx(scale, rel=1e-6)
    assert found.alignment.shift == pytest.approx(shift, abs=1e-6)
    assert found.alignment.residual < 1e-6


@pytest.mark.parametrize("kind", [DEPTH, DISPARITY])
def test_a_third_of_wrong_anchors_does_not_move_the_fit(kind):
    """An object that moved: a third of the anchors are 40 % nearer than what the network shows there."""
    z = depths()
    values = as_values(z, kind, 0.5, 0.1)
    z[::3] *= 0.6
    found = fit(values, anchors_of(z), kind, RULES, SIZE)
    assert found.alignment.scale == pytest.approx(0.5, rel=1e-6) and found.alignment.shift == pytest.approx(
        0.1, abs=1e-6
    )


def test_the_stated_scatter_is_that_of_the_prediction():
    """Values whose depth is 3 % off: median |error| 0.6745 * 3 % = 2.0 %; sigma of a pixel 3 %."""
    z = depths(2000)
    noisy = z * (1 + 0.03 * np.random.default_rng(2).standard_normal(2000))
    found = fit(as_values(noisy, DEPTH, 0.7, 0.2), anchors_of(z), DEPTH, RULES, SIZE)
    assert found.alignment.residual == pytest.approx(0.0202, rel=0.1)
    assert found.scatter == pytest.approx(0.03, rel=0.1)


def test_what_cannot_be_aligned_is_refused_with_its_reason():
    z, kinds = depths(), AlignmentOutcome
    outcome = lambda values, z, kind, rules=RULES: fit(values, anchors_of(z), kind, rules, SIZE).alignment.outcome  # noqa: E731
    assert outcome(as_values(z, DEPTH, 2, 0)[:29], z[:29], DEPTH) is kinds.TOO_FEW_ANCHORS
    assert outcome(np.full(400, NAN), z, DEPTH) is kinds.TOO_FEW_ANCHORS
    flat = 2.0 + 0.02 * np.sin(np.arange(400.0))
    assert outcome(flat, flat, DEPTH) is kinds.ANCHORS_TOO_ALIKE
    assert outcome(np.ones(400), z, DISPARITY) is kinds.ANCHORS_TOO_ALIKE
    assert outcome(1 / z, z, DEPTH) is kinds.WRONG_DIRECTION
    assert outcome(z, z, DISPARITY) is kinds.WRONG_DIRECTION
    strange = np.random.default_rng(5).permutation(z) + 0.3 * z
    assert outcome(strange, z, DEPTH) in (kinds.RESIDUAL_TOO_LARGE, kinds.WRONG_DIRECTION)
    assert outcome(z + 0.8 * np.sin(40 * z), z, DEPTH) is kinds.RESIDUAL_TOO_LARGE
    refused = fit(z, anchors_of(z), DISPARITY, RULES, SIZE)
    assert not refused.used and refused.alignment.residual > 0.05, "how far off it is, is stated all the same"


def test_metric_depth_is_compared_and_refused_in_the_wrong_unit():
    z = depths()
    good = fit(z * 1.02, anchors_of(z), METRIC, RULES, SIZE)
    assert good.used and good.alignment.residual == pytest.approx(0.02) and good.alignment.scale == 1.0
    assert fit(z * 1000, anchors_of(z), METRIC, RULES, SIZE).alignment.outcome is AlignmentOutcome.RESIDUAL_TOO_LARGE
    unchecked = fit(z[:3], anchors_of(z[:3]), METRIC, RULES, SIZE)
    assert unchecked.used and np.isnan(unchecked.alignment.residual) and unchecked.scatter == RULES.sigma_share


def test_rules_that_cannot_be_are_refused():
    with pytest.raises(ReconError, match="min_anchors is 2"):
        AlignRules(min_anchors=2)
    with pytest.raises(ReconError, match="max_residual is 0"):
        AlignRules(max_residual=0.0)


CAMERA = PinholeCamera(*SIZE, 70.0, 70.0, 47.0, 36.5)


def grid_anchors(z, step=6):
    v, u = np.mgrid[0 : z.shape[0] : step, 0 : z.shape[1] : step]
    return Anchors(np.stack([u.ravel(), v.ravel()], axis=1).astype(float), z[v, u].ravel())


def slope(camera):
    """A floor: 1 / z linear over the picture, from 0.5 at the top to 1 at the bottom."""
    v = camera.pixel_grid()[..., 1]
    return 1 / (0.5 + 0.5 * (v + 0.5) / camera.height_px)


def test_sigma_grows_where_the_anchors_do_not_reach():
    """Anchors on the lower half only: the top is extrapolated and says so."""
    z = slope(CAMERA)
    rng = np.random.default_rng(0)
    noisy = (1 / z) * (1 + 0.02 * rng.standard_normal(z.shape))
    low = grid_anchors(z, step=2)
    low = Anchors(low.pixels_xy[low.pixels_xy[:, 1] > 40], low.z_m[low.pixels_xy[:, 1] > 40])
    found = aligned(DepthPrediction(3 * noisy + 0.5, DISPARITY), CAMERA, low, CAMERA, RULES)
    share = found.sigma_m / found.z_depth_m
    assert np.median(share[:6]) > 1.3 * np.median(share[50:]) and 0.018 < np.median(share[50:]) < 0.023
    assert np.median(np.abs(found.z_depth_m / z - 1)[:6] / share[:6]) < 2


@pytest.mark.parametrize("size", [(48, 36), (192, 144), (96, 72)])
def test_a_prediction_of_another_size_lands_on_its_pixels(size):
    own = CAMERA.resized(size)
    found = aligned(DepthPrediction(slope(own), METRIC), own, grid_anchors(slope(CAMERA)), CAMERA, RULES)
    inner = (slice(2, -2), slice(2, -2))  # a smaller picture ends half of its own pixel before the border
    np.testing.assert_allclose(found.z_depth_m[inner], slope(CAMERA)[inner], rtol=1e-4)
    assert np.isfinite(found.sigma_m[inner]).all()


def test_a_cropped_prediction_with_its_own_camera_leaves_the_rest_unknown():
    own = CAMERA.cropped(20, 10, (40, 30))
    found = aligned(
        DepthPrediction(slope(CAMERA)[10:40, 20:60], METRIC), own, grid_anchors(slope(CAMERA)), CAMERA, RULES
    )
    np.testing.assert_allclose(found.z_depth_m[10:40, 20:60], slope(CAMERA)[10:40, 20:60], rtol=1e-5)
    found.z_depth_m[10:40, 20:60] = np.nan
    assert np.isnan(found.z_depth_m).all()


def test_disparity_at_or_below_the_horizon_is_no_depth():
    z = slope(CAMERA)
    values = 1 / z
    values[:5] = 0.01 - values[60, 0]  # aligned to 1 / z < 0
    found = aligned(DepthPrediction(values, DISPARITY), CAMERA, grid_anchors(z), CAMERA, RULES)
    assert np.isnan(found.z_depth_m[:5]).all() and np.isfinite(found.z_depth_m[5:]).all()


def test_stated_sigma_is_kept_for_metric_depth_and_added_for_affine():
    z = slope(CAMERA)
    sigma = np.full(z.shape, 0.25)
    metric = aligned(DepthPrediction(z, METRIC, sigma), CAMERA, grid_anchors(z), CAMERA, RULES)
    np.testing.assert_allclose(metric.sigma_m, 0.25, rtol=1e-5)
    affine = aligned(DepthPrediction(2 * z, DEPTH, 2 * sigma), CAMERA, grid_anchors(z), CAMERA, RULES)
    np.testing.assert_allclose(affine.sigma_m, 0.25, rtol=0.01)


def test_points_behind_others_are_no_anchors():
    """Two points of a near board and two behind it on the same pixels; one elsewhere, one behind the camera."""
    points = np.array([[0, 0, 1.0], [0.005, 0, 1.0], [0, 0, 2.0], [0.01, 0, 2.0], [0.5, 0.2, 2.0], [0, 0, -1.0]])
    found = point_anchors(points, np.eye(4), CAMERA)
    assert sorted(found.z_m.tolist()) == [1.0, 1.0, 2.0]
    assert len(point_anchors(points[-1:], np.eye(4), CAMERA).z_m) == 0


class Formula:
    """A stand-in for a network: disparity of the known room, seen at half the size, in a scale of its own."""

    def __init__(self, scene, camera, kind=DISPARITY):
        self.scene, self.camera, self.kind, self.shown = scene, camera, kind, []

    def depth(self, frame_rgb, camera):
        assert camera == self.camera
        number = next(i for i, image in enumerate(self.scene.canonical.frames.images) if image is frame_rgb)
        self.shown.append(number)
        z = self.scene.z_depth_m[number]
        return DepthPrediction(z if self.kind is METRIC else 12.0 / z + 3.0, self.kind)


@pytest.fixture(scope="module")
def seeing(scene_of):
    """Six frames whose sensor sees; and the same without one."""
    return scene_of(6), scene_of(6, sensor=False)


def bare(count=6):
    return Reconstruction(empty_model(), DynamicMasks(np.zeros((count, 6, 8), bool)), REPORT)


def network(scene, kind=DISPARITY):
    return Formula(scene, scene.canonical.camera, kind)


def test_a_network_fills_what_the_sensor_does_not_see_and_nothing_else(seeing):
    scene, _ = seeing
    provider = network(scene)
    assert isinstance(provider, DepthProvider)
    provided = ProvidedDepth(NetworkDepth(scene.canonical, provider), RULES)
    config = DepthConfig(width_px=96)
    plain = list(fuse_frames(scene.canonical, bare(), None, config, start=2, stop=4))
    filled = list(fuse_frames(scene.canonical, bare(), None, config, start=2, stop=4, provided=provided))
    assert provider.shown == [2, 3], "asked once a frame, and only for these"
    for frame, before, number in zip(filled, plain, (2, 3), strict=True):
        known = np.isfinite(before.z_depth_m)
        assert 0.3 < known.mean() < 0.9
        for name in ("z_depth_m", "sigma_m", "origin"):
            np.testing.assert_array_equal(getattr(frame, name)[known], getattr(before, name)[known])
        assert (frame.origin[~known] == DepthOrigin.PROVIDED).all()
        assert np.isfinite(frame.z_depth_m).all() and np.isfinite(frame.sigma_m).all()
        error = np.abs(frame.z_depth_m / scene.z_depth_m[number] - 1)[~known]
        assert np.quantile(error, 0.95) < 0.005
        assert frame.alignment.outcome is AlignmentOutcome.USED and frame.alignment.residual < 0.005
        assert frame.alignment.scale == pytest.approx(1 / 12, rel=0.02)


def test_a_folder_is_used_as_a_network_is(seeing, tmp_path):
    scene, _ = seeing
    for number in range(6):
        np.save(tmp_path / f"{number}.npy", 12.0 / scene.z_depth_m[number] + 3.0)
    config = DepthConfig(width_px=96, folder=str(tmp_path), folder_kind="affine_disparity")
    from_folder = list(fuse_frames(scene.canonical, bare(), None, config, provided=config.provided(scene.canonical)))
    asked = ProvidedDepth(NetworkDepth(scene.canonical, network(scene)), RULES)
    from_network = list(fuse_frames(scene.canonical, bare(), None, config, provided=asked))
    for a, b in zip(from_folder, from_network, strict=True):
        np.testing.assert_array_equal(a.z_depth_m, b.z_depth_m)
        np.testing.assert_array_equal(a.origin, b.origin)


def test_frames_without_a_file_stay_as_they_were_and_say_so(seeing, tmp_path):
    scene, _ = seeing
    np.save(tmp_path / "0.npy", scene.z_depth_m[0])
    source = FolderDepth(FolderLayout(tmp_path, METRIC), scene.canonical)
    frames = list(fuse_frames(scene.canonical, bare(), None, DepthConfig(), provided=ProvidedDepth(source, RULES)))
    assert frames[0].alignment.outcome is AlignmentOutcome.USED
    assert {frame.alignment.outcome for frame in frames[1:]} == {AlignmentOutcome.MISSING}
    assert not (frames[1].origin == DepthOrigin.PROVIDED).any()


def test_pixels_without_a_picture_get_no_depth(seeing):
    scene, _ = seeing
    masked = scene.canonical.valid_mask.copy()
    masked[:20] = False
    canonical = replace(scene.canonical, valid_mask=masked)
    provided = ProvidedDepth(NetworkDepth(canonical, network(scene, METRIC)), RULES)
    frame = next(fuse_frames(canonical, bare(), None, DepthConfig(), provided=provided))
    assert not (frame.origin[:20] == DepthOrigin.PROVIDED).any() and np.isfinite(frame.z_depth_m[20:]).all()


def test_a_full_frame_asks_nobody(seeing):
    scene, _ = seeing
    full = DepthFrame(np.ones((72, 96), np.float32), np.ones((72, 96), np.float32), np.full((72, 96), 1, np.uint8))
    provider = network(scene)
    camera = scene.canonical.camera
    same = fill_frame(full, 0, scene.canonical, camera, ProvidedDepth(NetworkDepth(scene.canonical, provider), RULES))
    assert same is full and provider.shown == []


def test_without_anything_known_metric_depth_is_taken_and_affine_refused(seeing):
    _, blind = seeing
    frames = {}
    for kind in (METRIC, DISPARITY):
        provided = ProvidedDepth(NetworkDepth(blind.canonical, network(blind, kind)), RULES)
        frames[kind] = next(fuse_frames(blind.canonical, bare(), None, DepthConfig(), provided=provided))
    np.testing.assert_allclose(frames[METRIC].z_depth_m, blind.z_depth_m[0], rtol=1e-5)
    np.testing.assert_allclose(frames[METRIC].sigma_m, 0.1 * blind.z_depth_m[0], rtol=1e-5)
    assert np.isnan(frames[METRIC].alignment.residual)
    assert np.isnan(frames[DISPARITY].z_depth_m).all()
    assert frames[DISPARITY].alignment.outcome is AlignmentOutcome.TOO_FEW_ANCHORS


def scene_points(scene, frame=0, count=300):
    """Points of the room as a frame sees them, in world."""
    rng = np.random.default_rng(4)
    u, v = rng.integers(0, 96, count), rng.integers(0, 72, count)
    rays = scene.canonical.camera.normalised_points(np.stack([u, v], axis=1).astype(float))
    points = rays * scene.z_depth_m[frame][v, u][:, None]
    pose = scene.canonical.world_from_camera[frame]
    return points @ pose[:3, :3].T + pose[:3, 3]


def test_scene_points_align_what_the_frame_itself_cannot(seeing):
    _, blind = seeing
    provided = ProvidedDepth(NetworkDepth(blind.canonical, network(blind)), RULES, scene_points(blind))
    frame = next(fuse_frames(blind.canonical, bare(), None, DepthConfig(), start=3, provided=provided))
    assert frame.alignment.outcome is AlignmentOutcome.USED and frame.alignment.anchors > 100
    assert np.quantile(np.abs(frame.z_depth_m / blind.z_depth_m[3] - 1), 0.95) < 0.01


def test_metric_depth_without_metric_poses_is_refused(seeing):
    _, blind = seeing
    canonical = replace(blind.canonical, world=World(False, Gravity.KNOWN))
    provided = ProvidedDepth(NetworkDepth(canonical, network(blind, METRIC)), RULES)
    with pytest.raises(ReconError, match=r"frame 0 is metric, but the scale of room is unknown.*affine_depth"):
        next(fuse_frames(canonical, bare(), None, DepthConfig(), provided=provided))
    with pytest.raises(ReconError, match="scale of room is unknown"):
        with_provided_sensor(canonical, provided)


def test_a_network_that_returns_something_else_is_named(seeing):
    class Wrong:
        def depth(self, frame_rgb, camera):
            return frame_rgb[..., 0]

    _, blind = seeing
    provided = ProvidedDepth(NetworkDepth(blind.canonical, Wrong()), RULES)
    with pytest.raises(ReconError, match="depth that Wrong gave for frame 0 is ndarray"):
        next(fuse_frames(blind.canonical, bare(), None, DepthConfig(), provided=provided))


def test_metric_depth_stands_for_a_sensor(seeing, without_poses):
    _, blind = seeing
    canonical = without_poses(blind.canonical, [2])
    seen = with_provided_sensor(canonical, ProvidedDepth(NetworkDepth(canonical, network(blind, METRIC)), RULES))
    assert seen.sensor.camera == canonical.camera and len(seen.sensor.frames) == 5
    scene = SceneDepth(seen, bare())
    known = np.isfinite(scene.sensor(4))
    assert known.mean() > 0.95
    np.testing.assert_allclose(scene.sensor(4)[known], blind.z_depth_m[4][known], rtol=0.01)
    assert canonical.sensor is None, "the recording that was handed over stays as it was"


def test_affine_depth_stands_for_a_sensor_only_with_scene_points(seeing):
    scene, blind = seeing
    source = NetworkDepth(blind.canonical, network(blind))
    with pytest.raises(ReconError, match="affine_disparity: without scene points it has no scale"):
        with_provided_sensor(blind.canonical, ProvidedDepth(source, RULES))
    seen = with_provided_sensor(blind.canonical, ProvidedDepth(source, RULES, scene_points(blind)))
    np.testing.assert_allclose(seen.sensor.frames.read(1), blind.z_depth_m[1], rtol=0.02)
    few = with_provided_sensor(blind.canonical, ProvidedDepth(source, RULES, scene_points(blind)[:10]))
    assert np.isnan(few.sensor.frames.read(1)).all()
    with pytest.raises(ReconError, match="has a depth sensor"):
        with_provided_sensor(scene.canonical, ProvidedDepth(source, RULES))


def test_a_sensor_needs_frames_with_poses_and_one_size(seeing, without_poses, tmp_path):
    _, blind = seeing
    nowhere = without_poses(blind.canonical, range(6))
    with pytest.raises(ReconError, match="no frame of room has both a pose and provided depth"):
        with_provided_sensor(nowhere, ProvidedDepth(NetworkDepth(nowhere, network(blind, METRIC)), RULES))
    np.save(tmp_path / "0.npy", np.ones((72, 96)))
    np.save(tmp_path / "1.npy", np.ones((36, 48)))
    source = FolderDepth(FolderLayout(tmp_path, METRIC), blind.canonical)
    seen = with_provided_sensor(blind.canonical, ProvidedDepth(source, RULES))
    with pytest.raises(ReconError, match=r"1\.npy is 48x36 px, that of the first frame 96x72"):
        seen.sensor.frames.read(1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"folder": "x"}, r"folder_kind is ''; state what x holds: metric, affine_depth, affine_disparity"),
        ({"folder": "x", "folder_kind": "disparity"}, "folder_kind is 'disparity'"),
        ({"folder": "x", "folder_kind": "metric", "folder_camera": (1.0, 2.0)}, "folder_camera has 2 numbers"),
        ({"folder_as_sensor": True}, "folder_as_sensor is set, but"),
        ({"provided_max_residual": 2.0}, "max_residual is 2"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ReconError, match=message):
        DepthConfig(**settings)


def test_the_folders_camera_comes_from_the_settings():
    config = DepthConfig(folder="x", folder_kind="metric", folder_camera=(96.0, 72.0, 70.0, 70.0, 47.0, 36.5))
    assert config.folder_layout().camera == CAMERA and DepthConfig().folder_layout() is None
