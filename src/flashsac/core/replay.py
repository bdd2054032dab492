"""The replay: every observation is stored once, and sampled as n-step windows.

Time runs along the first axis, environments along the second. Slot t holds the observation of step t and, once the step
is done, its action, reward and outcome. The next observation lies in slot t + 1, except where an episode ended: final
observations have a small ring of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from flashsac.core.n_step import INVALID, TERMINATED, TRUNCATED, Windows
from flashsac.core.rings import Allocator, Size, Storage
from flashsac.errors import BadSimulation
from flashsac.types import Batch, Compiler, EnvSpec, Obs, Step

Layout = dict[str, tuple[tuple[int, ...], torch.dtype]]


def layout(spec: EnvSpec, capacity: int, n_step: int, obs_dtype: torch.dtype) -> Layout:
    """Shape and type of everything that a replay stores, by name. Nothing is allocated."""
    size = _size(spec, capacity, n_step)
    shapes: Layout = {"finals_before": ((size.slots,), torch.int32)}

    def record(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        shapes[name] = (shape, dtype)
        return torch.empty(shape, dtype=dtype, device="meta")

    Storage(spec, size, obs_dtype, record)
    return shapes


def layout_bytes(shapes: Layout) -> int:
    """The memory that a layout takes."""
    return sum(torch.Size(shape).numel() * dtype.itemsize for shape, dtype in shapes.values())


def _size(spec: EnvSpec, capacity: int, n_step: int) -> Size:
    slots = max(capacity // spec.num_envs, n_step) + 1 + _lookback(spec)
    # Room for one episode end every 10 steps on average, or 40 with images. Shorter episodes leave fewer transitions.
    finals = max(slots * spec.num_envs // (40 if spec.pixels else 10), 4 * spec.num_envs, 16 if spec.pixels else 64)
    return Size(slots, spec.num_envs, finals)


def _lookback(spec: EnvSpec) -> int:
    """How many steps before its own an observation reaches back."""
    return max(spec.pixels.stack - 1 if spec.pixels else 0, spec.history)


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
        size = _size(spec, capacity, n_step)
        storage = Storage(spec, size, obs_dtype, allocate)
        self._gather: Callable[[Tensor, Tensor], Batch] = Windows(storage, discount, n_step).gather
        self._finals_before = torch.zeros(size.slots, dtype=torch.int32)
        """`finals` when a slot was filled; tells which slots lost theirs. On the CPU, because it is read one by one."""
        self.rings, self._stored = storage.rings, storage.stored
        self.obs = {group: ring.steps for group, ring in storage.stored.items()}
        self.final_obs = {group: ring.finals for group, ring in storage.stored.items()}
        self.action, self.reward = storage.action, storage.reward
        self.flags, self.final_index = storage.flags, storage.final_index
        self.n_step, self.lookback = n_step, _lookback(spec)
        self.slots, self.num_envs, self.num_finals = size
        self.head = 0
        """Steps added so far: slot head % slots holds the newest observation, and no action yet."""
        self.tail = 0
        """The oldest step that can be sampled: all its data are still here."""
        self.finals = 0
        """Final observations stored so far."""
        self.invalid = 0
        """Transitions dropped so far."""
        self.has_invalid = False
        """False as long as no step that could be sampled can be invalid."""
        self.lost = 0
        """Steps before this one were lost to damage, and not overwritten by newer ones; 0 if none ever were."""
        self.holes: list[tuple[int, int]] = []
        """Ranges of steps after the tail that were lost to damage: first, and one past the last; in order."""

    def __len__(self) -> int:
        holes = sum(stop - max(first, self.tail) for first, stop in self.holes if stop > self.tail)
        return max(0, self.head - self.tail - holes) * self.num_envs

    @property
    def collected(self) -> int:
        """Transitions collected so far, without those that were lost to damage."""
        return (self.head - self.lost - sum(stop - first for first, stop in self.holes)) * self.num_envs

    @property
    def ready(self) -> bool:
        """True once at least one window is complete."""
        return self._windows() > 0

    @property
    def oldest(self) -> int:
        """The oldest step that sampling reads, for the history or the stack of images at the tail."""
        return max(0, self.tail - self.lookback)

    def add(self, obs: Obs, action: Tensor, step: Step) -> None:
        """Store one step of every environment. action: (envs, action_dim)."""
        slot, next_slot = self.head % self.slots, (self.head + 1) % self.slots
        valid = step.valid
        self._finals_before[slot] = self.finals
        self.action[slot] = action
        self.reward[slot] = torch.where(valid, step.reward, 0.0)
        self.flags[slot] = step.terminated * TERMINATED + step.truncated * TRUNCATED + (~valid) * INVALID
        for group, ring in self._stored.items():
            ring.steps[slot] = ring.to_stored(obs[group])
            ring.steps[next_slot] = ring.to_stored(step.obs[group])
        ended = ((step.terminated | step.truncated) & valid).nonzero()[:, 0]  # indices of environments
        finals = {group: ring.to_stored(step.final_obs[group][ended]) for group, ring in self._stored.items()}
        self._store_finals(slot, ended, finals)
        self.invalid += int((~valid).sum())
        self.has_invalid = self.has_invalid or self.invalid > 0
        self.head += 1
        self._advance_tail()

    def truncate_episodes(self, obs: Obs) -> None:
        """End the newest steps as truncated and start from `obs`, because the simulator was reset (a resumed run)."""
        next_slot = self.head % self.slots
        if self.head:
            last = (self.head - 1) % self.slots
            open_envs = (self.flags[last] == 0).nonzero()[:, 0]
            self.flags[last, open_envs] = TRUNCATED
            finals = {group: rows[next_slot, open_envs] for group, rows in self.obs.items()}
            self._store_finals(last, open_envs, finals)
            self._advance_tail()
        for group, ring in self._stored.items():
            ring.steps[next_slot] = ring.to_stored(obs[group])

    def lose(self, first: int, stop: int) -> None:
        """Drop the steps [first, stop), which are damaged. Nothing that is sampled reads them any more."""
        if first > self.tail:
            self._open_hole(first, stop)
        else:  # nothing before them can be sampled
            self.tail, self.lost = max(self.tail, stop + self.lookback), max(self.lost, stop)

    def _open_hole(self, first: int, stop: int) -> None:
        touching = [hole for hole in self.holes if hole[0] <= stop and first <= hole[1]]
        first, stop = min([first, *(a for a, _ in touching)]), max([stop, *(b for _, b in touching)])
        at = torch.arange(max(first, self.oldest), stop) % self.slots
        # Windows that begin earlier end before the hole. The step before it does not know what it led to.
        self.flags[at.to(self.flags.device)] = INVALID
        if first > self.tail:
            before = self.flags[(first - 1) % self.slots]
            before.masked_fill_(before == 0, INVALID)
        self._finals_before[at] = int(self._finals_before[stop % self.slots]) if stop < self.head else self.finals
        self.holes = sorted([*(hole for hole in self.holes if hole not in touching), (first, stop)])

    def _barred(self) -> list[tuple[int, int]]:
        """Ranges of steps at which no window may begin, because of a hole; in order, none overlaps another."""
        ranges, end = [], self.head - self.n_step + 1
        past = self.tail
        for first, stop in self.holes:
            # After a hole, histories and stacks of images would reach back into it.
            first, stop = max(first - 1, past), min(stop + self.lookback, end)
            if first < stop:
                ranges.append((first, stop))
                past = stop
        return ranges

    def _windows(self) -> int:
        """The number of steps at which a window may begin."""
        barred = sum(stop - first for first, stop in self._barred()) if self.holes else 0
        return self.head - self.tail - self.n_step + 1 - barred

    def _store_finals(self, slot: int, envs: Tensor, finals: Obs) -> None:
        where = self.final_index.device
        index = torch.arange(self.finals, self.finals + len(envs), device=where) % self.num_finals
        self.final_index[slot, envs.to(where)] = index.to(torch.int32)
        for group, rows in self.final_obs.items():
            rows[index] = finals[group].to(rows)
        self.finals += len(envs)

    def _advance_tail(self) -> None:
        """Move the tail past slots that were overwritten, or whose final observations were."""
        self.tail = max(self.tail, self.head - (self.slots - 1 - self.lookback))
        while self.tail < self.head and self._finals_before[self.tail % self.slots] < self.finals - self.num_finals:
            self.tail += 1
        if self.holes:
            self.holes = [(first, stop) for first, stop in self.holes if stop + self.lookback > self.tail]

    def sample(self, size: int, generator: torch.Generator, device: torch.device | None = None) -> Batch:
        """`size` windows, uniform over all that are complete and begin with a valid step."""
        step, env = self._draw(size, generator)
        tries = 0
        while self.has_invalid and bool((bad := self.flags[step % self.slots, env] & INVALID != 0).any()):
            step[bad], env[bad] = self._draw(int(bad.sum()), generator)
            tries += 1
            if tries > 1000:
                raise BadSimulation(
                    "almost all transitions held NaN or Inf, so there is nothing to learn from. Check the simulator."
                )
        return self.gather(step, env, device)

    def _draw(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Steps and environments, both (size,)."""
        where = self.reward.device
        flat = to_device_async(torch.randint(self._windows() * self.num_envs, (size,), generator=generator), where)
        step = self.tail + flat // self.num_envs
        for first, stop in self._barred() if self.holes else ():
            step = torch.where(step >= first, step + (stop - first), step)
        return step, flat % self.num_envs

    def gather(self, step: Tensor, env: Tensor, device: torch.device | None = None) -> Batch:
        """The windows that start at `step` (counted from the start of the run) of `env`, both (batch,)."""
        batch = self._gather(step, env)
        obs, next_obs = (
            {group: self.rings[group].fetch(x) for group, x in found.items()} for found in (batch.obs, batch.next_obs)
        )
        batch = batch._replace(obs=obs, next_obs=next_obs)
        return batch if device is None or device == step.device else _to(batch, device)

    def compile(self, compiler: Compiler) -> None:
        """Compile the gathering: dozens of small operations before every update."""
        self._gather = compiler(self._gather)

    # A checkpoint saves counters, the newest observation and, piecewise, the steps since the last checkpoint.

    def state_dict(self) -> dict:
        newest = {group: rows[self.head % self.slots] for group, rows in self.obs.items()}
        names = ("head", "tail", "finals", "invalid", "lost")
        return {name: getattr(self, name) for name in names} | {"newest": newest, "holes": self.holes}

    def load_state_dict(self, state: dict) -> None:
        """Call it after the steps were imported. This ring may be larger or smaller than the saved one."""
        for name in ("head", "tail", "finals", "invalid"):
            setattr(self, name, state[name])
        self.has_invalid = self.invalid > 0 or bool((self.flags & INVALID).any())  # another rank may have counted them
        self.lost = state.get("lost", 0)  # not known to the first checkpoints of this format
        for group, rows in self.obs.items():
            rows[self.head % self.slots] = state["newest"][group]
        self._advance_tail()
        for first, stop in state.get("holes", []):
            if stop + self.lookback > self.tail:
                self._open_hole(first, stop)

    def export_steps(self, first: int, stop: int) -> dict[str, Tensor]:
        """Steps [first, stop) and their final observations, as tensors that do not depend on the size of the ring."""
        at = torch.arange(first, stop) % self.slots
        before = self._finals_before[at]
        end = self.finals if stop == self.head else int(self._finals_before[stop % self.slots])
        start = int(before[0]) if len(before) else end
        final_at = torch.arange(min(end, max(start, self.finals - self.num_finals)), end)
        out = {name: rows[at.to(rows.device)].cpu() for name, rows in self._by_step().items()}
        # A final observation is numbered from the start of the run. The ring holds that number modulo its size.
        number = before[:, None].long()
        out["final_index"] = (number + (out["final_index"] - number) % self.num_finals).to(torch.int32)
        out |= {
            f"final.{group}": rows[(final_at % self.num_finals).to(rows.device)].cpu()
            for group, rows in self.final_obs.items()
        }
        return out | {"finals_before": before, "final_at": final_at}

    def import_steps(self, first: int, data: dict[str, Tensor]) -> None:
        """The inverse of `export_steps`, for consecutive pieces, oldest first. A smaller ring keeps the newest."""
        count = len(data["finals_before"])
        at = torch.arange(first, first + count)[-self.slots :] % self.slots
        final_at = data["final_at"][-self.num_finals :] % self.num_finals
        self._finals_before[at] = data["finals_before"][-self.slots :]
        for name, rows in self._by_step().items():
            saved = data[name] % self.num_finals if name == "final_index" else data[name]
            rows[at.to(rows.device)] = saved[-self.slots :].to(rows)
        for group, rows in self.final_obs.items():
            rows[final_at.to(rows.device)] = data[f"final.{group}"][-self.num_finals :].to(rows)

    def _by_step(self) -> dict[str, Tensor]:
        """All tensors with a row for every step, by their name in a checkpoint."""
        parts = {"action": self.action, "reward": self.reward, "flags": self.flags, "final_index": self.final_index}
        return parts | {f"obs.{group}": rows for group, rows in self.obs.items()}


def to_device_async(x: Tensor, device: torch.device) -> Tensor:
    """Send `x` to an accelerator without waiting. The driver copies unpinned memory at once, so `x` may be freed.

    A copy to the CPU waits: otherwise it would be read before it is complete.
    """
    return x.to(device, non_blocking=device.type != "cpu")


def _to(batch: Batch, device: torch.device) -> Batch:
    def move(obs: Obs) -> Obs:
        return {group: to_device_async(rows, device) for group, rows in obs.items()}

    action, reward, discount = (to_device_async(x, device) for x in (batch.action, batch.reward, batch.discount))
    return Batch(move(batch.obs), action, reward, discount, move(batch.next_obs))
