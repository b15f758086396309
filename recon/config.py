"""Settings of the reconstruct stage. Defaults are sized for two CPU cores and some 200 frames."""

from dataclasses import dataclass

from recon.errors import ReconError


@dataclass(frozen=True)
class ReconstructConfig:
    """What the reconstruct stage does. Lengths in metres, sizes in pixels; every number acts the same each run."""

    width_px: int = 256
    """Width of the training views; the height follows the canonical camera."""
    coarse_fraction: float = 0.3
    """Share of the iterations at half that width, first."""
    iterations: int = 1500
    """Optimiser steps in all (one view each). Time is bounded by this, never by a clock. 0 = initialisation only."""
    max_gaussians: int = 60_000
    """Upper bound of the model's size; initialisation picks its resolution so that it fits."""
    seed: int = 0
    """Seed of the order in which views are visited."""

    max_keyframes: int = 96
    """Upper bound of the frames that are looked at for the fit, held-out ones included."""
    keyframe_step_m: float = 0.04
    """A camera translation that counts as a new view..."""
    keyframe_step_deg: float = 3.0
    """...and a rotation that does."""
    held_out_every: int = 8
    """Every n-th keyframe is kept out of initialisation and fit and only measured. 0 = none."""

    sensor_tolerance_ms: float = 60.0
    """A depth image belongs to a frame if its time is within this."""
    min_sensor_z_m: float = 0.15
    """Sensor depth nearer than this is not used."""
    max_sensor_z_m: float = 8.0
    """Sensor depth farther than this is not used."""

    pose_sigma_m: float = 0.004
    """How far given camera positions may be off on each axis; views are aligned within that. 0 = exact."""
    pose_sigma_deg: float = 0.2
    """How far given camera rotations may be off on each axis. 0 = exact."""

    from_pictures: bool = False
    """Without sensor depth: place splats by a plane sweep over the pictures. Only where nothing but the wearer's hands
    moves, for without a sensor nothing else that moves is masked."""
    sweep_width_px: int = 135
    """Width of the pictures that the sweep compares."""

    dynamic_width_px: int = 80
    """Width of the masks of what may move."""
    dynamic_references: int = 28
    """Frames spread over the recording that each frame is compared with."""
    dynamic_min_violations: int = 3
    """A point is suspect if at least this many frames see through it..."""
    dynamic_violation_share: float = 0.34
    """...and these are at least this share of the frames that can tell."""
    dynamic_margin_px: int = 2
    """Masks are widened by this many mask pixels."""
    dynamic_trail_frames: int = 5
    """Pixels without sensor depth are masked where masked points of this many frames before and after fall."""
    hand_radius_m: float = 0.06
    """Half thickness that is masked around hand joints and forearm."""
    arm_length_m: float = 0.7
    """How far the arm is masked beyond the wrist, towards the likely elbow and on."""

    learning_rate_means: float = 2.0e-2
    """Step of the centres, as a share of each Gaussian's own initial size."""
    learning_rate_scales: float = 1.0e-2
    """Step of log scales."""
    learning_rate_quats: float = 2.0e-3
    """Step of quaternions."""
    learning_rate_opacity: float = 3.0e-2
    """Step of opacity logits."""
    learning_rate_colour: float = 1.0e-2
    """Step of colour coefficients."""
    learning_rate_sh: float = 4.0e-3
    """Step of the coefficients of colour that depends on the direction."""
    learning_rate_exposure: float = 2.0e-3
    """Step of the per-frame affine exposure."""
    exposure_pull: float = 0.0
    """Weight of the squared distance of a frame's exposure from none."""
    learning_rate_pose_rad: float = 0.0
    """Step of the pose corrections of the fit's views, in radians (and as a share of the usual depth for shifts);
    0 = poses are taken as given."""
    pose_pull: float = 1.0e-2
    """Weight of the squared size of a pose correction."""

    sh_degree: int = 1
    """Degree of the spherical harmonics of colour, 0 (the same from every side) to 3."""
    sh_step_share: float = 0.15
    """Share of the iterations after which the next degree joins in."""

    densify: str = "none"
    """Splats join in during the fit: "none", "adaptive" (clone and split what is pulled hard) or "mcmc" (faded ones
    move to where opaque ones are, more join them)."""
    densify_every: int = 100
    """Iterations between two rounds."""
    densify_from: float = 0.1
    """Share of the iterations before the first round..."""
    densify_until: float = 0.6
    """...and before the last one."""
    densify_growth: float = 0.1
    """A round adds at most this share of the splats, up to ``max_gaussians``."""
    densify_pull: float = 1.0e-4
    """Adaptive: mean gradient by a centre (the picture being 2 wide) above which a splat is copied."""
    dead_opacity: float = 0.01
    """MCMC: splats fainter than this move."""
    jitter_share: float = 0.3
    """MCMC: random steps of faint splats, as a share of their size."""
    final_rate_share: float = 0.1
    """Learning rates fall exponentially to this share of their start."""

    colour_weight: float = 1.0
    """Weight of the colour L1 term."""
    ssim_weight: float = 0.2
    """Weight of (1 - SSIM)/2 of the colours, as in the 3DGS paper. 0 = off (a little faster)."""
    depth_weight: float = 15.0
    """Weight of the relative depth term (Huber)."""
    depth_huber: float = 0.02
    """Relative depth error at which the Huber term turns from quadratic to linear."""
    alpha_weight: float = 0.2
    """Weight of the term that asks for opacity 1 where the sensor sees a surface."""
    unseen_alpha: float = 0.9
    """Colours pull where the sensor does not see only if the model is at least this opaque there: else they make
    splats creep into what no sensor measured."""
    picture_alpha_weight: float = 0.02
    """Without a sensor: weight of the term that asks for opacity 1 wherever there is a picture."""
    opacity_weight: float = 2.0e-3
    """Weight of the mean opacity: what no view needs fades and is pruned."""
    scale_weight: float = 5.0e-2
    """Weight of the excess of log scale over the initial one plus ``scale_slack``."""
    scale_slack: float = 0.5
    """Natural-log growth of a scale that costs nothing."""
    flatness_weight: float = 5.0e-3
    """Weight of the log ratio between the thinnest axis and the middle one, above ``max_flatness``."""
    max_flatness: float = 0.3
    """Thickness / middle axis that costs nothing."""

    prune_at: tuple[float, ...] = (0.35, 0.7, 1.0)
    """Shares of the iterations after which floaters are pruned."""
    prune_opacity: float = 0.05
    """Gaussians fainter than this are pruned."""
    prune_scale_factor: float = 6.0
    """Gaussians larger than this multiple of their initial size are pruned."""
    prune_violations: int = 3
    """Gaussians in front of the sensor's surface in at least this many views go..."""
    prune_violation_ratio: float = 0.75
    """...if these are more than this multiple of the views that support them."""
    witnesses: int = 200
    """Other frames than keyframes, spread over the recording, whose small depth tells free space too."""
    average_from: float = 0.6
    """The model is the mean over the steps after this share of the iterations. 1 = the last step's."""
    patience: int = 3
    """Early stop: held-out checks without gain before the best model so far is kept. 0 = never stop early."""
    check_every: int = 150
    """Iterations between held-out checks."""

    model: str = ""
    """Path of a 3DGS PLY that another trainer made: taken as the static scene, drawn and measured, never fitted. It has
    to be told in the world of the recording's own files, or in one that ``model_transform`` takes there."""
    model_transform: tuple[float, ...] = ()
    """12 or 16 numbers, row by row: a similarity from the model's coordinates to those of the recording's own files."""

    device: str = "auto"
    """"auto" takes gsplat where CUDA and gsplat are there, else the CPU; "cpu" or "cuda" insist."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        for name in ("width_px", "max_gaussians", "max_keyframes", "dynamic_width_px", "sweep_width_px", "check_every"):
            if getattr(self, name) < 1:
                raise ReconError(f"reconstruct.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("iterations", "held_out_every", "patience", "dynamic_margin_px"):
            if getattr(self, name) < 0:
                raise ReconError(f"reconstruct.{name} is {getattr(self, name)}; it must not be negative")
        if self.held_out_every == 1:
            raise ReconError("reconstruct.held_out_every is 1: every frame would be held out; use 0 for none, or >= 2")
        if not 0 < self.min_sensor_z_m < self.max_sensor_z_m:
            raise ReconError(
                f"reconstruct.min_sensor_z_m {self.min_sensor_z_m} and max_sensor_z_m {self.max_sensor_z_m} "
                "must be positive and in this order"
            )
        if self.densify not in ("none", "adaptive", "mcmc"):
            raise ReconError(f"reconstruct.densify is {self.densify!r}; use none, adaptive or mcmc")
        if self.sh_degree not in (0, 1, 2, 3):
            raise ReconError(f"reconstruct.sh_degree is {self.sh_degree}; use 0 to 3")
        if self.densify_every < 1:
            raise ReconError(f"reconstruct.densify_every is {self.densify_every}; it must be at least 1")
        if len(self.model_transform) not in (0, 12, 16):
            raise ReconError(
                f"reconstruct.model_transform has {len(self.model_transform)} numbers; expected 12 or 16, row by row"
            )
        if self.model_transform and not self.model:
            raise ReconError("reconstruct.model_transform moves reconstruct.model, and none is given")
        if self.device not in ("auto", "cpu", "cuda"):
            raise ReconError(f"reconstruct.device is {self.device!r}; use auto, cpu or cuda")


PRESETS: dict[str, ReconstructConfig] = {
    "draft": ReconstructConfig(width_px=192, iterations=300, max_gaussians=30_000, max_keyframes=48, sh_degree=0),
    "standard": ReconstructConfig(),
    "fine": ReconstructConfig(width_px=384, iterations=3000, max_gaussians=150_000, max_keyframes=160, sh_degree=3),
}
