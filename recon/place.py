"""Where the first splats come from: the depth sensor, else measured points, else the pictures themselves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from geo.recording import CanonicalRecording
from recon.backend import Renderer
from recon.config import ReconstructConfig
from recon.guess import guess_unseen
from recon.init import Initial, initialise
from recon.model import empty_model
from recon.points import points_noise, splats_from_points
from recon.sensor import SensorNoise, has_sensor
from recon.survey import Progress
from recon.sweep import sweep_noise, sweep_views
from recon.views import View

FEWEST_SPLATS = 30
"""Points or sweeps that give fewer splats than this are no start for a fit."""


@dataclass(frozen=True)
class Placed:
    """The first model with what is known of its depth. An empty one comes with the reason why as its note."""

    initial: Initial
    noise: SensorNoise
    notes: tuple[str, ...] = ()


def place(
    canonical: CanonicalRecording,
    views: Sequence[View],
    config: ReconstructConfig,
    renderer: Renderer,
    views_at: Callable[[int], list[View]],
    progress: Progress | None = None,
) -> Placed:
    """Splats from the first of sensor depth, measured points and a plane sweep that is there.

    Without a sensor, what the pictures show and nothing places is filled with guesses. ``views_at(width_px)`` loads
    the same views at another width.
    """
    if has_sensor(canonical):
        initial = initialise(views, config)
        none = "no sensor depth falls on static pixels of the keyframes, so no splat could be placed"
        return Placed(initial, SensorNoise(), () if len(initial.model.means_in_world) else (none,))
    started, placed = _from_points(canonical, views, config), list(views)
    if started is None:
        placed = sweep_views(views_at(config.sweep_width_px), progress)
        started = _from_sweep(placed, config)
    if not len(started.initial.model.means_in_world):
        return started
    guessed = guess_unseen(started.initial, views, placed, config, started.noise, renderer)
    note = f"{guessed.count} splats start at the depth of what is beside them, where nothing else placed any"
    return replace(started, initial=guessed.initial, notes=(*started.notes, note))


def _from_points(canonical: CanonicalRecording, views: Sequence[View], config: ReconstructConfig) -> Placed | None:
    """None without points or with too few that the views look at."""
    points = canonical.points
    if points is None:
        return None
    initial = splats_from_points(points, views, config)
    count = len(initial.model.means_in_world)
    if count < FEWEST_SPLATS:
        return None
    note = f"no sensor depth: {count} splats are placed at the recording's measured points; only hands are masked"
    return Placed(initial, points_noise(points, views), (note,))


def _from_sweep(placed: Sequence[View], config: ReconstructConfig) -> Placed:
    noise = sweep_noise(placed)
    initial = initialise(placed, config, noise)
    count = len(initial.model.means_in_world)
    if count < FEWEST_SPLATS:
        reason = "the keyframes' pictures agree on no depth (too few, from one place, or without texture)"
        return Placed(Initial(empty_model(), initial.gains), noise, (reason,))
    found = float(np.mean([np.isfinite(view.z_depth_m).mean() for view in placed]))
    note = (
        f"no sensor depth: {count} splats are placed by a plane sweep that found depth for {found:.0%} of the pixels; "
        "only hands are masked"
    )
    return Placed(initial, noise, (note,))
