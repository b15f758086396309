"""What is taken out as floating, what stays, and what the report says of it."""

from dataclasses import replace

import numpy as np
import pytest

from recon.backend import CpuRenderer, packed, splat_camera
from recon.config import ReconstructConfig
from recon.floaters import find_floaters, groups, isolated, remove_floaters
from recon.init import initialise
from recon.model import empty_model, joined
from recon.prune import FreeSpaceVotes
from recon.quality_records import FloaterReason
from recon.records import DynamicMasks, SplatModel
from recon.sensor import SensorNoise
from recon.support import SplatSupport, splat_support, view_weights
from recon.views import load_views
from recon.voters import free_space_voters

CONFIG = ReconstructConfig(width_px=96, max_gaussians=2500, device="cpu")
NOISE = SensorNoise(0.02, 0.0)
RENDERER = CpuRenderer()


def balls(centres, radius_m=0.01, rgb=(0.1, 0.2, 0.9), logit=4.0) -> SplatModel:
    """Round splats."""
    centres = np.asarray(centres, dtype=np.float32)
    count = len(centres)
    return SplatModel(
        centres,
        np.full((count, 3), np.log(radius_m), dtype=np.float32),
        np.tile(np.array([1, 0, 0, 0], dtype=np.float32), (count, 1)),
        np.full(count, logit, dtype=np.float32),
        np.tile(((np.array(rgb) - 0.5) / 0.28209479).astype(np.float32), (count, 1, 1)),
    )


def votes_of(violating, supporting, looking) -> FreeSpaceVotes:
    return FreeSpaceVotes(*(np.array(values, dtype=np.int64) for values in (violating, supporting, looking)))


def nothing_moves(frames: int) -> DynamicMasks:
    return DynamicMasks(np.zeros((frames, 6, 8), dtype=bool))


@pytest.fixture(scope="module")
def scene_views(room):
    """Twelve views for the fit, four held out, and a model made from the fit's depth."""
    views = load_views(room.canonical, [i for i in range(16) if i % 4 != 2], nothing_moves(16), CONFIG)
    held = load_views(room.canonical, range(2, 16, 4), nothing_moves(16), CONFIG)
    return views, held, initialise(views, CONFIG, NOISE).model


@pytest.fixture(scope="module")
def cleaned(scene_views):
    """A blob in the air before the wall (rows n to n + 19), three splats behind the wall (the last ones)."""
    views, held, model = scene_views
    rng = np.random.default_rng(0)
    blob = balls(np.array([0.1, 1.2, 1.0]) + 0.03 * rng.standard_normal((20, 3)), 0.03)
    hidden = balls([[0.0, 2.5, 1.0], [0.02, 2.5, 1.0], [-0.02, 2.5, 1.0]])
    model = joined(joined(model, blob), hidden)
    return model, remove_floaters(model, views, held, CONFIG, NOISE, RENDERER, before_fit=3, in_fit=5)


def test_the_weights_of_a_view_add_up_to_its_opacity(scene_views):
    """The weights of all splats at a pixel are 1 - transmittance, which is alpha."""
    views, _, model = scene_views
    view = views[0]
    camera = splat_camera(view.camera, view.world_from_camera)
    alpha = RENDERER.forward(packed(model, view.world_from_camera), camera, (0.0, 0.0, 0.0)).alpha
    assert view_weights(model, view, RENDERER).sum() == pytest.approx(alpha.sum(dtype=np.float64), rel=1e-4)


def test_a_splat_behind_an_opaque_one_gets_no_light(scene_views):
    view = scene_views[0][0]
    ahead = view.world_from_camera[:3, 2]
    origin = view.world_from_camera[:3, 3]
    wall = balls([origin + 1.0 * ahead], 0.2, logit=9.0)
    both = joined(wall, balls([origin + 1.5 * ahead], 0.005))
    front, behind = view_weights(both, view, RENDERER)
    assert front > 100 and behind < 0.01
    alone = view_weights(balls([origin + 1.5 * ahead], 0.005), view, RENDERER)[0]
    assert alone > 0.3, "without the wall it is seen"


def test_light_on_pixels_that_may_move_does_not_count(scene_views):
    views, _, model = scene_views
    hidden = replace(views[0], static=np.zeros_like(views[0].static))
    assert not splat_support(model, [hidden], RENDERER).views.any()


