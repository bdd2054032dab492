"""Metrics of an environment's own: reward terms, success, whatever it declares in EnvSpec.metrics and reports in
Step.info."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flashsac.errors import BadSimulation, FlashSACError
from flashsac.runs.metrics_file import ENV_PREFIX
from flashsac.types import EnvSpec, Step

SUCCESS = "success"
"""This metric is judged by the episode: success at any time counts, as in evaluation."""


class EnvMetrics:
    """Averages since the last row of metrics.csv. Sums stay on the simulator's device until a row is written.

    NaN, Inf and steps without a value are left out. A metric without any value has no entry in the row.
    """

    def __init__(self, spec: EnvSpec):
        self.names = _checked(spec.metrics)
        self.columns = [ENV_PREFIX + name for name in self.names]
        self._device = spec.device
        self._sums, self._counts = (torch.zeros(len(self.names), dtype=torch.float64, device=spec.device) for _ in "sc")
        self._succeeded = torch.zeros(spec.num_envs, dtype=torch.bool, device=spec.device)
        self._unseen = set(self.names)

    def observe(self, step: Step) -> None:
        """Add the values of one step. Nothing waits for the device."""
        for index, name in enumerate(self.names):
            value = step.info.get(name)
            if value is not None:
                self._unseen.discard(name)
                self._add(index, name, self._numbers(name, value), step)

    def _numbers(self, name: str, value: Any) -> Tensor:
        """One for each environment, (envs,), or one for all, ()."""
        try:
            numbers = torch.as_tensor(value, device=self._device).to(torch.float64)
        except (TypeError, ValueError, RuntimeError):
            numbers = torch.zeros(0)
        numbers = numbers.reshape(()) if numbers.numel() == 1 and len(self._succeeded) != 1 else numbers
        if numbers.shape not in ((), self._succeeded.shape):
            raise BadSimulation(
                f"the metric '{name}' in the environment's info must be a number for each of its {len(self._succeeded)} environments, "
                f"or one for all, not {value!r:.60}. Correct what the environment reports."
            )
        return numbers

    def _add(self, index: int, name: str, value: Tensor, step: Step) -> None:
        counted = torch.isfinite(value)
        value = torch.where(counted, value, 0.0)
        if name == SUCCESS and value.ndim:
            self._succeeded |= value > 0
            ended = step.terminated | step.truncated
            value, counted = (self._succeeded & ended).to(torch.float64), ended
            self._succeeded = self._succeeded & ~(ended | ~step.valid)
        self._sums[index] += value.sum()
        self._counts[index] += counted.sum()

    def take(self) -> dict[str, float]:
        """The averages, by column. The next ones begin anew."""
        if not self.names:
            return {}
        sums, counts = self._sums.tolist(), self._counts.tolist()
        self._sums, self._counts = torch.zeros_like(self._sums), torch.zeros_like(self._counts)
        return {column: s / n for column, s, n in zip(self.columns, sums, counts, strict=True) if n}

    def unreported(self) -> list[str]:
        """Metrics that were declared, but that no step has reported."""
        return [name for name in self.names if name in self._unseen]

    def restart(self) -> None:
        """All episodes begin anew."""
        self._succeeded = torch.zeros_like(self._succeeded)

    def state_dict(self) -> dict[str, Any]:
        return {"names": list(self.names), "sums": self._sums, "counts": self._counts, "succeeded": self._succeeded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the averages of the metrics that are still declared."""
        for index, name in enumerate(self.names):
            if name in state["names"]:
                before = state["names"].index(name)
                self._sums[index], self._counts[index] = state["sums"][before], state["counts"][before]
        self._succeeded = state["succeeded"].to(self._device)


def _checked(names: tuple[str, ...]) -> tuple[str, ...]:
    wrong = [name for name in names if not isinstance(name, str) or not name.strip() or set(name) & set(',"\r\n')]
    if wrong or len(set(names)) < len(names):
        raise FlashSACError(
            f"the environment declares the metrics {list(names)}, but a name must be text without commas, quotes and line breaks, and "
            "may come only once. Rename them."
        )
    return tuple(names)
