"""CUDA twins against the CPU's functions. One list of checks for the simulator and for a GPU.

``NUMBA_ENABLE_CUDASIM=1 python twin_checks.py`` runs them at sizes that the simulator can bear.
"""

import sys

import numpy as np

from cuda_kernels.errors import KernelError

SMALL, ODD, EMPTY = (19, 14), (17, 1), (0, 6)


def depth_image(rng, shape, holes=0.15):
    """Two planes with a step, noise, and every kind of nothing: NaN, 0, negative."""
    v, u = np.mgrid[0 : shape[0], 0 : shape[1]]
    z = 1.5 + 0.02 * u + 0.01 * v + 0.003 * rng.standard_normal(shape)
    z[:, shape[1] // 2 :] += 0.8
    z[rng.random(shape) < holes] = np.nan
    if z.size > 10:
        z.flat[3], z.flat[7] = 0.0, -1.0
    return z.astype(np.float32)


def turned(angle_rad=0.2, shift=(0.05, -0.02, -0.1)):
    pose = np.eye(4)
    c, s = np.cos(angle_rad), np.sin(angle_rad)
    pose[:3, :3] = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]) @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    pose[:3, 3] = shift
    return pose


def check_unproject(shape, seed=0):
    from cuda_kernels.depth_cuda import unproject_cuda
    from geo import se3
    from geo.cameras import PinholeCamera
    from geo.depth import unproject

    rng = np.random.default_rng(seed)
    z, pose = depth_image(rng, shape), turned()
    got = unproject_cuda(z, np.array([20.0, 21.0, 6.5, 8.0, 0.3]), pose)
    assert got.shape == (*shape, 3) and got.dtype == np.float64
    if z.size:
        camera = PinholeCamera(shape[1], shape[0], 20.0, 21.0, 6.5, 8.0, skew_px=0.3)
        truth = se3.transform_points(pose, unproject(z, camera).reshape(-1, 3)).reshape(got.shape)
        np.testing.assert_allclose(got, truth, rtol=1e-12, atol=1e-12)
        assert np.isnan(got[~(z > 0)]).all() and np.isfinite(got[z > 0]).all()


def check_choice(shape, seed=1):
    """Ties aside, the choice is the CPU's; depths and spreads to float32."""
    from cuda_kernels.depth_cuda import choose_surface_cuda
    from recon import render
    from recon.records import RenderedView

    rng = np.random.default_rng(seed)
    expected = depth_image(rng, shape)
    median = (expected + rng.choice([0.0, 0.004, 0.3], shape)).astype(np.float32)
    median[rng.random(shape) < 0.1] = np.nan
    variance = rng.uniform(-1e-6, 0.05, shape).astype(np.float32)
    variance[rng.random(shape) < 0.1] = np.nan
    got = choose_surface_cuda(
        expected, median, variance, split_share=render._SPLIT_SHARE, split_floor_m=render._SPLIT_FLOOR_M,
        least_gap_m=render._MIN_GAP_M, sure_share=render._SURE_SHARE,
    )  # fmt: skip
    view = RenderedView(np.zeros((*shape, 3), np.float32), expected, expected, median, variance)
    np.testing.assert_array_equal(got.z_depth_m, render.surface_depth(view))
    np.testing.assert_allclose(got.spread_m, render.ray_spread(expected, median, variance), rtol=2e-5, atol=2e-6)


