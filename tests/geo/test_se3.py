"""Rigid transforms: laws over many poses (near identity and near half a turn too), and values by hand."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from geo import se3
from geo.errors import PoseError

ANGLES = [0.0, 1e-12, 1e-6, 0.3, 1.5, np.pi - 1e-6, np.pi - 1e-12, np.pi]


def poses(count=40, seed=0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    axis = rng.normal(size=(count, 3))
    axis /= np.linalg.norm(axis, axis=1, keepdims=True)
    angle = np.resize(ANGLES, count)
    rotation = se3.rotation_from_axis_angle(axis * angle[:, None])
    return se3.from_rotation_translation(rotation, rng.normal(size=(count, 3)) * 5)


def test_inverse_undoes_a_transform():
    for a_from_b in poses():
        np.testing.assert_allclose(se3.compose(a_from_b, se3.inverse(a_from_b)), np.eye(4), atol=1e-14)


def test_composition_is_associative_and_inner_names_touch():
    a_from_b, b_from_c, c_from_d = poses(3, 1)
    left = se3.compose(se3.compose(a_from_b, b_from_c), c_from_d)
    np.testing.assert_allclose(left, se3.compose(a_from_b, se3.compose(b_from_c, c_from_d)), atol=1e-12)
    point_in_d = np.array([1.0, 2.0, 3.0])
    step = se3.transform_points(c_from_d, point_in_d)
    step = se3.transform_points(a_from_b, se3.transform_points(b_from_c, step))
    np.testing.assert_allclose(se3.transform_points(left, point_in_d), step, atol=1e-12)


def test_a_quarter_turn_about_z_takes_x_to_y():
    turn = se3.rotation_from_quat_wxyz(np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)]))
    np.testing.assert_allclose(turn @ [1, 0, 0], [0, 1, 0], atol=1e-15)


def test_scipy_agrees_on_quaternions_and_axis_angles():
    rotation = poses(80, 2)[:, :3, :3]
    theirs = Rotation.from_matrix(rotation)
    xyzw = theirs.as_quat()
    ours = se3.quat_wxyz_from_rotation(rotation)
    wxyz = xyzw[:, [3, 0, 1, 2]]
    same = np.minimum(np.abs(ours - wxyz).max(axis=1), np.abs(ours + wxyz).max(axis=1))
    assert same.max() < 1e-7
    back = se3.rotation_from_axis_angle(se3.axis_angle_from_rotation(rotation))
    np.testing.assert_allclose(back, rotation, atol=1e-9)
    np.testing.assert_allclose(
        np.linalg.norm(se3.axis_angle_from_rotation(rotation), axis=1), theirs.magnitude(), atol=1e-7
    )


def test_quaternion_and_its_negative_are_the_same_rotation_and_length_does_not_matter():
    quat = np.array([0.5, -0.1, 0.7, 0.2])
    for factor in (-1.0, 3.0, 1e-3):
        np.testing.assert_allclose(
            se3.rotation_from_quat_wxyz(factor * quat), se3.rotation_from_quat_wxyz(quat), atol=1e-14
        )


def test_round_trip_of_quaternions_has_a_positive_scalar_part():
    rotation = poses(80, 3)[:, :3, :3]
    quat = se3.quat_wxyz_from_rotation(rotation)
    assert (quat[:, 0] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(quat, axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(se3.rotation_from_quat_wxyz(quat), rotation, atol=1e-12)


def test_interpolation_ends_at_its_ends_and_halves_the_angle():
    start, end = poses(2, 4)
    for fraction, expected in ((0.0, start), (1.0, end)):
        found = se3.interpolate(start[None], end[None], np.array([fraction]))[0]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    middle = se3.interpolate(start[None], end[None], np.array([0.5]))[0]
    np.testing.assert_allclose(middle[:3, 3], (start[:3, 3] + end[:3, 3]) / 2)
    first = se3.axis_angle_from_rotation(start[:3, :3].T @ middle[:3, :3])
    second = se3.axis_angle_from_rotation(middle[:3, :3].T @ end[:3, :3])
    np.testing.assert_allclose(first, second, atol=1e-12)


def test_unknown_goes_in_unknown_comes_out():
    unknown = np.full((4, 4), np.nan)
    assert np.isnan(se3.inverse(unknown)[:3]).all()
    assert np.isnan(se3.compose(np.eye(4), unknown)[:3]).all()
    assert np.isnan(se3.quat_wxyz_from_rotation(unknown[:3, :3])).all()
    assert not se3.is_rigid(unknown)


@pytest.mark.parametrize(
    "matrix",
    [
        np.diag([1.0, 1, -1, 1]),
        np.diag([2.0, 2, 2, 1]),
        np.diag([1.0, 1, 1, 2]),
        np.full((4, 4), np.nan),
        np.zeros((4, 4)),
    ],
)
def test_what_is_no_rigid_transform_is_refused_by_name(matrix):
    with pytest.raises(PoseError, match="camera_from_rig is not a rigid 4x4 transform"):
        se3.check_rigid(matrix, "camera_from_rig")


def test_small_rounding_is_taken_and_made_exact():
    rough = poses(1, 5)[0].round(4)
    exact = se3.check_rigid(rough, "pose")
    np.testing.assert_allclose(exact[:3, :3] @ exact[:3, :3].T, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(exact, rough, atol=2e-4)
