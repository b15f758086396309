"""Mesh and points of a splat model: on the surfaces, facing the cameras, the same each time."""

import numpy as np
import pytest
import splat_makers as make

from geo import se3
from recon.errors import ReconError
from recon.mesh import DepthView, MeshConfig, mesh_of_model, mesh_of_views, write_mesh_ply
from recon.model import empty_model, select
from recon.point_cloud import splat_points

CAMERA = make.camera(160, 120, 80.0)
COARSE = MeshConfig(voxel_m=0.04, width_px=160)


def true_depth(pose):
    """Depth along +z of the box's inside, and the walls' colours, at every pixel."""
    v, u = np.mgrid[: CAMERA.height_px, : CAMERA.width_px]
    rays = np.stack([(u - CAMERA.cx_px) / CAMERA.fx_px, (v - CAMERA.cy_px) / CAMERA.fy_px, np.ones(u.shape)], axis=-1)
    rays = rays @ pose[:3, :3].T
    with np.errstate(divide="ignore"):
        z = np.min(np.maximum((make.HALF - pose[:3, 3]) / rays, (-make.HALF - pose[:3, 3]) / rays), axis=-1)
    points = pose[:3, 3] + z[..., None] * rays
    return z.astype(np.float32), ((points / make.HALF + 1) / 2).clip(0, 1).astype(np.float32)


def from_walls(vertices):
    """Signed distance to the nearest wall, above 0 outside of the box."""
    outside = np.abs(vertices) - make.HALF
    return np.take_along_axis(outside, np.abs(outside).argmin(axis=1)[:, None], axis=1)[:, 0]


@pytest.fixture(scope="module")
def exact():
    views = (DepthView(*true_depth(pose), pose) for pose in make.look_around())
    return mesh_of_views(views, CAMERA, MeshConfig(voxel_m=0.02))


@pytest.fixture(scope="module")
def drawn():
    return mesh_of_model(make.box(), CAMERA, make.look_around(), COARSE)


def test_exact_depth_gives_the_walls_without_a_lean_to_one_side(exact):
    """A depth looked up half a pixel aside would put slanted walls 8 mm off (1 m away, half a pixel of 80)."""
    distance = from_walls(exact.vertices_in_world)
    assert np.median(np.abs(distance)) < 0.002
    assert abs(np.median(distance)) < 0.001
    assert np.quantile(np.abs(distance), 0.95) < 0.02


def test_a_slanted_wall_is_where_it_is():
    """One plane, 50 degrees off the optical axis: seen half a pixel aside it would be 1.4 cm away."""
    normal, offset = np.array([0.766, 0.1, -0.635]), -1.2
    normal /= np.linalg.norm(normal)
    v, u = np.mgrid[: CAMERA.height_px, : CAMERA.width_px]
    rays = np.stack([(u - CAMERA.cx_px) / CAMERA.fx_px, (v - CAMERA.cy_px) / CAMERA.fy_px, np.ones(u.shape)], axis=-1)
    with np.errstate(divide="ignore"):
        z = offset / (rays @ normal)
    z = np.where((z > 0) & (z < 4), z, np.nan).astype(np.float32)
    view = DepthView(z, np.zeros((*z.shape, 3), np.float32), np.eye(4))
    mesh = mesh_of_views([view], CAMERA, MeshConfig(voxel_m=0.02, min_views=1))
    assert len(mesh.vertices_in_world) > 1000
    assert abs(np.median(mesh.vertices_in_world @ normal - offset)) < 0.002