def test_a_blob_in_the_air_goes_and_hidden_splats_go_and_the_room_stays(cleaned):
    model, result = cleaned
    count = len(model.means_in_world) - 23
    assert (result.reasons[count : count + 20] == FloaterReason.SEEN_THROUGH).all()
    assert np.isin(result.reasons[count + 20 :], [FloaterReason.UNSEEN, FloaterReason.ISOLATED]).all()
    assert (result.reasons[:count] == FloaterReason.SEEN_THROUGH).sum() <= 0.002 * count
    assert len(result.model.means_in_world) == (result.reasons == FloaterReason.KEPT).sum()


def test_the_report_says_what_went_and_that_held_out_frames_gained(cleaned):
    model, result = cleaned
    report = result.report
    assert (report.before_fit, report.in_fit) == (3, 5)
    assert report.removed == len(model.means_in_world) - len(result.model.means_in_world)
    assert report.removed == report.seen_through + report.isolated + report.unseen
    assert report.before.splats == len(model.means_in_world) and report.after.splats == len(result.model.means_in_world)
    assert report.before.seen_through >= 20 and report.after.seen_through == 0
    assert report.after.psnr_db > report.before.psnr_db + 0.2
    assert report.after.depth_abs_rel < 0.7 * report.before.depth_abs_rel
    assert report.before.in_front_share > 0.005 + report.after.in_front_share
    assert report.after.coverage > 0.99 and report.taken_back == () and report.notes == ()


def test_the_picture_shows_in_red_what_went_where_it_was(cleaned):
    pictures = cleaned[1].report.pictures
    red = (pictures.removed_in_red[..., 0] > 200) & (pictures.removed_in_red[..., 1] < 80)
    changed = np.abs(pictures.before.astype(int) - pictures.after).sum(axis=2) > 100
    assert red.sum() > 30
    assert (red & changed).sum() > 0.6 * red.sum() and (changed & ~red).sum() < 0.5 * red.sum()
    flat = pictures.removed_in_red[~(pictures.removed_in_red.max(axis=2) > pictures.removed_in_red.min(axis=2))]
    assert len(flat) > 0.8 * red.size, "all else is grey"


def test_a_thin_rod_that_the_sensor_sees_stays(scene_views):
    """A rod one pixel wide, 0.7 m before the wall: in every view the sensor has it on the pixels that it falls on."""
    views, held, model = scene_views
    heights = np.linspace(0.7, 1.3, 120)
    rod = balls(np.stack([np.full(120, 0.05), np.full(120, 1.3), heights], axis=1), 0.004)

    def with_rod(view):
        at = view.landing(rod.means_in_world)
        z = view.z_depth_m.copy()
        z[at.v, at.u] = at.z
        return replace(view, z_depth_m=z)

    both = joined(model, rod)
    result = remove_floaters(both, [with_rod(v) for v in views], [with_rod(v) for v in held], CONFIG, NOISE, RENDERER)
    assert (result.reasons[-120:] == FloaterReason.KEPT).all()


def test_without_a_sensor_nothing_is_taken_as_seen_through_and_the_report_says_so(scene_views, cleaned):
    views, held, _ = scene_views
    blind = [[replace(v, z_depth_m=np.full_like(v.z_depth_m, np.nan)) for v in some] for some in (views, held)]
    result = remove_floaters(cleaned[0], *blind, CONFIG, NOISE, RENDERER)
    assert result.report.seen_through == 0 and "nothing measures empty space" in result.report.notes[0]
    assert np.isnan(result.report.after.in_front_share) and np.isnan(result.report.after.depth_abs_rel)


def test_what_the_held_out_frames_need_is_put_back(scene_views):
    """A patch of the wall that the fit's sensor is made to see through, while the held-out frames measure it."""
    views, held, model = scene_views

    def opened(view):
        rays = view.camera.normalised_points(view.camera.pixel_grid()) @ view.world_from_camera[:3, :3].T
        points = view.world_from_camera[:3, 3] + rays * view.z_depth_m[..., None]
        inside = (points[..., 1] > 1.95) & (np.abs(points[..., 0]) < 0.7)
        return replace(view, z_depth_m=np.where(inside, view.z_depth_m + 1, view.z_depth_m).astype(np.float32))

    result = remove_floaters(model, [opened(v) for v in views], held, CONFIG, NOISE, RENDERER)
    assert result.report.taken_back == ("seen_through",)
    assert result.report.seen_through == 0 and result.report.after.coverage > 0.99


