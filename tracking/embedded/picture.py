"""One step without depth or pose: flow carries the logits on, colour and smoothness correct them."""

import numpy as np
from jaxtyping import Float32

from tracking.embedded.config import EmbeddedConfig
from tracking.embedded.field import ColourModel, colour_bins, colour_logits, colour_model, signed_distance
from tracking.embedded.frames import Crop, FrameStore, Roi, colour_features, make_roi
from tracking.embedded.memory import Memory
from tracking.embedded.motion import follow
from tracking.embedded.refine import Evidence, refine
from tracking.embedded.seed import fill_holes
from tracking.records import MaskState

Step = tuple[MaskState, float, dict[str, float]]

_SAME_COLOURS = 0.6  # Bhattacharyya coefficient


class PictureStep:
    """Advances a memory by one frame from the pictures alone."""

    def __init__(self, store: FrameStore, config: EmbeddedConfig) -> None:
        self._store, self._config = store, config

    def advance(self, memory: Memory, frame: int) -> Step:
        """The step; changes the memory in place."""
        if not memory.visible or abs(frame - memory.frame) > 3:
            return self._find_again(memory, frame)
        mask = memory.logits > 0
        v, u = np.nonzero(mask)
        start = memory.crop.roi.from_roi(np.stack([u, v], -1).astype(float))
        end, closed = follow(self._store, memory.frame, frame, start)
        used = end[closed] if closed.sum() >= 8 else end
        roi = self._roi_around(used)
        width, height = self._store.image_wh
        inside = (end[:, 0] > -0.5) & (end[:, 1] > -0.5) & (end[:, 0] < width - 0.5) & (end[:, 1] < height - 0.5)
        if roi is None or inside.mean() < 0.05:
            memory.visible = False
            return MaskState.ABSENT, float("nan"), {"in_image": float(inside.mean())}
        crop = self._store.crop(frame, roi)
        carried = self._carried(memory, frame, roi)
        prior = (0.9 * carried).clip(-3.0, 2.5)
        distance = signed_distance(carried > 0)
        prior = np.minimum(prior, np.where(distance < -6, -3.0, 3.0)).astype(np.float32)
        evidence = Evidence(prior, np.zeros_like(prior), distance > 1.0, distance < -2.0)
        logits = fill_holes(refine(crop, evidence, memory.colours, 0.0, 0.8))
        return self._adopt(memory, crop, logits, {"followed_share": float(closed.mean())})

    def _roi_around(self, pixels: np.ndarray) -> Roi | None:
        low, high = np.percentile(pixels, [1, 99], axis=0)
        half = (high - low) / 2
        pad = 10 + 0.45 * float(half.max())
        center = (low + high) / 2
        return make_roi(
            (center[0], center[1]), (half[0] + pad, half[1] + pad), self._store.image_wh, self._config.max_crop_side_px
        )

    def _carried(self, memory: Memory, frame: int, roi: Roi) -> Float32[np.ndarray, "h w"]:
        """The previous logits under each pixel's origin by backward flow."""
        import cv2

        width, height = roi.size_wh
        grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2).astype(float)
        origin, _ = follow(self._store, frame, memory.frame, roi.from_roi(grid))
        there = memory.crop.roi.to_roi(origin).reshape(height, width, 2).astype(np.float32)
        return np.asarray(
            cv2.remap(memory.logits, there, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=-4.0)
        )

    def _adopt(self, memory: Memory, crop: Crop, logits: np.ndarray, evidence: dict[str, float]) -> Step:
        mask = logits > 0
        area = float(mask.sum()) / crop.roi.scale**2
        core = mask & (signed_distance(mask) > 1.0)
        likeness = 0.0
        if core.sum() >= 6:
            likeness = similarity(memory.colours, colour_model(colour_bins(crop.features[core])))
        evidence = {**evidence, "colour_likeness": likeness, "area_ratio": area / max(1.0, memory.area_px)}
        if area < self._config.min_visible_px:
            memory.visible = False
            return MaskState.ABSENT, float("nan"), evidence
        if core.sum() >= 6 and likeness < 0.25:
            memory.visible, memory.lost = False, True
            return MaskState.UNKNOWN, float("nan"), {**evidence, "lost": 1.0}
        if core.sum() >= 20:
            memory.colours = memory.colours.blended(colour_model(colour_bins(crop.features[core])), 0.06)
        memory.crop, memory.logits, memory.area_px = crop, logits, area
        memory.visible, memory.lost = True, False
        certainty = float(np.tanh(np.abs(logits[mask]) / 2).mean())
        return MaskState.VISIBLE, float(np.clip(0.5 * certainty + 0.5 * likeness, 0, 1)), evidence

    def _find_again(self, memory: Memory, frame: int) -> Step:
        """Look for the object's colours anywhere, at about its last size; one clear winner or nothing."""
        import cv2

        small = self._small(frame)
        bins = colour_bins(colour_features(small))
        likely = colour_logits(bins, memory.colours, colour_model(bins), floor=5e-4)
        scale = small.shape[1] / self._store.image_wh[0]
        size = float(np.sqrt(memory.area_px)) * scale
        smooth = cv2.blur(likely.astype(np.float32), (max(1, int(size / 3) | 1),) * 2)
        count, labels, stats, _middle = cv2.connectedComponentsWithStats(
            (smooth > 1.0).astype(np.uint8), connectivity=8
        )
        found: list[tuple[float, int]] = []
        for label in range(1, count):
            area = stats[label, cv2.CC_STAT_AREA] / scale**2
            if not 0.3 * memory.area_px < area < 3.0 * memory.area_px:
                continue
            alike = similarity(memory.colours, colour_model(bins[labels == label]))
            found.append((alike * float(np.tanh(smooth[labels == label].mean())), label))
        found.sort(reverse=True)
        clear = found and found[0][0] > _SAME_COLOURS and (len(found) == 1 or found[1][0] < 0.8 * found[0][0])
        memory.visible = False
        if not clear:
            state = MaskState.UNKNOWN if memory.lost else MaskState.ABSENT
            return state, float("nan"), {"candidates": float(len(found))}
        return self._segment_again(memory, frame, labels == found[0][1], scale, found[0][0])

    def _segment_again(self, memory: Memory, frame: int, part: np.ndarray, scale: float, alike: float) -> Step:
        import cv2

        v, u = np.nonzero(part)
        pixels = (np.stack([u, v], -1) + 0.5) / scale - 0.5
        roi = self._roi_around(pixels)
        if roi is None:
            return MaskState.ABSENT, float("nan"), {}
        full = cv2.resize(part.astype(np.float32), self._store.image_wh, interpolation=cv2.INTER_LINEAR)
        cut = cv2.resize(full[roi.y0 : roi.y1, roi.x0 : roi.x1], roi.size_wh, interpolation=cv2.INTER_AREA) > 0.5
        distance = signed_distance(cut)
        prior = (0.3 * distance).clip(-3, 1.5).astype(np.float32)
        evidence = Evidence(prior, np.zeros_like(prior), distance > 1, distance < -3)
        crop = self._store.crop(frame, roi)
        logits = fill_holes(refine(crop, evidence, memory.colours, 0.0, 1.0))
        return self._adopt(memory, crop, logits, {"found_again": alike})

    def _small(self, frame: int) -> np.ndarray:
        import cv2

        rgb = self._store.rgb(frame)
        scale = min(1.0, 256 / max(rgb.shape[:2]))
        size = max(16, round(rgb.shape[1] * scale)), max(16, round(rgb.shape[0] * scale))
        return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA))


def similarity(a: ColourModel, b: ColourModel) -> float:
    """Bhattacharyya coefficient of two colour models, 0..1."""
    return float(np.sqrt(a.density * b.density).sum())
