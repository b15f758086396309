"""The one module that speaks to pycolmap: features, matches, a map, and pictures registered into it.

COLMAP's pixels (centre of the first one at 0.5) stay in here; what comes out is world_from_camera.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, UInt8

from geo.errors import GeoError, RecordingError
from geo.sfm.config import PosesConfig

_MIN_MODEL = 3
_MIN_RATIO = 0.25
_ENOUGH = 0.7  # of the keyframes in one piece: no other beginning is tried
_LOCAL_STEPS, _GLOBAL_STEPS = 15, 30
_TOLERANCE = 1e-5
_INITIAL_ANGLES_DEG = (16.0, 8.0, 4.0)  # of the first pair; smaller ones only where there is none

Say = Callable[[str], None]


def load_pycolmap() -> Any:
    """The package pycolmap.

    Raises:
        GeoError: it is not installed; the extra is named.
    """
    try:
        import pycolmap
    except ImportError as error:
        raise GeoError(
            f"poses are estimated by pycolmap, which is missing ({error}): pip install 'egospatial[poses]'"
        ) from error
    pycolmap.logging.minloglevel = 3  # its errors come back as results or exceptions
    return pycolmap


@dataclass(frozen=True)
class Map:
    """What incremental mapping gave: poses by frame, and the points that each mapped picture sees."""

    frames: Int64[np.ndarray, "K"]
    world_from_camera: Float[np.ndarray, "K 4 4"]
    points: Float[np.ndarray, "P 3"]
    colours: UInt8[np.ndarray, "P 3"]
    reprojection_error_px: float
    track_length: float
    seen: dict[int, Int64[np.ndarray, "F"]]  # frame -> row of ``points`` for each of its features, -1: none
    camera_model: str
    camera_params: tuple[float, ...]
    other_models: int


class Engine:
    """A database of features and matches in a folder of its own; ``pictures`` holds ``%06d.png`` and ``mask.png``."""

    def __init__(self, folder: Path, config: PosesConfig, model: str, params: Sequence[float] | None) -> None:
        """Take pictures that are there; ``params`` None: the camera is estimated along with the poses."""
        self._lib = load_pycolmap()
        self._config, self._folder = config, folder
        self._database = folder / "features.db"
        self._pictures = folder / "pictures"
        self._model, self._params = model, params
        self._ids: dict[int, int] = {}

    def extract(self) -> None:
        """SIFT features of all pictures; masked ones are left out."""
        lib, names = self._lib, sorted(path.name for path in self._pictures.iterdir())
        reader = lib.ImageReaderOptions()
        reader.camera_model = self._model
        if self._params is not None:
            reader.camera_params = ",".join(repr(float(value)) for value in self._params)
        masks, mask = self._folder / "masks", self._folder / "mask.png"
        if masks.is_dir():
            reader.mask_path = str(masks)
        elif mask.is_file():
            reader.camera_mask_path = str(mask)
        options = lib.FeatureExtractionOptions()
        options.num_threads = self._config.threads
        options.use_gpu = False
        options.sift.max_num_features = self._config.features
        options.sift.first_octave = 0  # doubling the picture first costs three times as much for a third more features
        lib.set_random_seed(self._config.seed)
        lib.Database.open(self._database).close()
        # Imported first and in order: then the ids do not depend on which thread is done first.
        lib.import_images(self._database, self._pictures, lib.CameraMode.SINGLE, names, reader)
        lib.extract_features(
            self._database, self._pictures, names, lib.CameraMode.SINGLE, reader, options, lib.Device.cpu
        )
        with lib.Database.open(self._database) as database:
            self._ids = {int(image.name[:6]): int(image.image_id) for image in database.read_all_images()}

    def match(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Match features of pairs of frames, and keep what one rigid motion explains."""
        lib = self._lib
        if not pairs:
            return
        listing = self._folder / "pairs.txt"
        listing.write_text("".join(f"{a:06d}.png {b:06d}.png\n" for a, b in pairs))
        matching, pairing = lib.FeatureMatchingOptions(), lib.ImportedPairingOptions()
        matching.num_threads = self._config.threads
        matching.use_gpu = False
        pairing.match_list_path = str(listing)
        verification = lib.TwoViewGeometryOptions()
        verification.ransac.random_seed = self._config.seed
        lib.set_random_seed(self._config.seed)
        lib.match_image_pairs(self._database, matching, pairing, verification, lib.Device.cpu)

    def map(self, keyframes: Sequence[int]) -> Map:
        """Incremental mapping of keyframes; of several pieces that cannot be joined the largest.

        Raises:
            RecordingError: no two pictures that a map could begin with.
        """
        best: Any = None
        others = 0
        for angle in _INITIAL_ANGLES_DEG:
            for piece in (pieces := self._mapped(keyframes, angle)):
                if best is None or _size_of(piece) > _size_of(best):
                    best, others = piece, len(pieces) - 1
            if best is not None and best.num_reg_images() >= _ENOUGH * len(keyframes):
                break
        if best is None or best.num_reg_images() < min(len(keyframes), _MIN_MODEL):
            raise RecordingError(
                f"no map could be built from {len(keyframes)} keyframes: too little texture, too much blur, or a "
                "camera that only turns on the spot; poses need a camera that moves past things"
            )
        return self._as_map(best, others)

    def _mapped(self, keyframes: Sequence[int], angle_deg: float) -> list[Any]:
        options = self._lib.IncrementalPipelineOptions()
        options.image_names = [f"{frame:06d}.png" for frame in keyframes]
        options.num_threads = 1
        options.random_seed = self._config.seed
        options.min_model_size = _MIN_MODEL
        options.max_num_models = 5
        options.extract_colors = True
        estimated = self._params is None
        options.ba_refine_focal_length = estimated
        options.ba_refine_extra_params = estimated
        options.ba_local_max_num_iterations = _LOCAL_STEPS
        options.ba_global_max_num_iterations = _GLOBAL_STEPS
        options.ba_local_function_tolerance = options.ba_global_function_tolerance = _TOLERANCE
        options.mapper.init_min_tri_angle = angle_deg
        options.mapper.abs_pose_refine_focal_length = estimated
        options.mapper.abs_pose_refine_extra_params = estimated
        out = self._folder / "map"
        out.mkdir(exist_ok=True)
        self._lib.set_random_seed(self._config.seed)
        return list(self._lib.incremental_mapping(self._database, self._pictures, out, options).values())

    def _as_map(self, piece: Any, others: int) -> Map:
        rows = {point_id: row for row, point_id in enumerate(sorted(piece.points3D))}
        points = np.array([piece.points3D[point_id].xyz for point_id in rows], dtype=np.float64).reshape(-1, 3)
        colours = np.array([piece.points3D[point_id].color for point_id in rows], dtype=np.uint8).reshape(-1, 3)
        poses: dict[int, np.ndarray] = {}
        seen: dict[int, np.ndarray] = {}
        for image in piece.images.values():
            if image.has_pose:
                frame = int(image.name[:6])
                poses[frame] = _world_from_camera(image.cam_from_world())
                seen[frame] = np.array([rows.get(int(p.point3D_id), -1) for p in image.points2D], dtype=np.int64)
        frames = sorted(poses)
        (camera,) = piece.cameras.values()
        return Map(
            np.array(frames, dtype=np.int64),
            np.stack([poses[frame] for frame in frames]),
            points,
            colours,
            float(piece.compute_mean_reprojection_error()),
            float(piece.compute_mean_track_length()),
            seen,
            str(camera.model_name),
            tuple(float(value) for value in camera.params),
            others,
        )

    def register(self, built: Map, frame: int, keyframes: Sequence[int]) -> Float[np.ndarray, "4 4"] | None:
        """Pose of a further picture from the map's points that it shares with keyframes; None if these are too few."""
        lib = self._lib
        pixels, points = self._shared(built, frame, keyframes)
        if len(pixels) < self._config.min_inliers:
            return None
        size = self._size()
        camera = lib.Camera(model=built.camera_model, width=size[0], height=size[1], params=list(built.camera_params))
        estimation = lib.AbsolutePoseEstimationOptions()
        estimation.ransac.max_error = self._config.max_error_px
        estimation.ransac.random_seed = self._config.seed
        found = lib.estimate_and_refine_absolute_pose(pixels, points, camera, estimation)
        if found is None or found["num_inliers"] < max(self._config.min_inliers, _MIN_RATIO * len(pixels)):
            return None
        return _world_from_camera(found["cam_from_world"])

    def _size(self) -> tuple[int, int]:
        with self._lib.Database.open(self._database) as database:
            (camera,) = database.read_all_cameras()
        return int(camera.width), int(camera.height)

    def _shared(
        self, built: Map, frame: int, keyframes: Sequence[int]
    ) -> tuple[Float[np.ndarray, "S 2"], Float[np.ndarray, "S 3"]]:
        """Pixels of a picture with the map's points there: each feature once, each point once."""
        pairs: dict[int, int] = {}
        with self._lib.Database.open(self._database) as database:
            own = np.asarray(database.read_keypoints(self._ids[frame]), dtype=np.float64)[:, :2]
            for key in keyframes:
                if key in built.seen:
                    matches = _inliers(database, self._ids[frame], self._ids[key])
                    rows = built.seen[key][matches[:, 1]]
                    pairs.update(zip(matches[rows >= 0, 0].tolist(), rows[rows >= 0].tolist(), strict=True))
        once = {row: feature for feature, row in sorted(pairs.items(), reverse=True)}
        features, rows = list(once.values()), list(once)
        return own[features].reshape(-1, 2), built.points[rows].reshape(-1, 3)


def _size_of(piece: Any) -> tuple[int, int]:
    """Pictures, then points."""
    return int(piece.num_reg_images()), int(piece.num_points3D())


def _inliers(database: Any, first: int, second: int) -> Int64[np.ndarray, "M 2"]:
    """Matches that one rigid motion explains, columns in the order asked for."""
    found = np.asarray(database.read_two_view_geometry(first, second).inlier_matches, dtype=np.int64)
    return found.reshape(-1, 2)


def _world_from_camera(camera_from_world: Any) -> Float[np.ndarray, "4 4"]:
    """Inverse of COLMAP's pose."""
    out = np.eye(4)
    out[:3] = camera_from_world.inverse().matrix()
    return out
