"""The call: check the arrays, draw, and go back."""
# mypy: disable-error-code="no-untyped-call, call-arg"

import threading
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int32, Int64, UInt16

from cuda_kernels.errors import KernelError
from cuda_kernels.splat.camera import packed_camera
from cuda_kernels.splat.rules import BLUE, CACHE_LINE_BYTES, RED, ROW_FLOATS
from cuda_kernels.splat.types import DepthStatistics, SplatCamera, SplatGradients, SplatImage

Array32 = Float32[np.ndarray, "..."]


_scratch = threading.local()


@dataclass(frozen=True)
class Saved:
    """State of a forward pass that its backward pass reads."""

    gaussians: tuple[np.ndarray, ...]  # means, quats, log scales, opacity logits, colours
    camera: Float[np.ndarray, "C"]
    order: Int32[np.ndarray, "M"]  # gaussian of each depth rank
    records: Float32[np.ndarray, "M F"]
    first_row: Int64[np.ndarray, "M1"]  # where a rank's gradient rows begin
    tile_start: Int64[np.ndarray, "T1"]
    tile_end: Int64[np.ndarray, "T"]  # where blending stopped for want of light
    entries: Int32[np.ndarray, "K 2"]  # depth rank and span code, tile after tile
    spans: UInt16[np.ndarray, "R"]  # span code of every gradient row; 0: not in that tile
    tile_order: Int64[np.ndarray, "T"]  # neighbours near each other
    background: Float32[np.ndarray, "3"]


def rasterize(
    means_in_world: Float32[np.ndarray, "N 3"],
    quats_wxyz: Float32[np.ndarray, "N 4"],
    log_scales: Float32[np.ndarray, "N 3"],
    opacity_logits: Float32[np.ndarray, "N"],
    colors: Float32[np.ndarray, "N 3"],
    camera: SplatCamera,
    background: Float[np.ndarray, "3"] | tuple[float, float, float] = (0.0, 0.0, 0.0),
    *,
    depth_statistics: bool = False,
) -> SplatImage:
    """Draw 3D gaussians: colour, alpha and accumulated depth (along +z; of a fisheye along the ray).

    The rule is gsplat's (see ``cuda_kernels.splat.rules``), so a model fitted there looks the same here. Parameters
    are stored as a 3DGS PLY stores them: log scales, opacity logits, quaternions of any length but zero. Same
    arrays, same bytes, for any number of threads (``numba.set_num_threads``).

    Args:
        means_in_world: Centres, world units. Rows with NaN or infinity anywhere, a zero quaternion or a scale that
            overflows float32 are not drawn and counted in ``SplatImage.dropped``.
        quats_wxyz: World from gaussian, scalar first.
        log_scales: Natural log of the standard deviations, world units.
        opacity_logits: Opacity is the logistic function of these.
        colors: RGB as seen from this camera; see ``eval_sh``.
        camera: View; ``camera_from_world`` must be finite and its rotation a rotation.
        background: Colour behind everything.
        depth_statistics: Also give median depth and the variance of depth (a kernel of its own, slower).

    Returns:
        Images indexed [v, u]; with nothing in view the background, alpha 0 and depth sum 0.

    Raises:
        KernelError: shapes do not fit, or the camera is unusable.

    Source: Zwicker et al. (2001), EWA splatting; Kerbl et al. (2023).
    """
    import numba

    from cuda_kernels.splat import bins, forward, projection, statistics

    gaussians = _checked_gaussians(means_in_world, quats_wxyz, log_scales, opacity_logits, colors)
    view = packed_camera(camera)
    paper = np.asarray(background, dtype=np.float32).reshape(-1)
    if paper.shape != (3,) or not np.isfinite(paper).all():
        raise KernelError(f"background must be three finite numbers, got {background!r}.")
    flat, status = projection.project(*gaussians, view)
    order = bins.depth_order(flat, status)
    size_wh, shape = (camera.width_px, camera.height_px), (camera.height_px, camera.width_px)
    records, first_row = bins.ordered_records(flat, order, gaussians[4], *size_wh)
    tile_start, entries, spans = bins.tile_lists(records, first_row, size_wh)
    tile_order = bins.nearby_order(*size_wh)
    shares = bins.even_shares(tile_start, tile_order, numba.get_num_threads())
    images = forward.composite(records, tile_start, entries, tile_order, shape, paper, shares)
    rgb, alpha, depth_sum, tile_end = images
    median_and_variance = None
    if depth_statistics:
        measured = statistics.depth_statistics(records, tile_start, tile_end, entries, tile_order, shape, shares)
        median_and_variance = DepthStatistics(*measured)
    return SplatImage(
        rgb=rgb,
        alpha=alpha,
        depth_sum=depth_sum,
        visible=status == projection.DRAWN,
        dropped=int(np.count_nonzero(status == projection.BROKEN)),
        statistics=median_and_variance,
        saved=Saved(
            gaussians, view, order, records, first_row, tile_start, tile_end, entries, spans, tile_order, paper
        ),
        along_ray=camera.kb4 is not None,
    )


