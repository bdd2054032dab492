"""CrossQ, TQC and SAC by sbx: Stable-Baselines3's interface over networks in JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import sbx
from flax.training.train_state import TrainState

from flashsac.experiments.baselines.source import Source
from flashsac.experiments.baselines.stable_baselines import OffPolicy


class JaxOffPolicy(OffPolicy):
    """The same with networks in JAX, which are saved and restored array by array."""

    library = sbx

    def __init__(self, source: Source, kind: str, hyperparameters: dict[str, Any], seed: int, device: str = "cpu"):
        super().__init__(source, kind, hyperparameters, seed, "cpu")  # JAX's device is not torch's

    def _networks(self) -> dict[str, Any]:
        return {name: [np.asarray(leaf) for leaf in jax.tree.leaves(state)] for name, _, state in self._states()}

    def _load_networks(self, saved: dict[str, Any]) -> None:
        for name, owner, state in self._states():
            leaves, tree = jax.tree.flatten(state)
            restored = [jax.numpy.asarray(new) for _, new in zip(leaves, saved[name], strict=True)]
            if [np.shape(leaf) for leaf in leaves] != [leaf.shape for leaf in restored]:
                raise ValueError(f"{name} has other shapes")
            setattr(owner, name, jax.tree.unflatten(tree, restored))

    def _states(self) -> list[tuple[str, Any, TrainState]]:
        """Parameters, optimizer and statistics of each network: its name, its owner, and the state itself."""
        owners = (self.model.policy, self.model)
        found = [(name, owner, value) for owner in owners for name, value in vars(owner).items()]
        return [one for one in found if isinstance(one[2], TrainState)]


LEARNER = JaxOffPolicy
