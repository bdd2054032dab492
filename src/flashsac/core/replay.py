"""The replay ring: every observation once, n-step windows that respect episodes, true discounts.

Time runs along the first axis, environments along the second: slot t holds the observation of step t and, once the step
is done, its action, reward and outcome. The observation a step led to is simply the one in slot t + 1, except where an
episode ended: those final observations have a small ring of their own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from flashsac.core.compiler import Compiler
from flashsac.errors import BadSimulation
from flashsac.types import Batch, EnvSpec, Obs, Step

TERMINATED, TRUNCATED, INVALID = 1, 2, 4

Allocator = Callable[[str, tuple[int, ...], torch.dtype], Tensor]
"""(name, shape, dtype) -> storage; decides between memory, disk and accelerator."""


def layout(
    spec: EnvSpec, capacity: int, n_step: int, obs_dtype: torch.dtype
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of everything that is stored."""
    envs = spec.num_envs
    slots = max(capacity // envs, n_step) + 1
    # Room for an episode end every ten steps on average. With shorter episodes the ring holds fewer transitions.
    finals = max(slots * envs // 10, 4 * envs, 64)
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    for group, width in spec.obs.items():
        shapes[f"obs.{group}"] = ((slots, envs, width), obs_dtype)
        shapes[f"final.{group}"] = ((finals, width), obs_dtype)
    shapes["action"] = ((slots, envs, spec.action_dim), torch.float32)
    shapes["reward"] = ((slots, envs), torch.float32)
    shapes["flags"] = ((slots, envs), torch.uint8)
    shapes["final_index"] = ((slots, envs), torch.int32)
    shapes["finals_before"] = ((slots,), torch.int32)
    return shapes


def layout_bytes(shapes: dict[str, tuple[tuple[int, ...], torch.dtype]]) -> int:
    """What a layout takes."""
    return sum(torch.Size(shape).numel() * dtype.itemsize for shape, dtype in shapes.values())


class Windows:
    """Reads n-step windows out of the rings. Holds tensors and constants only, and thus can be compiled."""

    def __init__(self, rings: dict[str, Tensor], groups: list[str], discount: float, n_step: int):
        self.obs = {group: rings[f"obs.{group}"] for group in groups}
        self.final_obs = {group: rings[f"final.{group}"] for group in groups}
        self.action, self.reward = rings["action"], rings["reward"]
        self.flags, self.final_index = rings["flags"], rings["final_index"]
        self.slots = len(self.reward)
        self.discount, self.n_step = discount, n_step

    def gather(self, step: Tensor, env: Tensor) -> Batch:
        """The windows that start at `step` of `env`."""
        alive = torch.ones_like(step, dtype=torch.bool)
        length = torch.zeros_like(step)
        returns = torch.zeros(step.shape, device=step.device)
        discount = torch.ones_like(returns)
        for offset in range(self.n_step):
            at = (step + offset) % self.slots
            flags = self.flags[at, env]
            # An invalid step ends the window just before it: its own observation is good, its outcome is not.
            use = alive & (flags & INVALID == 0)
            returns += torch.where(use, discount * self.reward[at, env], 0.0)
            discount = torch.where(use, discount * self.discount, discount)
            length += use
            alive = use & (flags == 0)
        last = (step + length - 1) % self.slots
        flags = self.flags[last, env]
        ended, terminated = flags & (TERMINATED | TRUNCATED) != 0, flags & TERMINATED != 0
        start, following = step % self.slots, (last + 1) % self.slots
        final = self.final_index[last, env].long()
        obs, next_obs = {}, {}
        for group, ring in self.obs.items():
            obs[group] = ring[start, env].float()
            next_obs[group] = torch.where(ended[:, None], self.final_obs[group][final], ring[following, env]).float()
        return Batch(obs, self.action[start, env], returns, discount * ~terminated, next_obs)


class Replay:
    """Uniform replay. `capacity` counts transitions over all environments."""

    def __init__(
        self,
        spec: EnvSpec,
        capacity: int,
        *,
        discount: float,
        n_step: int = 1,
        obs_dtype: torch.dtype = torch.float32,
        allocate: Allocator | None = None,
    ):
        allocate = allocate or (lambda _name, shape, dtype: torch.zeros(shape, dtype=dtype, device=spec.device))
        shapes = layout(spec, capacity, n_step, obs_dtype)
        shape, dtype = shapes.pop("finals_before")
        self._finals_before = torch.zeros(shape, dtype=dtype)
        """`finals` when a slot was filled: tells which slots lost theirs. Read one by one, hence never on the accelerator."""
        stored = {name: allocate(name, shape, dtype) for name, (shape, dtype) in shapes.items()}
        windows = Windows(stored, list(spec.obs), discount, n_step)
        self._gather: Callable[[Tensor, Tensor], Batch] = windows.gather
        self.obs, self.final_obs = windows.obs, windows.final_obs
        self.action, self.reward = windows.action, windows.reward
        self.flags, self.final_index = windows.flags, windows.final_index
        self.n_step = n_step
        self.slots, self.num_envs = self.reward.shape
        self.num_finals = next(iter(self.final_obs.values())).shape[0]
        self.head = 0
        """Steps added so far: slot head % slots holds the newest observation, and no action yet."""
        self.tail = 0
        """The oldest step whose data are all still here."""
        self.finals = 0
        """Final observations stored so far."""
        self.invalid = 0
        """Transitions dropped so far because their outcome is unknown: NaN, Inf, or no final observation."""

    def __len__(self) -> int:
        return (self.head - self.tail) * self.num_envs

    @property
    def ready(self) -> bool:
        """True once at least one window is complete."""
        return self.head - self.tail >= self.n_step

    def add(self, obs: Obs, action: Tensor, step: Step) -> None:
        """Store one step of every environment."""
        slot, following = self.head % self.slots, (self.head + 1) % self.slots
        valid = step.valid
        self._finals_before[slot] = self.finals
        self.action[slot] = action
        self.reward[slot] = torch.where(valid, step.reward, 0.0)
        self.flags[slot] = step.terminated * TERMINATED + step.truncated * TRUNCATED + (~valid) * INVALID
        for group, ring in self.obs.items():
            ring[slot] = _storable(obs[group], ring)
            ring[following] = _storable(step.obs[group], ring)
        ended = ((step.terminated | step.truncated) & valid).nonzero()[:, 0]
        self._store_finals(slot, ended, {group: step.final_obs[group][ended] for group in self.obs})
        self.invalid += int((~valid).sum())
        self.head += 1
        self._forget()

    def cut(self, obs: Obs) -> None:
        """Episodes were restarted behind our back (a resumed simulator): end the newest steps as truncated, start from `obs`."""
        following = self.head % self.slots
        if self.head > self.tail:
            last = (self.head - 1) % self.slots
            open_ended = (self.flags[last] == 0).nonzero()[:, 0]
            self.flags[last, open_ended] = TRUNCATED
            self._store_finals(
                last, open_ended, {group: ring[following, open_ended] for group, ring in self.obs.items()}
            )
            self._forget()
        for group, ring in self.obs.items():
            ring[following] = _storable(obs[group], ring)

    def _store_finals(self, slot: int, envs: Tensor, rows: Obs) -> None:
        where = self.final_index.device
        index = torch.arange(self.finals, self.finals + len(envs), device=where) % self.num_finals
        self.final_index[slot, envs.to(where)] = index.to(torch.int32)
        for group, ring in self.final_obs.items():
            ring[index] = _storable(rows[group], ring).to(ring)
        self.finals += len(envs)

    def _forget(self) -> None:
        """Move the tail past slots that were overwritten, or whose final observations were."""
        self.tail = max(self.tail, self.head - (self.slots - 1))
        while self.tail < self.head and self._finals_before[self.tail % self.slots] < self.finals - self.num_finals:
            self.tail += 1

    def sample(self, size: int, generator: torch.Generator, device: torch.device | None = None) -> Batch:
        """Uniform over all windows that are complete."""
        step, env = self._draw(size, generator)
        tries = 0
        while self.invalid and bool((bad := self.flags[step % self.slots, env] & INVALID != 0).any()):
            step[bad], env[bad] = self._draw(int(bad.sum()), generator)
            tries += 1
            if tries > 1000:
                raise BadSimulation(
                    "almost all transitions held NaN or Inf, so there is nothing to learn from. Check the simulator."
                )
        return self.gather(step, env, device)

    def _draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        where = self.reward.device
        windows = self.head - self.tail - self.n_step + 1
        flat = torch.randint(windows * self.num_envs, (size,), generator=generator).to(where)
        return self.tail + flat // self.num_envs, flat % self.num_envs

    def gather(self, step: Tensor, env: Tensor, device: torch.device | None = None) -> Batch:
        """The windows that start at `step` (counted from the beginning of time) of `env`."""
        batch = self._gather(step, env)
        return batch if device is None or device == step.device else _to(batch, device)

    def compile(self, compiler: Compiler) -> None:
        """Gathering is dozens of small operations, and done before every update."""
        self._gather = compiler(self._gather)

    # What a checkpoint needs: counters, the newest observation, and, piecewise, the steps since the last one.

    def state_dict(self) -> dict:
        newest = {group: ring[self.head % self.slots] for group, ring in self.obs.items()}
        names = ("head", "tail", "finals", "invalid")
        return {name: getattr(self, name) for name in names} | {"newest": newest}

    def load_state_dict(self, state: dict) -> None:
        for name in ("head", "tail", "finals", "invalid"):
            setattr(self, name, state[name])
        for group, ring in self.obs.items():
            ring[self.head % self.slots] = state["newest"][group]

    def export_steps(self, first: int, stop: int) -> dict[str, Tensor]:
        """Steps [first, stop) and their final observations, as plain tensors."""
        at = torch.arange(first, stop) % self.slots
        before = self._finals_before[at]
        end = self.finals if stop == self.head else int(self._finals_before[stop % self.slots])
        start = int(before[0]) if len(before) else end
        final_at = torch.arange(max(start, self.finals - self.num_finals), end)
        parts = {"action": self.action, "reward": self.reward, "flags": self.flags, "final_index": self.final_index}
        parts |= {f"obs.{group}": ring for group, ring in self.obs.items()}
        out = {name: ring[at.to(ring.device)].cpu() for name, ring in parts.items()}
        out |= {
            f"final.{group}": ring[(final_at % self.num_finals).to(ring.device)].cpu()
            for group, ring in self.final_obs.items()
        }
        return out | {"finals_before": before, "final_at": final_at}

    def import_steps(self, first: int, data: dict[str, Tensor]) -> None:
        """The inverse of `export_steps`; call for consecutive pieces, oldest first."""
        at = torch.arange(first, first + len(data["finals_before"])) % self.slots
        final_at = data["final_at"] % self.num_finals
        self._finals_before[at] = data["finals_before"]
        parts = {"action": self.action, "reward": self.reward, "flags": self.flags, "final_index": self.final_index}
        parts |= {f"obs.{group}": ring for group, ring in self.obs.items()}
        for name, ring in parts.items():
            ring[at.to(ring.device)] = data[name].to(ring.device)
        for group, ring in self.final_obs.items():
            ring[final_at.to(ring.device)] = data[f"final.{group}"].to(ring.device)


def _storable(rows: Tensor, ring: Tensor) -> Tensor:
    """float16 ends at 65504: beyond it a finite observation would be stored as Inf."""
    return rows.clamp(-65504, 65504) if ring.dtype == torch.float16 else rows


def _to(batch: Batch, device: torch.device) -> Batch:
    def move(obs: Obs) -> Obs:
        return {group: rows.to(device, non_blocking=True) for group, rows in obs.items()}

    action, reward, discount = (x.to(device, non_blocking=True) for x in (batch.action, batch.reward, batch.discount))
    return Batch(move(batch.obs), action, reward, discount, move(batch.next_obs))
