"""Depth of one frame seen from another: residuals for pose conventions, depth kind and depth unit."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int64

from geo import se3
from geo.convention_check.pairs import frame_pairs, posed_rows, poses_of
from geo.convention_check.records import Measured
from geo.depth import sample_depth
from geo.recording import DepthSource, Recording

UNIT = "of the depth"
LIMIT = 0.5  # residuals are cut here; so is a pair that does not overlap at all
_FLOOR = 1e-4
_POINTS = 2500
_MIN_LANDED = 0.2
_INLIER = 0.05
_FEW_PAIRS = 8  # below this number of pairs the quarters of the pictures count as pieces of evidence


@dataclass
class DepthPairs:
    """Pairs of depth images, chosen once from the times alone, so that every reading is measured on the same."""

    timestamps_ns: Int64[np.ndarray, "M"]
    pairs: Int64[np.ndarray, "P 2"]  # rows of the depth stream
    _images: dict[int, Float[np.ndarray, "H W"]] = field(default_factory=dict)
    _source: list[DepthSource] = field(default_factory=list)  # whose images are kept: the one that was used last

    def _read(self, source: DepthSource, row: int) -> Float[np.ndarray, "H W"]:
        """Depth image; readings that share a source share what was decoded."""
        if not (self._source and self._source[0] is source):
            self._source[:] = [source]
            self._images.clear()
        if row not in self._images:
            self._images[row] = source.read(row)
        return self._images[row]

    def measure(self, recording: Recording) -> Measured:
        """Residuals of a reading: median of |z predicted - z seen| / z predicted per pair and direction."""
        depth = recording.depth
        assert depth is not None
        poses = poses_of(recording.trajectory, self.timestamps_ns[np.unique(self.pairs)])
        pose_of = dict(zip(np.unique(self.pairs).tolist(), poses @ depth.reference_from_camera, strict=True))
        few = len(self.pairs) < _FEW_PAIRS
        residuals: list[float] = []
        clusters: list[int] = []
        inliers, compared = 0, 0
        for number, (a, b) in enumerate(self.pairs.tolist()):
            images = {row: self._read(depth.frames, row) for row in (a, b)}
            for one, other in ((a, b), (b, a)):
                other_from_one = se3.inverse(pose_of[other]) @ pose_of[one]
                errors, quarter = _errors(images[one], images[other], recording, other_from_one)
                for part in range(4) if few else [slice(None)]:
                    chosen = errors[quarter == part] if few else errors
                    residuals.append(_residual(chosen))
                    clusters.append(4 * number + int(part) if isinstance(part, int) else number)
                landed = errors[np.isfinite(errors)]
                inliers, compared = inliers + int((landed < _INLIER).sum()), compared + len(errors)
        share = inliers / compared if compared else float("nan")
        return Measured(np.array(residuals), np.array(clusters, dtype=np.int64), share)


def depth_pairs(recording: Recording) -> DepthPairs | None:
    """Pairs of depth images with poses; None without depth or with fewer than two of them."""
    if recording.depth is None:
        return None
    rows = posed_rows(recording.trajectory, recording.depth.timestamps_ns)
    pairs = frame_pairs(recording.depth.timestamps_ns[rows])
    return DepthPairs(recording.depth.timestamps_ns, rows[pairs]) if len(pairs) else None


def _residual(errors: Float[np.ndarray, "K"]) -> float:
    landed = errors[np.isfinite(errors)]
    if len(errors) == 0 or len(landed) < _MIN_LANDED * len(errors):
        return LIMIT
    return float(np.clip(np.median(landed), _FLOOR, LIMIT))


def _errors(
    z_one: Float[np.ndarray, "H W"],
    z_other: Float[np.ndarray, "H W"],
    recording: Recording,
    other_from_one: Float[np.ndarray, "4 4"],
) -> tuple[Float[np.ndarray, "K"], Int64[np.ndarray, "K"]]:
    """Relative errors of sampled pixels (NaN: lands outside or on no depth), and the quarter of the picture of each."""
    assert recording.depth is not None
    camera = recording.depth.camera
    step = max(1, int(np.sqrt(z_one.size / _POINTS)))
    v, u = np.mgrid[step // 2 : camera.height_px : step, step // 2 : camera.width_px : step]
    z = z_one[v, u].astype(np.float64)
    pixels = np.stack([u, v], axis=-1)[z > 0].astype(np.float64)
    z = z[z > 0]
    quarter = (2 * (pixels[:, 1] > camera.height_px / 2) + (pixels[:, 0] > camera.width_px / 2)).astype(np.int64)
    if not np.isfinite(other_from_one).all():
        return np.full(len(z), np.nan), quarter
    rays = camera.unproject(pixels).directions
    points = se3.transform_points(other_from_one, rays * (z / rays[:, 2])[:, None])
    with np.errstate(invalid="ignore", divide="ignore"):
        landed = np.where(points[:, 2:] > 0, camera.project(points).pixels_xy, np.nan)
        seen = sample_depth(z_other, landed)
        return np.abs(points[:, 2] - seen) / points[:, 2], quarter
