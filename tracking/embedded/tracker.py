"""The default tracker: no weights, from flow, colour, depth and pose."""

import numpy as np
from jaxtyping import Bool

from geo.recording import CanonicalRecording
from tracking.base import Prompt, SceneDepthLike
from tracking.embedded.config import EmbeddedConfig
from tracking.embedded.frames import FrameStore
from tracking.embedded.seed import segment_seed
from tracking.embedded.session import EmbeddedSession
from tracking.errors import TrackingError


class EmbeddedTracker:
    """See ``tracking.base.Tracker``. One per recording: its sessions share decoded frames."""

    name = "embedded"

    def __init__(
        self, canonical: CanonicalRecording, scene_depth: SceneDepthLike | None, config: EmbeddedConfig | None = None
    ) -> None:
        self._config = config or EmbeddedConfig()
        self._store = FrameStore(canonical, scene_depth, self._config.cache_mib << 20, self._config.flow_width_px)
        self._up = np.array([0.0, 0.0, 1.0]) if canonical.world.has_up else None

    @property
    def store(self) -> FrameStore:
        """The frames, for judges that look at them too."""
        return self._store

    def start(self, prompt: Prompt, taken: Bool[np.ndarray, "H W"] | None = None) -> EmbeddedSession:
        """See ``tracking.base.Tracker``.

        Raises:
            TrackingError: if the prompt has nothing positive in it or lies outside the picture.
        """
        if prompt.mask is None and prompt.box_xyxy_px is None and not prompt.positive.any():
            raise TrackingError(f"prompt on frame {prompt.frame} has no positive point, box or mask; give one")
        config = self._config
        seed = segment_seed(
            self._store, prompt, self._up, config.max_crop_side_px, config.max_object_m, taken, config.seed_views
        )
        if seed is None:
            raise TrackingError(f"prompt on frame {prompt.frame} lies outside the {self._store.image_wh} px picture")
        return EmbeddedSession(self._store, self._config, prompt, seed, self._up)
