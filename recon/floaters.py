"""Floaters after the fit: what several views see through, what hangs alone, what no view sees. With a report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64, UInt8

from recon.backend import Background, Gaussians, Renderer, packed, splat_camera
from recon.config import ReconstructConfig
from recon.dynamic import tolerance_m
from recon.model import select
from recon.prune import FreeSpaceVotes, free_space_votes
from recon.quality_records import FloaterFigures, FloaterPictures, FloaterReason, FloaterReport
from recon.records import SplatModel
from recon.report import measure
from recon.score import held_out_score
from recon.sensor import SensorNoise
from recon.support import SplatSupport, splat_support, view_weights
from recon.views import View

_NEIGHBOURS = 12
_REACH = 2.0  # a splat reaches this many standard deviations along its largest axis
_SMALL_GROUP = 30  # splats; larger groups are things
_SMALL_SHARE = 0.002  # of all splats; of a small model hardly any group is small
_FEW_VIEWS = 2  # a lonely group needs this many views of its own to stay
_MIN_LOOKING = 3  # views that measured depth there, before missing confirmation tells anything
_CANDIDATES = 6
_WORSE = 1.005  # a held-out score this much higher is worse
_RED = np.array([255.0, 15.0, 15.0])


@dataclass(frozen=True)
class Cleaned:
    """The model without floaters, and the report. ``reasons`` are ``FloaterReason`` of the rows that came in."""

    model: SplatModel
    reasons: UInt8[np.ndarray, "N"]
    report: FloaterReport


def remove_floaters(
    model: SplatModel,
    views: Sequence[View],
    held_out: Sequence[View],
    config: ReconstructConfig,
    noise: SensorNoise,
    renderer: Renderer,
    background: Background = (0.0, 0.0, 0.0),
    *,
    voters: Sequence[View] = (),
    before_fit: int = 0,
    in_fit: int = 0,
) -> Cleaned:
    """Take floaters out of a fitted model.

    Depth votes are the sensor's. Without any sensor nothing measures empty space: then nothing is "seen through", and
    the report says so. What is isolated or unseen by the fit's views is judged by the views' own light. A reason whose
    removal makes the held-out frames worse is taken back; without held-out frames only the sensor's votes count.

    Args:
        model: As fitted.
        views: Those of the fit; their depth votes, and a splat needs light in them.
        held_out: Frames that only measure; may be empty.
        config: ``prune_violations`` is how many views must see through a splat.
        noise: Of the views' depth.
        renderer: Who draws.
        background: Colour where the model covers nothing.
        voters: Further views whose depth votes, see ``free_space_voters``.
        before_fit: Splats pruned before the fit, for the report.
        in_fit: Splats pruned while it ran, for the report.
    """
    voters = [*views, *voters]
    measured = any(np.isfinite(view.z_depth_m).any() for view in voters)
    support = splat_support(model, [view.halved() for view in views], renderer)
    votes = free_space_votes(model.means_in_world, voters, noise)
    reasons = find_floaters(model, votes, support, config, measured=measured)
    notes = [] if measured else ["no depth sensor: nothing measures empty space, so no splat is taken as seen through"]
    reasons, back = _taken_back(model, reasons, held_out, renderer, background, everywhere=not measured)
    if not held_out:
        notes.append("no held-out frames: only what the sensor sees through was removed")
    kept = reasons == FloaterReason.KEPT
    after = select(model, kept)
    judged = _Judge(held_out or views, config, noise, renderer, background)
    counts = {reason: int((reasons == reason).sum()) for reason in FloaterReason}
    report = FloaterReport(
        before_fit=before_fit,
        in_fit=in_fit,
        seen_through=counts[FloaterReason.SEEN_THROUGH],
        isolated=counts[FloaterReason.ISOLATED],
        unseen=counts[FloaterReason.UNSEEN],
        before=judged.figures(model, votes),
        after=judged.figures(after, votes.of(kept)),
        taken_back=back,
        notes=tuple(notes),
        pictures=_pictures(model, reasons, views, renderer, background),
    )
    return Cleaned(after, reasons, report)


def find_floaters(
    model: SplatModel, votes: FreeSpaceVotes, support: SplatSupport, config: ReconstructConfig, *, measured: bool
) -> UInt8[np.ndarray, "N"]:
    """``FloaterReason`` per splat.

    Seen through: ``config.prune_violations`` views or more measure a surface behind its centre, and these are more than
    ``config.prune_violation_ratio`` times those that measure one at it.
    Isolated: its group (see ``groups``) is small, fewer than two views give any of its splats light or, where at least
    three views measured depth there, fewer than two measured a surface at any of them. Unseen: no view gives it light.
    """
    reasons = np.zeros(len(model.means_in_world), dtype=np.uint8)
    reasons[support.views == 0] = FloaterReason.UNSEEN
    reasons[isolated(model, votes, support)] = FloaterReason.ISOLATED
    if measured:
        reasons[votes.seen_through(config)] = FloaterReason.SEEN_THROUGH
    return reasons


def groups(model: SplatModel) -> Int64[np.ndarray, "N"]:
    """Number of each splat's group: splats whose extents (two standard deviations of the largest axis) touch.

    Only the twelve nearest neighbours are asked. Groups are numbered by their first splat.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    count = len(model.means_in_world)
    if count < 2:
        return np.zeros(count, dtype=np.int64)
    near = min(_NEIGHBOURS + 1, count)
    centres = model.means_in_world.astype(np.float64)
    reach = _REACH * np.exp(model.log_scales.astype(np.float64)).max(axis=1)
    distance, other = cKDTree(centres).query(centres, k=near)
    touching = distance <= reach[:, None] + reach[other]
    rows = np.repeat(np.arange(count), near)[touching.ravel()]
    graph = coo_matrix((np.ones(len(rows), dtype=bool), (rows, other[touching])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def isolated(model: SplatModel, votes: FreeSpaceVotes, support: SplatSupport) -> Bool[np.ndarray, "N"]:
    """Splats of small groups that hardly any view confirms; see ``find_floaters``."""
    group = groups(model)
    if not len(group):
        return np.zeros(0, dtype=bool)
    count = int(group.max()) + 1
    size = np.bincount(group, minlength=count)
    small = size <= min(_SMALL_GROUP, _SMALL_SHARE * len(group))

    def best(values: Int64[np.ndarray, "N"]) -> Int64[np.ndarray, "G"]:
        out = np.zeros(count, dtype=np.int64)
        np.maximum.at(out, group, values)
        return out

    unconfirmed = (best(votes.supporting) < _FEW_VIEWS) & (best(votes.looking) >= _MIN_LOOKING)
    return np.asarray((small & (unconfirmed | (best(support.views) < _FEW_VIEWS)))[group])


def _taken_back(
    model: SplatModel,
    reasons: UInt8[np.ndarray, "N"],
    held_out: Sequence[View],
    renderer: Renderer,
    background: Background,
    everywhere: bool,
) -> tuple[UInt8[np.ndarray, "N"], tuple[str, ...]]:
    """Put splats back, reason by reason, whose absence makes held-out frames worse; without any, all but measured."""
    out, back = reasons.copy(), []
    if not held_out:
        out[(out != FloaterReason.SEEN_THROUGH)] = FloaterReason.KEPT
        return out, ()
    present = [reason for reason in FloaterReason if reason != FloaterReason.KEPT and (reasons == reason).any()]
    if not present:
        return out, ()

    def score(gone: Bool[np.ndarray, "N"]) -> float:
        return held_out_score(select(model, ~gone), held_out, renderer, background, everywhere)

    gone = np.zeros(len(reasons), dtype=bool)
    best = score(gone)
    for reason in present:
        here = score(gone | (reasons == reason))
        if here > best * _WORSE:
            out[reasons == reason] = FloaterReason.KEPT
            back.append(reason.name.lower())
        else:
            gone, best = gone | (reasons == reason), min(best, here)
    return out, tuple(back)


@dataclass(frozen=True)
class _Judge:
    """Measures models on the same views."""

    views: Sequence[View]
    config: ReconstructConfig
    noise: SensorNoise
    renderer: Renderer
    background: Background

    def figures(self, model: SplatModel, votes: FreeSpaceVotes) -> FloaterFigures:
        quality = measure(model, self.views, self.renderer, self.background)
        in_front = quality.residual_m < -tolerance_m(quality.residual_z_m, self.noise)
        return FloaterFigures(
            splats=len(model.means_in_world),
            psnr_db=quality.psnr_db,
            depth_abs_rel=quality.depth_abs_rel,
            in_front_share=float(in_front.mean()) if len(in_front) else float("nan"),
            coverage=quality.coverage,
            picture_coverage=quality.picture_coverage,
            seen_through=int(votes.seen_through(self.config).sum()),
        )


def _pictures(
    model: SplatModel,
    reasons: UInt8[np.ndarray, "N"],
    views: Sequence[View],
    renderer: Renderer,
    background: Background,
) -> FloaterPictures | None:
    """None if nothing was removed."""
    gone = reasons != FloaterReason.KEPT
    if not gone.any() or not views:
        return None
    view = _view_that_lost_most(model, gone, views, renderer)
    camera = splat_camera(view.camera, view.world_from_camera)

    def drawn(gaussians: Gaussians) -> UInt8[np.ndarray, "H W 3"]:
        rgb = renderer.forward(gaussians, camera, background).rgb
        return np.asarray((np.clip(rgb, 0, 1) * 255).round(), dtype=np.uint8)

    before = drawn(packed(model, view.world_from_camera))
    # alone, so that those behind others show too
    lost = renderer.forward(packed(select(model, gone), view.world_from_camera), camera, background)
    red = np.minimum(lost.alpha, 1.0)[:, :, None] * _RED
    grey = (before.mean(axis=2, keepdims=True) * (1 - np.minimum(lost.alpha, 1.0)[:, :, None]) + red).round()
    return FloaterPictures(
        view.frame,
        before,
        drawn(packed(select(model, ~gone), view.world_from_camera)),
        np.asarray(np.broadcast_to(grey, before.shape), dtype=np.uint8),
    )


def _view_that_lost_most(
    model: SplatModel, gone: Bool[np.ndarray, "N"], views: Sequence[View], renderer: Renderer
) -> View:
    """The view in which the removed splats hold most light, of those that most of them fall into."""
    falling = np.array([len(view.landing(model.means_in_world[gone]).rows) for view in views])
    candidates = np.argsort(-falling, kind="stable")[:_CANDIDATES]
    lights = [float(view_weights(model, views[index].halved(), renderer)[gone].sum()) for index in candidates]
    return views[int(candidates[int(np.argmax(lights))])]
