"""The fit's state on a GPU: parameters, moments and views stay on the device between steps.

``recon.fit`` runs it as it runs the CPU's state, with the same settings: keyframes, schedule, terms, exposure, poses,
pruning and early stop are the same code. What differs: gsplat draws, gsplat's strategies densify, and gsplat adds
gradients in any order, so that two runs agree closely but not to the byte. Import this module where it is used only:
it imports torch.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32

from recon.backend import splat_camera
from recon.config import ReconstructConfig
from recon.fit import typical_depth, used_degree
from recon.model import SH_C0, sigmoid
from recon.per_view import Exposures, PoseCorrections
from recon.prune import free_space_votes
from recon.records import SplatModel
from recon.renderer import Background, Renderer
from recon.sensor import SensorNoise
from recon.tensor_draw import Drawn, Engine, draw, plane_depth_torch, twist_gradient
from recon.torch_losses import Target, regulariser_torch, target_of, view_loss_torch
from recon.views import View
from recon.visible_adam import VisibleAdam

_AVERAGE = "average_"


class DeviceState:
    """Parameters under the names that gsplat's strategies know; see ``recon.fit.FitState``."""

    def __init__(
        self,
        engine: Engine,
        model: SplatModel,
        gains: Float32[np.ndarray, "V 3"],
        views: Sequence[View],
        config: ReconstructConfig,
        background: Background,
        everywhere: bool,
    ) -> None:
        """Copy the model to the engine's device."""
        self.engine, self.config, self.background, self.everywhere = engine, config, background, everywhere
        count, held = model.sh_coeffs.shape[:2]
        sh = np.zeros((count, max((config.sh_degree + 1) ** 2, held), 3), dtype=np.float32)
        sh[:, :held] = model.sh_coeffs
        arrays = {
            "means": model.means_in_world, "scales": model.log_scales, "quats": model.quats_wxyz,
            "opacities": model.opacity_logits, "sh": sh,
        }  # fmt: skip
        self.params: dict[str, Any] = {
            name: torch.nn.Parameter(torch.tensor(array, device=engine.device)) for name, array in arrays.items()
        }
        self.optimizers = {name: VisibleAdam(parameter) for name, parameter in self.params.items()}
        initial = torch.tensor(model.log_scales.max(axis=1), device=engine.device)
        self.params["initial_scales"] = torch.nn.Parameter(initial, requires_grad=False)  # strategies copy it along
        for name in arrays:  # means over the last steps; strategies copy and drop their rows along
            average = self.params[name].detach().clone()
            self.params[_AVERAGE + name] = torch.nn.Parameter(average, requires_grad=False)
        self.averaged = 0
        self.exposures = Exposures(gains)
        self.poses = PoseCorrections(len(gains), typical_depth(model, views))
        self._targets: dict[int, tuple[View, Target]] = {}
        self._growth = self._make_growth()
        self._last_info: dict[str, Any] = {}

    def step(self, view: View, index: int, progress: float, noise: SensorNoise, renderer: Renderer) -> float:
        """One view: draw, compare, go back, move. Without a splat left there is no loss (NaN)."""
        config, p = self.config, self.params
        if not len(p["means"]):
            return float("nan")
        camera = splat_camera(view.camera, self.poses.world_from_camera(index, view.world_from_camera))
        degree = used_degree(config, progress)
        moving = config.learning_rate_pose_rad > 0
        drawn = draw(
            self.engine, p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), p["sh"], camera,
            self.background, sh_degree=math.isqrt(p["sh"].shape[1]) - 1 if degree is None else degree,
            pose_gradient=moving,
        )  # fmt: skip
        gain, offset = (
            torch.tensor(value, dtype=torch.float32, device=self.engine.device, requires_grad=True)
            for value in self.exposures.of(index)
        )
        target = self._target(view, noise)
        depth_sum = drawn.depth_sum
        if bool(target.seen.any()) and camera.kb4 is None:
            scales, opacities = p["scales"].exp(), p["opacities"].sigmoid()
            along = plane_depth_torch(self.engine, p["means"], p["quats"], scales, opacities, camera)
            depth_sum = depth_sum + (along - depth_sum.detach())
        loss = view_loss_torch(drawn.rgb, drawn.alpha, depth_sum, target, gain, offset, config, self.everywhere)
        pulls = regulariser_torch(p["scales"], p["opacities"], p["initial_scales"], drawn.visible, config)
        if self._growth is not None:
            self._growth.before_backward(drawn.info)
        (loss + pulls).backward()
        decay = config.final_rate_share**progress
        self._move(drawn.visible, decay)
        told = torch.cat([gain.grad, offset.grad, loss.detach().reshape(1)]).cpu().numpy().astype(np.float64)
        self.exposures.step(index, told[:3], told[3:6], config.learning_rate_exposure * decay, config.exposure_pull)
        if moving:
            self._move_pose(index, drawn, decay)
        self._last_info = drawn.info
        if self._growth is not None:
            self._growth.after_step(drawn.info, config.jitter_share * decay)
        return float(told[6])

    def take_average(self) -> None:
        """See ``recon.fit._State.take_average``."""
        self.averaged += 1
        with torch.no_grad():
            for name in self.optimizers:
                average = self.params[_AVERAGE + name]
                average += (self.params[name] - average) / self.averaged

    def densify(self, progress: float) -> int:
        """One round of growth; returns how many splats joined."""
        return 0 if self._growth is None else int(self._growth.refine(self._last_info))

    def model(self) -> SplatModel:
        """A copy of the present model, its colours those of a typical view's exposure."""
        gain, offset = self.exposures.mean()
        arrays = self._arrays()
        if self.averaged:
            arrays = {name: arrays[_AVERAGE + name] for name in self.optimizers}
        sh = (arrays["sh"] * gain).astype(np.float32)
        sh[:, 0] += ((0.5 * gain + offset - 0.5) / SH_C0).astype(np.float32)
        return SplatModel(arrays["means"], arrays["scales"], arrays["quats"], arrays["opacities"], sh)

    def keep(self, views: Sequence[View], noise: SensorNoise) -> Bool[np.ndarray, "N"]:
        """Gaussians that are no floaters: opaque enough, not oversized, seen, and not in free space."""
        config, arrays = self.config, self._arrays()
        good = sigmoid(arrays["opacities"]) >= config.prune_opacity
        largest = arrays["scales"].max(axis=1, initial=-np.inf)
        good &= largest <= arrays["initial_scales"] + np.log(config.prune_scale_factor)
        for array in arrays.values():
            good &= np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
        return np.asarray(good & ~free_space_votes(arrays["means"], views, noise).seen_through(config))

    def drop(self, rows: Bool[np.ndarray, "N"]) -> int:
        """Remove rows; returns how many."""
        mask = torch.from_numpy(np.ascontiguousarray(rows)).to(self.engine.device)
        if self._growth is not None:
            self._growth.drop(mask)
        else:
            from gsplat.strategy.ops import remove

            remove(params=self.params, optimizers=self.optimizers, state={}, mask=mask)
        return int(rows.sum())

    def _make_growth(self) -> Any:
        if self.config.densify == "none":
            return None
        from recon.gsplat_growth import Growth

        return Growth(self.params, self.optimizers, self.config)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: parameter.detach().cpu().numpy().copy() for name, parameter in self.params.items()}

    def _target(self, view: View, noise: SensorNoise) -> Target:
        """The view on the device; copied the first time. The view is held, so that its id stays its own."""
        if id(view) not in self._targets:
            self._targets[id(view)] = view, target_of(view, noise, self.engine.device)
        return self._targets[id(view)][1]

    def _move(self, visible: Any, decay: float) -> None:
        """Adam for what was seen, with the CPU fit's steps."""
        config, p = self.config, self.params
        terms = torch.full((p["sh"].shape[1], 1), config.learning_rate_sh, device=self.engine.device)
        terms[0] = config.learning_rate_colour / SH_C0
        rates = {
            "means": config.learning_rate_means * p["initial_scales"].exp()[:, None],
            "scales": config.learning_rate_scales,
            "quats": config.learning_rate_quats,
            "opacities": config.learning_rate_opacity,
            "sh": terms,
        }
        for name, optimizer in self.optimizers.items():
            optimizer.step(visible, decay * rates[name])

    def _move_pose(self, index: int, drawn: Drawn, decay: float) -> None:
        pose = drawn.camera_from_world
        gradient, here = (t.detach().cpu().numpy().astype(np.float64) for t in (pose.grad, pose))
        rate = self.config.learning_rate_pose_rad * decay
        self.poses.step(index, np.nan_to_num(twist_gradient(gradient, here)), rate, self.config.pose_pull)