def check_fusion(shape, seed=2):
    """Everything but the filling of holes on what moves, which is not done per pixel (``hole_px`` 0 fills none)."""
    from cuda_kernels import depth_cuda
    from recon.fuse import DepthConfig, combine
    from recon.records import DepthOrigin

    assert [kind.value for kind in DepthOrigin] == [0, 1, 2, 3, 4, 5]
    kinds = (depth_cuda.NONE, depth_cuda.STATIC, depth_cuda.SENSOR, depth_cuda.BOTH, depth_cuda.OBJECT)
    assert kinds == (DepthOrigin.NONE, DepthOrigin.STATIC, DepthOrigin.SENSOR, DepthOrigin.BOTH, DepthOrigin.OBJECT)
    rng = np.random.default_rng(seed)
    thing = np.zeros(shape, dtype=bool)
    thing[shape[0] // 4 : shape[0] // 4 + 7, : shape[1] // 2] = True
    static = np.where(thing, np.float32(2.0), np.abs(depth_image(rng, shape)))
    sensor = (static + 0.004 * rng.standard_normal(shape)).astype(np.float32)
    sensor[(rng.random(shape) < 0.2) & ~thing] = np.nan
    sensor[thing] -= 0.3  # something stands in front
    sensor[:, -1:] += 0.2  # an edge, too thin to be a thing
    sigmas = [rng.uniform(0.002, 0.01, shape).astype(np.float32) for _ in range(2)]
    sigmas[0][rng.random(shape) < 0.05] = np.nan
    dynamic = rng.random(shape) < 0.1
    lifted = np.where(rng.random(shape) < 0.1, np.float32(0.9), np.float32(np.nan)).astype(np.float32)
    config = DepthConfig(hole_px=0)
    got = depth_cuda.fuse_depth_cuda(
        static, sigmas[0], sensor, sigmas[1], dynamic, lifted, disagreement_m=config.disagreement_m,
        disagreement_sigmas=config.disagreement_sigmas, disagreement_radius_px=config.disagreement_radius_px,
        object_sigma_m=config.object_sigma_m,
    )  # fmt: skip
    truth = combine(static, sigmas[0], sensor, sigmas[1], dynamic, lifted, config)
    np.testing.assert_array_equal(got.origin, truth.origin)
    np.testing.assert_allclose(got.z_depth_m, truth.z_depth_m, rtol=3e-7)
    np.testing.assert_allclose(got.sigma_m, truth.sigma_m, rtol=1e-5)
    assert (got.moves >= dynamic).all()
    if shape == SMALL:
        assert set(np.unique(got.origin)) == {0, 1, 2, 3, 4} and got.moves.sum() > dynamic.sum() + 20
        assert not got.moves[:, -1][~dynamic[:, -1]].any()


def check_reprojection(shape, seed=3, target=(23, 15)):
    from cuda_kernels.reproject import reproject_z_depth
    from cuda_kernels.reproject_cuda import reproject_z_depth_cuda

    z = depth_image(np.random.default_rng(seed), shape)
    if z.size:
        z[-1, -1] = np.inf
    scale = max(shape[1], 1) / 14
    arguments = (
        z, np.array([16.0 * scale, 15.0 * scale, 6.0 * scale, 9.0]),
        np.array([24.0, 23.0, 11.0, 7.0]) * target[0] / 23, target, turned(0.1), 0.05, 1e-3,
    )  # fmt: skip
    got, truth = reproject_z_depth_cuda(*arguments), reproject_z_depth(*arguments)
    assert got.shape == target[::-1] and got.dtype == np.float32
    same = np.isfinite(got) == np.isfinite(truth)
    assert same.mean() > 0.999  # a GPU fuses products and sums: a centre on a patch's border may fall either way
    close = np.isfinite(got) & np.isfinite(truth)
    assert np.quantile(np.abs(got - truth)[close], 0.999) < 1e-6 if close.any() else not z.size
    if z.size > 100:
        assert 0.2 < np.isfinite(got).mean() < 1.0


def projected_scene(count, size_wh, seed=4):
    """A random scene, and its projection as a tile rasteriser hands it on: every gaussian in every tile's list."""
    from cuda_kernels.splat import SplatCamera
    from cuda_kernels.splat.reference import project_reference

    rng = np.random.default_rng(seed)
    z = rng.uniform(1.0, 3.0, count)
    means = np.stack([rng.uniform(-0.5, 0.5, count) * z, rng.uniform(-0.5, 0.5, count) * z, z], axis=1)
    arrays = [
        means, rng.normal(size=(count, 4)), np.log(rng.uniform(0.05, 0.3, (count, 3))), rng.normal(1, 1.5, count),
        rng.uniform(0, 1, (count, 3)),
    ]  # fmt: skip
    camera = SplatCamera(size_wh[0], size_wh[0], size_wh[0] / 2, size_wh[1] / 2, *size_wh, np.eye(4))
    flat = project_reference(arrays[0], arrays[1], arrays[2], camera)
    conics = np.stack([flat.conics[:, 0, 0], flat.conics[:, 0, 1], flat.conics[:, 1, 1]], axis=1)
    tiles = (-(-size_wh[1] // 16), -(-size_wh[0] // 16))
    starts = (np.arange(tiles[0] * tiles[1]) * len(flat.rows)).reshape(tiles)
    opacities = 1 / (1 + np.exp(-arrays[3][flat.rows]))
    lists = (
        flat.means_xy + 0.5, conics, opacities, flat.z, starts, np.tile(np.arange(len(flat.rows)), starts.size)
    )  # fmt: skip
    kinds = (np.float32,) * 4 + (np.int32,) * 2
    return arrays, camera, [np.ascontiguousarray(a, dtype=k) for a, k in zip(lists, kinds, strict=True)]


def check_statistics(count, size_wh):
    from cuda_kernels.splat.reference import rasterize_reference
    from cuda_kernels.splat_statistics_cuda import depth_statistics_cuda

    arrays, camera, lists = projected_scene(count, size_wh)
    got = depth_statistics_cuda(*lists, size_wh, 16, 0.5)
    truth = rasterize_reference(*arrays, camera, np.zeros(3))
    for name in ("median_z", "variance_z"):
        ours, theirs = getattr(got, name), getattr(truth, name)
        both = np.isfinite(ours) & np.isfinite(theirs)
        assert (np.isfinite(ours) == np.isfinite(theirs)).mean() > 0.998
        if count:
            assert np.quantile(np.abs(ours - theirs)[both], 0.99) < 1e-4
    assert bool(np.isfinite(got.variance_z).any()) == bool(count)


def check_refusals():
    """Errors come before anything is copied; they need no device."""
    from cuda_kernels.depth_cuda import choose_surface_cuda, fuse_depth_cuda, unproject_cuda
    from cuda_kernels.reproject_cuda import reproject_z_depth_cuda
    from cuda_kernels.splat_statistics_cuda import depth_statistics_cuda

    z, other, numbers = np.ones((3, 4), np.float32), np.ones((4, 3), np.float32), np.ones(5)
    share = {"split_share": 0.1, "split_floor_m": 0.1, "least_gap_m": 0.1, "sure_share": 0.1}
    fuse = {"disagreement_m": 0.1, "disagreement_sigmas": 4, "disagreement_radius_px": -1, "object_sigma_m": 0.01}
    still = np.zeros(z.shape, bool)
    refused = (
        (lambda: unproject_cuda(z[0], numbers, np.eye(4)), "expected an"),
        (lambda: unproject_cuda(z, numbers[:4], np.eye(4)), "5 numbers"),
        (lambda: choose_surface_cuda(z, other, z, **share), "images of one size"),
        (lambda: fuse_depth_cuda(z, z, z, z, still, other, **fuse), "images of one size"),
        (lambda: fuse_depth_cuda(z, z, z, z, still, z, **fuse), "must not be negative"),
        (lambda: reproject_z_depth_cuda(z, numbers, numbers[:4], (3, 3), np.eye(4), 0.05, 0.01), "4 numbers a camera"),
        (lambda: depth_statistics_cuda(z, z, z[0], z[0], z, z[0], (4, 3), 16, 0.5), "tile lists have shapes"),
    )
    for call, text in refused:
        try:
            call()
        except KernelError as error:
            assert text in str(error), str(error)
        else:
            raise AssertionError(f"not refused: {text}")


def run_small():
    """All checks at sizes for the simulator."""
    for shape in (SMALL, ODD, EMPTY):
        for check in (check_unproject, check_choice, check_fusion, check_reprojection):
            check(shape)
    for count in (40, 0):
        check_statistics(count, (20, 18))
    check_refusals()


if __name__ == "__main__":
    run_small()
    sys.stdout.write("twins agree\n")
