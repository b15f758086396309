"""gsplat's strategies under this project's settings: densification under a budget.

"adaptive" is ``gsplat.DefaultStrategy`` (clone, split, drop), "mcmc" ``gsplat.MCMCStrategy`` (move, add, jitter). The
rounds come when the fit says so; the strategies' own calendars are switched off. Import this module where it is used
only: it imports torch and gsplat.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from gsplat import DefaultStrategy, MCMCStrategy
from gsplat.strategy.ops import remove

from recon.config import ReconstructConfig

_NEVER = 10**9
_WATCH, _REFINE = 0, 1  # "step" numbers for the strategies: only take note; and make a round


class Growth:
    """One strategy at work on a set of parameters."""

    def __init__(self, params: dict[str, Any], optimizers: dict[str, Any], config: ReconstructConfig) -> None:
        """``params`` and ``optimizers`` are changed in place. Sizes are judged by the splats' initial ones."""
        self.params, self.optimizers, self.config = params, optimizers, config
        self._size_m = float(params["initial_scales"].exp().median())
        self._round = 0
        calendar = {"refine_start_iter": _WATCH, "refine_stop_iter": _REFINE + 1, "refine_every": 1}
        if config.densify == "mcmc":
            # gsplat jitters by covariance * lr * noise_lr: made a share of the size that splats have
            self.strategy: Any = MCMCStrategy(min_opacity=config.dead_opacity, noise_lr=1 / self._size_m, **calendar)
            self.state = self.strategy.initialize_state()
        else:
            self.strategy = DefaultStrategy(
                prune_opa=config.dead_opacity, grow_grad2d=config.densify_pull, grow_scale3d=1.0, reset_every=_NEVER,
                **calendar,
            )  # fmt: skip
            self.state = self.strategy.initialize_state(scene_scale=self._size_m)
        self.strategy.check_sanity(params, optimizers)

    def before_backward(self, info: dict[str, Any]) -> None:
        """Keep what the strategy wants to see of this step."""
        if self.config.densify != "mcmc":
            self.strategy.step_pre_backward(self.params, self.optimizers, self.state, _WATCH, info)

    def after_step(self, info: dict[str, Any], jitter_share: float) -> None:
        """Take note of a step; in "mcmc", faint splats jitter by that share of their size."""
        self._call(_WATCH, info, jitter_share)

    def refine(self, info: dict[str, Any]) -> int:
        """One round within the budget; ``info`` is the last step's. Returns how many splats there are more."""
        count, before = len(self.params["means"]), self.params["scales"].detach().clone()
        room = max(0, min(self.config.max_gaussians - count, round(self.config.densify_growth * count)))
        if self.config.densify == "mcmc":
            self.strategy.cap_max = count + room  # gsplat itself adds at most 5 % a round
        else:
            self.strategy.grow_grad2d = self._threshold(room)
            info = {**info, "radii": torch.zeros_like(info["radii"])}  # the last step has been noted already
        self._call(_REFINE, info, 0.0)
        self._start_afresh(before)
        self._trim()
        return len(self.params["means"]) - count

    def drop(self, rows: Any) -> None:
        """Remove the rows of a mask, with their moments and what the strategy knows of them."""
        per_row = {} if self.config.densify == "mcmc" else self.state
        remove(params=self.params, optimizers=self.optimizers, state=per_row, mask=rows)

    def _call(self, step: int, info: dict[str, Any], jitter_share: float) -> None:
        self._round += 1
        with _seeded(self.params["means"].device, self.config.seed * 1_000_003 + self._round):
            arguments = (self.params, self.optimizers, self.state, step, info)
            if self.config.densify == "mcmc":
                self.strategy.step_post_backward(*arguments, lr=jitter_share)
            else:
                self.strategy.step_post_backward(*arguments, packed=False)

    @torch.no_grad()
    def _start_afresh(self, scales_before: Any) -> None:
        """New and changed splats: no moments, and the size that they have now is their initial one."""
        scales = self.params["scales"]
        taken = self.optimizers["scales"].state.get(scales, {}).get("taken")
        if self.config.densify == "mcmc":  # in place and at the end: the others are where they were
            fresh = torch.ones(len(scales), dtype=torch.bool, device=scales.device)
            fresh[: len(scales_before)] = (scales[: len(scales_before)] != scales_before).any(dim=1)
        elif taken is not None:  # in another order, but gsplat clears the moments of what is new
            fresh = taken == 0
        else:
            return
        self.params["initial_scales"][fresh] = scales[fresh].amax(dim=1)
        for name, optimizer in self.optimizers.items():
            for moment in optimizer.state.get(self.params[name], {}).values():
                moment[fresh] = 0

    def _threshold(self, room: int) -> float:
        """The pull above which a splat grows, raised until at most ``room`` do."""
        if room == 0:
            return float("inf")
        pull = self.state["grad2d"] / self.state["count"].clamp(min=1)
        if room >= len(pull):
            return self.config.densify_pull
        return max(self.config.densify_pull, float(torch.topk(pull, room + 1).values[-1]))

    def _trim(self) -> None:
        """The budget holds to the last splat: what is over goes, faintest first."""
        over = len(self.params["means"]) - self.config.max_gaussians
        if over > 0:
            faint = torch.topk(self.params["opacities"].detach(), over, largest=False).indices
            mask = torch.zeros(len(self.params["means"]), dtype=torch.bool, device=faint.device)
            mask[faint] = True
            self.drop(mask)


@contextmanager
def _seeded(device: Any, seed: int) -> Iterator[None]:
    """Gsplat draws from torch's global generators: seeded within, and given back as they were."""
    devices = [torch.cuda.current_device()] if torch.device(device).type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
