"""What the embedded tracker carries of one object from frame to frame."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, Float32

from tracking.embedded.field import ColourModel, colour_bins, colour_model, signed_distance
from tracking.embedded.frames import Crop, FrameStore
from tracking.embedded.model import ObjectModel
from tracking.embedded.plane import Plane
from tracking.embedded.seed import Seed, crop_points_in_world
from tracking.embedded.surroundings import Surroundings

_WHOLE_VIEWS = 8
_WHOLE_RAD = 1.0


@dataclass
class Memory:
    """What is carried from frame to frame."""

    frame: int
    crop: Crop
    logits: Float32[np.ndarray, "h w"]
    visible: bool
    colours: ColourModel
    gain: float
    area_px: float
    model: ObjectModel | None = None
    world_from_object: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))
    plane: Plane | None = None
    plane_seen_from_m: float = float("inf")
    flat: bool = False
    moving: bool = False
    lost: bool = False
    still_frames: int = 0
    seen_frames: int = 0
    gone_frames: int = 0  # in a row that contradict a rest
    ever_moved: bool = False
    whole: bool = False  # the model was seen from many sides before: its bounds hardly grow
    in_hand: Float[np.ndarray, "4 4"] | None = None  # where it would be if a touching hand carried it
    hand_frame: int = -1  # frame of the hand that "in_hand" goes with
    hand: int = -1  # number of that hand
    grip: tuple[int, int, Float[np.ndarray, "4 4"]] | None = None  # frame, hand, place: when last surely in the hand
    touches: list[tuple[int, int, Float[np.ndarray, "4 4"]]] = field(default_factory=list)  # frame, hand, place at rest
    last_step_in_world: Float[np.ndarray, "4 4"] = field(default_factory=lambda: np.eye(4))
    rest_places: list[Float[np.ndarray, "4 4"]] = field(default_factory=list)

    def copy(self) -> "Memory":
        """An independent copy for another direction."""
        return replace(
            self,
            model=None if self.model is None else self.model.copy(),
            rest_places=list(self.rest_places),
            touches=list(self.touches),
        )


def memory_of(store: FrameStore, frame: int, seed: Seed) -> Memory:
    """What is known after the seed; without a surface model where depth or pose is missing."""
    crop, mask = seed.crop, seed.mask
    colours = colour_model(colour_bins(crop.features[mask])) if mask.any() else colour_model(colour_bins(crop.features))
    memory = Memory(frame, crop, seed.logits, bool(mask.any()), colours, 0.0, mask.sum() / crop.roi.scale**2)
    pose = store.pose(frame)
    if pose is None or not mask.any():
        return memory
    if seed.surroundings is not None:
        return _with_fused_model(memory, seed, seed.surroundings, pose)
    points = crop_points_in_world(crop, pose)
    inside = mask & np.isfinite(crop.z_m)
    if inside.sum() < max(8, 0.15 * mask.sum()):
        return memory
    core = inside & (signed_distance(mask) > (1.0 if mask.sum() > 150 else 0.0))
    core = core if core.sum() >= 8 else inside
    cloud = points[core].astype(np.float64)
    center = np.median(cloud, axis=0)
    near = np.linalg.norm(cloud - center, axis=-1) < 3.5 * np.median(np.linalg.norm(cloud - center, axis=-1)) + 0.01
    z_m = float(np.median(crop.z_m[core]))
    grain = 1.6 * z_m / crop.camera.fx_px
    voxel = float(np.clip(max(grain, np.ptp(cloud[near], axis=0).max() / 40), 0.002, 0.02))
    memory.model = ObjectModel(voxel)
    memory.world_from_object = np.eye(4)
    memory.world_from_object[:3, 3] = center
    memory.model.fuse((cloud[near] - center).astype(np.float32), crop.features[core][near])
    memory.model.hits[:] = 3.0
    look = pose[:3, 3] - center
    memory.model.add_view(look / np.linalg.norm(look))
    memory.plane, memory.flat, memory.plane_seen_from_m = seed.plane, seed.flat, z_m
    memory.rest_places = [memory.world_from_object.copy()]
    return memory


def _with_fused_model(memory: Memory, seed: Seed, around: Surroundings, pose: np.ndarray) -> Memory:
    """The model from all frames that were fused: more sides, less noise than the seed frame alone."""
    cloud, features = around.points_in_world[around.is_object], around.features[around.is_object]
    center = np.median(cloud, axis=0).astype(np.float64)
    z_m = float((pose[:3, :3].T @ (center - pose[:3, 3]))[2])
    grain = 1.6 * z_m / seed.crop.camera.fx_px
    voxel = float(np.clip(max(grain, around.voxel_m, np.ptp(cloud, axis=0).max() / 40), 0.002, 0.02))
    memory.model = ObjectModel(voxel)
    memory.world_from_object[:3, 3] = center
    memory.model.fuse((cloud - center).astype(np.float32), features)
    memory.model.hits[:] = 3.0
    for camera in (pose[:3, 3], *around.seen_from_in_world):
        look = camera - center
        memory.model.add_view(look / np.linalg.norm(look))
    looks = np.stack([look / np.linalg.norm(look) for look in around.seen_from_in_world - center])
    memory.whole = bool(len(looks) >= _WHOLE_VIEWS and (looks @ looks.T).min() < np.cos(_WHOLE_RAD))
    memory.plane, memory.flat, memory.plane_seen_from_m = seed.plane, seed.flat, z_m
    memory.rest_places = [memory.world_from_object.copy()]
    return memory