def test_a_models_mesh_lies_on_the_walls(drawn):
    distance = np.abs(from_walls(drawn.vertices_in_world))
    assert np.median(distance) < 0.015 and np.quantile(distance, 0.95) < 0.05
    sides = 2 * (np.prod(2 * make.HALF[[0, 1]]) + np.prod(2 * make.HALF[[0, 2]]) + np.prod(2 * make.HALF[[1, 2]]))
    a, b, c = (drawn.vertices_in_world[drawn.faces[:, i]].astype(float) for i in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    assert 0.75 * sides < area < 1.1 * sides  # floor and ceiling are seen in part


def test_triangles_and_normals_face_the_cameras(drawn):
    a, b, c = (drawn.vertices_in_world[drawn.faces[:, i]] for i in range(3))
    assert ((np.cross(b - a, c - a) * -a).sum(axis=1) > 0).mean() > 0.99
    assert ((drawn.normals_in_world * -drawn.vertices_in_world).sum(axis=1) > 0).mean() > 0.99


def test_colours_are_those_of_the_place(exact):
    expected = (exact.vertices_in_world / make.HALF + 1) / 2
    assert np.abs(exact.rgb / 255 - expected).mean() < 0.02


def test_the_same_input_gives_the_same_mesh_to_the_byte(drawn, tmp_path):
    again = mesh_of_model(make.box(), CAMERA, make.look_around(), COARSE)
    for name, mesh in (("a.ply", drawn), ("b.ply", again)):
        write_mesh_ply(tmp_path / name, mesh)
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


def test_trimesh_and_open3d_open_the_file(drawn, tmp_path):
    import open3d as o3d
    import trimesh

    write_mesh_ply(tmp_path / "m.ply", drawn)
    found = trimesh.load(tmp_path / "m.ply", process=False)
    np.testing.assert_array_equal(found.vertices.astype(np.float32), drawn.vertices_in_world)
    np.testing.assert_array_equal(found.faces, drawn.faces)
    np.testing.assert_array_equal(found.visual.vertex_colors[:, :3], drawn.rgb)
    other = o3d.io.read_triangle_mesh(str(tmp_path / "m.ply"))
    np.testing.assert_array_equal(np.asarray(other.triangles), drawn.faces)
    np.testing.assert_allclose(np.asarray(other.vertex_normals), drawn.normals_in_world, atol=1e-6)


def test_no_vertex_is_there_twice_or_unused(drawn):
    assert len(np.unique(drawn.vertices_in_world, axis=0)) == len(drawn.vertices_in_world)
    assert (drawn.faces != np.roll(drawn.faces, 1, axis=1)).all()


def test_what_too_few_views_saw_is_left_out():
    poses = make.look_around(2)[:1]
    with pytest.raises(ReconError, match="no surface was seen by 2 views"):
        mesh_of_model(make.box(0.06), CAMERA, poses, COARSE)
    once = MeshConfig(voxel_m=0.04, width_px=80, min_views=1)
    assert len(mesh_of_model(make.box(0.06), CAMERA, poses, once).faces)


def test_frames_without_a_pose_are_left_out_and_views_without_depth_do_no_harm():
    poses = make.look_around(6)
    poses[1] = np.nan
    away = se3.from_rotation_translation(np.eye(3), np.array([0.0, 0.0, 50.0]))
    config = MeshConfig(voxel_m=0.06, width_px=80)
    seen = mesh_of_model(make.box(0.06), CAMERA, np.concatenate([poses, away[None]]), config)
    assert len(seen.faces)
    with pytest.raises(ReconError, match="no surface was seen"):
        mesh_of_model(make.box(0.06), CAMERA, away[None], config)


def test_what_cannot_be_meshed_is_refused():
    poses = make.look_around(3)
    with pytest.raises(ReconError, match="holds no splat"):
        mesh_of_model(empty_model(), CAMERA, poses)
    with pytest.raises(ReconError, match="no pose to look from"):
        mesh_of_model(make.box(0.1), CAMERA, np.full((2, 4, 4), np.nan))
    tiny = MeshConfig(voxel_m=0.01, width_px=80, max_memory_mib=4)
    with pytest.raises(ReconError, match=r"\(4 MiB\) at a voxel of 0.01; take a larger voxel"):
        mesh_of_model(make.box(0.1), CAMERA, poses, tiny)
    for wrong in ({"voxel_m": 0.0}, {"voxel_m": float("nan")}, {"width_px": 0}, {"truncation_voxels": 0.5}):
        with pytest.raises(ReconError, match="must be"):
            MeshConfig(**wrong)


def test_points_have_centres_colours_and_normals_towards_the_cameras():
    model = make.box(0.1)
    found = splat_points(model, make.look_around(4)[:, :3, 3])
    np.testing.assert_array_equal(found.points_in_world.astype(np.float32), model.means_in_world)
    np.testing.assert_allclose(
        found.rgb / 255, np.clip((found.points_in_world / make.HALF + 1) / 2, 0.05, 0.95), atol=0.003
    )
    np.testing.assert_allclose(np.linalg.norm(found.normals_in_world, axis=1), 1, atol=1e-6)
    walls = np.abs(found.points_in_world) / make.HALF > 0.999
    single = walls.sum(axis=1) == 1  # inside of a wall its normal is the axis, towards the middle
    expected = -np.sign(found.points_in_world[single]) * walls[single]
    np.testing.assert_allclose(found.normals_in_world[single], expected, atol=1e-6)


def test_round_splats_and_splats_that_no_camera_saw_have_no_normal():
    model = make.box(0.3)
    assert not splat_points(model, np.zeros((0, 3))).normals_in_world.any()
    model.log_scales[:] = -3.0
    assert not splat_points(model, np.zeros((1, 3))).normals_in_world.any()


def test_faint_and_broken_splats_are_no_points():
    model = make.box(0.3)
    model.opacity_logits[0] = -1.0
    model.means_in_world[1] = np.nan
    assert len(splat_points(model, np.zeros((1, 3))).rgb) == len(model.means_in_world) - 2
    assert len(splat_points(select(model, np.zeros(len(model.means_in_world), bool)), np.zeros((1, 3))).rgb) == 0