def rasterize_backward(
    image: SplatImage,
    d_rgb: Float[np.ndarray, "H W 3"],
    d_alpha: Float[np.ndarray, "H W"] | None = None,
    d_depth_sum: Float[np.ndarray, "H W"] | None = None,
) -> SplatGradients:
    """Gradients of a loss by every input of ``rasterize``, from its gradients by the images.

    Args:
        image: What ``rasterize`` returned, its arrays unchanged.
        d_rgb: Gradient by ``image.rgb``.
        d_alpha: Gradient by ``image.alpha``; None is zero.
        d_depth_sum: Gradient by ``image.depth_sum``; None is zero.

    Returns:
        Finite float32 gradients, zero for gaussians not drawn.

    Raises:
        KernelError: shapes do not fit, or a gradient holds NaN or infinity.
    """
    import numba

    from cuda_kernels.splat import backward, bins, projection

    saved: Saved = image.saved
    shape = image.alpha.shape
    grads = (
        _checked_gradient("d_rgb", d_rgb, (*shape, 3)),
        _checked_gradient("d_alpha", d_alpha, shape),
        _checked_gradient("d_depth_sum", d_depth_sum, shape),
    )
    rows = _gradient_rows(len(saved.spans))
    backward.gradient_rows(
        rows,
        saved.records,
        saved.tile_start,
        saved.tile_end,
        saved.entries,
        saved.spans,
        saved.tile_order,
        (image.rgb, image.alpha, image.depth_sum),
        grads,
        saved.background,
        bins.even_shares(saved.tile_start, saved.tile_order, numba.get_num_threads()),
    )
    d_means, d_quats, d_scales, d_logits, d_colors, d_norm, twist = projection.project_backward(
        *saved.gaussians, saved.camera, saved.order, rows, saved.first_row
    )
    return SplatGradients(d_means, d_quats, d_scales, d_logits, d_colors, d_norm, twist)


def plane_depth_sum(image: SplatImage) -> Float32[np.ndarray, "H W"]:
    """Accumulated depth with each gaussian's depth taken along its plane; ``depth_sum`` has its centre's.

    Divide by alpha for the expected depth: on slanted surfaces that one has no steps and does not lean to the near
    side. See ``cuda_kernels.splat.planes``. For a fisheye view, whose depth is along the ray, it is ``depth_sum``.

    Args:
        image: What ``rasterize`` returned, its arrays unchanged.
    """
    import numba

    from cuda_kernels.splat import bins, forward, planes

    saved: Saved = image.saved
    if image.along_ray or not len(saved.order):
        return image.depth_sum
    records = _gradient_rows(len(saved.records), "planes")
    records[:] = saved.records
    means, quats, log_scales = saved.gaussians[:3]
    records[:, RED : BLUE + 1] = planes.depth_planes(means, quats, log_scales, saved.camera, saved.order)
    nothing = np.zeros(3, dtype=np.float32)
    lists = saved.tile_start, saved.entries, saved.tile_order
    shares = bins.even_shares(saved.tile_start, saved.tile_order, numba.get_num_threads())
    sums = forward.composite(records, *lists, image.alpha.shape, nothing, shares)[0]
    height, width = image.alpha.shape
    u = np.arange(width, dtype=np.float32) - np.float32(saved.camera[14])
    v = np.arange(height, dtype=np.float32) - np.float32(saved.camera[15])
    return np.asarray(sums[..., 0] + sums[..., 1] * u + sums[..., 2] * v[:, None])


def _checked_gaussians(
    means: np.ndarray, quats: np.ndarray, log_scales: np.ndarray, logits: np.ndarray, colors: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The five parameter arrays as C-contiguous float32 of matching length."""
    count = len(means)
    wanted = {
        "means_in_world": (means, (count, 3)),
        "quats_wxyz": (quats, (count, 4)),
        "log_scales": (log_scales, (count, 3)),
        "opacity_logits": (logits, (count,)),
        "colors": (colors, (count, 3)),
    }
    for name, (array, shape) in wanted.items():
        if np.shape(array) != shape:
            raise KernelError(f"{name} has shape {np.shape(array)}, expected {shape} for {count} gaussians.")
    arrays = [np.ascontiguousarray(array, dtype=np.float32) for array, _ in wanted.values()]
    return arrays[0], arrays[1], arrays[2], arrays[3], arrays[4]


def _gradient_rows(count: int, kind: str = "rows") -> Float32[np.ndarray, "R F"]:
    """Room for rows of one cache line each, kept between calls: fresh pages cost more than writing them."""
    room: np.ndarray | None = getattr(_scratch, kind, None)
    if room is None or len(room) < count:
        floats = np.empty((count + count // 4 + 1) * ROW_FLOATS, dtype=np.float32)
        begin = -floats.ctypes.data % CACHE_LINE_BYTES // floats.itemsize
        room = floats[begin : begin + (count + count // 4) * ROW_FLOATS].reshape(-1, ROW_FLOATS)
        setattr(_scratch, kind, room)
    return room[:count]


def _checked_gradient(name: str, gradient: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """A float32 gradient image; None is zero."""
    if gradient is None:
        return np.zeros(shape, dtype=np.float32)
    if np.shape(gradient) != shape:
        raise KernelError(f"{name} has shape {np.shape(gradient)}, the image needs {shape}.")
    array = np.ascontiguousarray(gradient, dtype=np.float32)
    if not np.isfinite(array.sum(dtype=np.float64)):
        raise KernelError(f"{name} holds NaN or infinity; mask those pixels to 0 before the backward pass.")
    return array
