"""The replay ring: every observation once, n-step windows that respect episodes, true discounts.

Time runs along the first axis, environments along the second: slot t holds the observation of step t and, once the step
is done, its action, reward and outcome. The observation a step led to is simply the one in slot t + 1, except where an
episode ended: those final observations have a small ring of their own. Of a stack of images only the newest is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from flashsac.core.rings import FrameRing, HistoryRing, Ring, VectorRing
from flashsac.errors import BadSimulation
from flashsac.types import Batch, Compiler, EnvSpec, Obs, Step

TERMINATED, TRUNCATED, INVALID = 1, 2, 4

Allocator = Callable[[str, tuple[int, ...], torch.dtype], Tensor]
"""(name, shape, dtype) -> storage; decides between memory, disk and accelerator."""


def layout(
    spec: EnvSpec, capacity: int, n_step: int, obs_dtype: torch.dtype
) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shapes and types of everything that is stored."""
    envs = spec.num_envs
    slots = max(capacity // envs, n_step) + 1 + history(spec)
    # Room for an episode end every so many steps on average. With shorter episodes the ring holds fewer transitions.
    finals = max(slots * envs // (40 if spec.pixels else 10), 4 * envs, 16 if spec.pixels else 64)
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    for group, width in spec.obs.items():
        shapes[f"obs.{group}"] = ((slots, envs, width), obs_dtype)
        shapes[f"final.{group}"] = ((finals, width), obs_dtype)
    if spec.pixels:
        shapes["pixels"] = ((slots * envs + finals, *spec.pixels.frame), torch.uint8)
    shapes["action"] = ((slots, envs, spec.action_dim), torch.float32)
    shapes["reward"] = ((slots, envs), torch.float32)
    shapes["flags"] = ((slots, envs), torch.uint8)
    shapes["final_index"] = ((slots, envs), torch.int32)
    shapes["finals_before"] = ((slots,), torch.int32)
    return shapes


def history(spec: EnvSpec) -> int:
    """How many steps before its own an observation reaches back."""
    return max(spec.pixels.stack - 1 if spec.pixels else 0, spec.history)


def layout_bytes(shapes: dict[str, tuple[tuple[int, ...], torch.dtype]]) -> int:
    """What a layout takes."""
    return sum(torch.Size(shape).numel() * dtype.itemsize for shape, dtype in shapes.values())


class Windows:
    """Reads n-step windows out of the rings. Holds tensors and constants only, and thus can be compiled."""

    def __init__(self, stored: dict[str, Tensor], spec: EnvSpec, discount: float, n_step: int):
        self.action, self.reward = stored["action"], stored["reward"]
        self.flags, self.final_index = stored["flags"], stored["final_index"]
        self.rings: dict[str, Ring] = {
            group: VectorRing(stored[f"obs.{group}"], stored[f"final.{group}"]) for group in spec.obs
        }
        if spec.pixels:
            self.rings["pixels"] = FrameRing(stored["pixels"], self.flags, spec.pixels)
        if spec.history:
            self.rings["history"] = HistoryRing(stored["obs.actor"], self.flags, spec.history)
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
        last = step + length - 1
        flags, final = (x[last % self.slots, env] for x in (self.flags, self.final_index))
        ended, terminated = flags & (TERMINATED | TRUNCATED) != 0, flags & TERMINATED != 0
        return Batch(
            obs={group: ring.at(step, env) for group, ring in self.rings.items()},
            action=self.action[step % self.slots, env],
            reward=returns,
            discount=discount * ~terminated,
            next_obs={group: ring.after(last, env, ended, final.long()) for group, ring in self.rings.items()},
        )


class Replay:
    """Uniform replay. `capacity` counts transitions over all environments."""

    METRICS: ClassVar[dict[str, str]] = {
        "invalid": "transitions dropped so far because their outcome is unknown: NaN, Inf, or no final observation",
    }

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
        windows = Windows(stored, spec, discount, n_step)
        self._find: Callable[[Tensor, Tensor], Batch] = windows.gather
        self.rings = windows.rings
        if spec.pixels:
            running = windows.flags.numel()
            stored["obs.pixels"] = stored["pixels"][:running].view(*windows.flags.shape, *spec.pixels.frame)
            stored["final.pixels"] = stored["pixels"][running:]
        kept = [group for group in self.rings if group != "history"]
        self.obs, self.final_obs = ({group: stored[f"{kind}.{group}"] for group in kept} for kind in ("obs", "final"))
        self.action, self.reward = windows.action, windows.reward
        self.flags, self.final_index = windows.flags, windows.final_index
        self.n_step, self.lookback = n_step, history(spec)
        self.slots, self.num_envs = self.reward.shape
        self.num_finals = next(iter(self.final_obs.values())).shape[0]
        self.head = 0
        """Steps added so far: slot head % slots holds the newest observation, and no action yet."""
        self.tail = 0
        """The oldest step that can be sampled: all its data are still here."""
        self.finals = 0
        """Final observations stored so far."""
        self.invalid = 0
        """Transitions dropped so far because their outcome is unknown: NaN, Inf, or no final observation."""
        self.lost = 0
        """Steps before this one were lost, and not because newer ones took their place; 0 if none ever were."""

    def __len__(self) -> int:
        return max(0, self.head - self.tail) * self.num_envs

    @property
    def ready(self) -> bool:
        """True once at least one window is complete."""
        return self.head - self.tail >= self.n_step

    @property
    def oldest(self) -> int:
        """The oldest step that sampling looks at: part of the history or the stack of images at the tail."""
        return max(0, self.tail - self.lookback)

    def add(self, obs: Obs, action: Tensor, step: Step) -> None:
        """Store one step of every environment."""
        slot, following = self.head % self.slots, (self.head + 1) % self.slots
        valid = step.valid
        self._finals_before[slot] = self.finals
        self.action[slot] = action
        self.reward[slot] = torch.where(valid, step.reward, 0.0)
        self.flags[slot] = step.terminated * TERMINATED + step.truncated * TRUNCATED + (~valid) * INVALID
        for group, ring in self.obs.items():
            ring[slot] = self.rings[group].keep(obs[group])
            ring[following] = self.rings[group].keep(step.obs[group])
        ended = ((step.terminated | step.truncated) & valid).nonzero()[:, 0]
        kept = {group: self.rings[group].keep(step.final_obs[group][ended]) for group in self.obs}
        self._store_finals(slot, ended, kept)
        self.invalid += int((~valid).sum())
        self.head += 1
        self._forget()

    def truncate_episodes(self, obs: Obs) -> None:
        """Episodes were restarted behind our back (a resumed simulator): end the newest steps as truncated, start from `obs`."""
        following = self.head % self.slots
        if self.head:
            last = (self.head - 1) % self.slots
            open_ended = (self.flags[last] == 0).nonzero()[:, 0]
            self.flags[last, open_ended] = TRUNCATED
            self._store_finals(
                last, open_ended, {group: ring[following, open_ended] for group, ring in self.obs.items()}
            )
            self._forget()
        for group, ring in self.obs.items():
            ring[following] = self.rings[group].keep(obs[group])

    def lose_before(self, step: int) -> None:
        """What came before is damaged."""
        self.tail = max(self.tail, step + self.lookback)
        self.lost = step

    def _store_finals(self, slot: int, envs: Tensor, rows: Obs) -> None:
        where = self.final_index.device
        index = torch.arange(self.finals, self.finals + len(envs), device=where) % self.num_finals
        self.final_index[slot, envs.to(where)] = index.to(torch.int32)
        for group, ring in self.final_obs.items():
            ring[index] = rows[group].to(ring)
        self.finals += len(envs)

    def _forget(self) -> None:
        """Move the tail past slots that were overwritten, or whose final observations were."""
        self.tail = max(self.tail, self.head - (self.slots - 1 - self.lookback))
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
        flat = to_device_async(torch.randint(windows * self.num_envs, (size,), generator=generator), where)
        return self.tail + flat // self.num_envs, flat % self.num_envs

    def gather(self, step: Tensor, env: Tensor, device: torch.device | None = None) -> Batch:
        """The windows that start at `step` (counted from the beginning of time) of `env`."""
        batch = self._find(step, env)
        obs, next_obs = (
            {group: self.rings[group].fetch(x) for group, x in some.items()} for some in (batch.obs, batch.next_obs)
        )
        batch = batch._replace(obs=obs, next_obs=next_obs)
        return batch if device is None or device == step.device else _to(batch, device)

    def compile(self, compiler: Compiler) -> None:
        """Finding a batch is dozens of small operations, and done before every update."""
        self._find = compiler(self._find)

    # What a checkpoint needs: counters, the newest observation, and, piecewise, the steps since the last one.

    def state_dict(self) -> dict:
        newest = {group: ring[self.head % self.slots] for group, ring in self.obs.items()}
        names = ("head", "tail", "finals", "invalid", "lost")
        return {name: getattr(self, name) for name in names} | {"newest": newest}

    def load_state_dict(self, state: dict) -> None:
        """After the steps were imported. The ring may be larger or smaller than the one that was saved."""
        for name in ("head", "tail", "finals", "invalid"):
            setattr(self, name, state[name])
        self.lost = state.get("lost", 0)  # not known to the first checkpoints of this format
        for group, ring in self.obs.items():
            ring[self.head % self.slots] = state["newest"][group]
        self._forget()

    def export_steps(self, first: int, stop: int) -> dict[str, Tensor]:
        """Steps [first, stop) and their final observations, as plain tensors; nothing in them depends on the size of the ring."""
        at = torch.arange(first, stop) % self.slots
        before = self._finals_before[at]
        end = self.finals if stop == self.head else int(self._finals_before[stop % self.slots])
        start = int(before[0]) if len(before) else end
        final_at = torch.arange(min(end, max(start, self.finals - self.num_finals)), end)
        out = {name: ring[at.to(ring.device)].cpu() for name, ring in self._rings_by_step().items()}
        # The number of a final observation since the beginning of time, of which the ring holds the remainder.
        number = before[:, None].long()
        out["final_index"] = (number + (out["final_index"] - number) % self.num_finals).to(torch.int32)
        out |= {
            f"final.{group}": ring[(final_at % self.num_finals).to(ring.device)].cpu()
            for group, ring in self.final_obs.items()
        }
        return out | {"finals_before": before, "final_at": final_at}

    def import_steps(self, first: int, data: dict[str, Tensor]) -> None:
        """The inverse of `export_steps`; call for consecutive pieces, oldest first. Of what does not fit, the oldest is left out."""
        count = len(data["finals_before"])
        at = torch.arange(first, first + count)[-self.slots :] % self.slots
        final_at = data["final_at"][-self.num_finals :] % self.num_finals
        self._finals_before[at] = data["finals_before"][-self.slots :]
        for name, ring in self._rings_by_step().items():
            rows = data[name] % self.num_finals if name == "final_index" else data[name]
            ring[at.to(ring.device)] = rows[-self.slots :].to(ring)
        for group, ring in self.final_obs.items():
            ring[final_at.to(ring.device)] = data[f"final.{group}"][-self.num_finals :].to(ring)

    def _rings_by_step(self) -> dict[str, Tensor]:
        parts = {"action": self.action, "reward": self.reward, "flags": self.flags, "final_index": self.final_index}
        return parts | {f"obs.{group}": ring for group, ring in self.obs.items()}


def to_device_async(x: Tensor, device: torch.device) -> Tensor:
    """To an accelerator without waiting for what it is doing: the driver copies unpinned memory before it returns, so `x` may go. Back
    to the CPU that would not do: what comes would be read before it is there."""
    return x.to(device, non_blocking=device.type != "cpu")


def _to(batch: Batch, device: torch.device) -> Batch:
    def move(obs: Obs) -> Obs:
        return {group: to_device_async(rows, device) for group, rows in obs.items()}

    action, reward, discount = (to_device_async(x, device) for x in (batch.action, batch.reward, batch.discount))
    return Batch(move(batch.obs), action, reward, discount, move(batch.next_obs))
