"""Adam in torch whose rows step only when they are seen, each row with its own count of steps.

Its state is made of per-row tensors, so that gsplat's strategies, which copy and drop rows of it, can handle it.
Import this module where it is used only: it imports torch.
"""

from typing import Any

import torch

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-15  # Kingma & Ba (2015), alg. 1; epsilon as in 3DGS


class VisibleAdam(torch.optim.Optimizer):  # type: ignore[misc]
    """One parameter [N, ...]. Same arithmetic as the CPU's fit."""

    def __init__(self, parameter: Any) -> None:
        """No moments yet."""
        super().__init__([parameter], {})

    @torch.no_grad()
    def step(self, visible: Any, rate: Any) -> None:  # type: ignore[override]
        """Move the rows of the mask ``visible`` [N] by Adam's step times ``rate`` (a number, or what broadcasts)."""
        (parameter,) = self.param_groups[0]["params"]
        if parameter.grad is None:
            return
        state = self.state[parameter]
        if not state:
            state["first"], state["second"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            state["taken"] = torch.zeros(len(parameter), device=parameter.device)
        rows = visible.reshape(-1, *[1] * (parameter.dim() - 1))
        gradient = torch.nan_to_num(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0)
        state["taken"] += visible
        for name, beta, value in (("first", BETA1, gradient), ("second", BETA2, gradient**2)):
            state[name].copy_(torch.where(rows, beta * state[name] + (1 - beta) * value, state[name]))
        taken = state["taken"].double().clamp(min=1)
        correction = ((1 - BETA2**taken).sqrt() / (1 - BETA1**taken)).float().reshape(rows.shape)
        change = rate * correction * state["first"] / (state["second"].sqrt() + EPSILON)
        parameter.sub_(torch.where(rows, change, torch.zeros_like(change)))
        parameter.grad = None