def test_without_held_out_frames_only_what_the_sensor_sees_through_goes(scene_views, cleaned):
    result = remove_floaters(cleaned[0], scene_views[0], [], CONFIG, NOISE, RENDERER)
    assert result.report.seen_through >= 20 and result.report.isolated == result.report.unseen == 0
    assert any("no held-out frames" in note for note in result.report.notes)


def test_splats_whose_extents_touch_are_one_group():
    """Standard deviation 1 cm reaches 2 cm: 3.9 cm apart touch, 4.1 cm do not."""
    line = balls([[0, 0, 0], [0.039, 0, 0], [0.078, 0, 0], [0.119, 0, 0]])
    assert groups(line).tolist() == [0, 0, 0, 1]
    assert groups(empty_model()).tolist() == [] and groups(balls([[0, 0, 0]])).tolist() == [0]


def test_a_small_group_is_isolated_only_if_views_had_the_chance_to_confirm_it():
    """2,000 touching splats, and four lone ones: unconfirmed, confirmed, never looked at, lit by one view only."""
    plane = np.stack(np.meshgrid(np.arange(50), np.arange(40), [0.0]), axis=-1).reshape(-1, 3) * 0.02
    model = joined(balls(plane), balls([[0, 0, 1], [1, 0, 1], [2, 0, 1], [3, 0, 1]]))
    many = [9] * 2000
    votes = votes_of([0] * 2004, [*many, 1, 2, 0, 2], [*many, 3, 3, 2, 3])
    support = SplatSupport(np.array([*many, 5, 5, 5, 1]), np.ones(2004))
    assert isolated(model, votes, support)[2000:].tolist() == [True, False, False, True]
    assert not isolated(model, votes, support)[:2000].any()


def test_a_splat_that_more_views_confirm_than_see_through_stays():
    """Three quarters of the confirming views is the limit: 4 against 5 goes, 4 against 6 stays; 2 are too few."""
    model = balls([[0, 0, 0], [0.01, 0, 0], [0.02, 0, 0]])
    votes = votes_of([4, 4, 2], [5, 6, 0], [9, 10, 2])
    support = SplatSupport(np.full(3, 5), np.ones(3))
    reasons = find_floaters(model, votes, support, CONFIG, measured=True)
    assert reasons.tolist() == [FloaterReason.SEEN_THROUGH, FloaterReason.KEPT, FloaterReason.KEPT]
    assert not find_floaters(model, votes, support, CONFIG, measured=False).any()


def test_an_empty_model_has_no_floaters(scene_views):
    views, held, _ = scene_views
    result = remove_floaters(empty_model(), views, held, CONFIG, NOISE, RENDERER)
    assert result.report.removed == 0 and result.report.pictures is None and len(result.reasons) == 0


def test_the_same_input_gives_the_same_report(scene_views, cleaned):
    model, first = cleaned
    again = remove_floaters(model, *scene_views[:2], CONFIG, NOISE, RENDERER, before_fit=3, in_fit=5)
    assert replace(again.report, pictures=None) == replace(first.report, pictures=None)
    assert again.report.pictures.removed_in_red.tobytes() == first.report.pictures.removed_in_red.tobytes()


def test_voters_are_frames_with_pose_and_sensor_that_are_not_left_out(room, without_poses):
    canonical = without_poses(room.canonical, [5])
    frames = [view.frame for view in free_space_voters(canonical, nothing_moves(16), CONFIG, left_out=(0, 1))]
    assert frames == [2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    few = [view.frame for view in free_space_voters(canonical, nothing_moves(16), CONFIG, most=3)]
    assert few == [0, 8, 15]
    assert free_space_voters(replace(canonical, sensor=None), nothing_moves(16), CONFIG) == []


def test_what_moves_does_not_vote(room):
    masks = DynamicMasks(np.ones((16, 6, 8), dtype=bool))
    assert not any(np.isfinite(view.z_depth_m).any() for view in free_space_voters(room.canonical, masks, CONFIG))
