"""`flashsac bench`: where the time and the memory go on this machine.

Everything is measured in one run. What is compared takes turns, and its median counts."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from flashsac.bench.figures import Row
from flashsac.bench.start_up import start_up
from flashsac.bench.wall_clock import wall_clock
from flashsac.config.presets import PRESETS
from flashsac.config.schema import PresetName
from flashsac.core.agent import Agent
from flashsac.core.replay import Replay, layout, layout_bytes
from flashsac.errors import FlashSACError
from flashsac.runs.provenance import processor, version
from flashsac.sims.base import VecEnv
from flashsac.sims.defaults import configure
from flashsac.sims.make import make_env
from flashsac.system.memory import keep_freed_memory
from flashsac.training.compile import compiler_for
from flashsac.training.precision import DTYPES, product_seconds
from flashsac.types import CPU, EnvSpec, Pixels, Step

DIMS: dict[PresetName, tuple[int, int]] = {"parallel": (123, 37)}
"""Width of observations and actions: a humanoid's. The other presets get HalfCheetah's."""
CHEETAH = (17, 6)
SIMULATED = ("gym:Pendulum-v1", "mujoco:HalfCheetah-v4", "dmc:humanoid-walk", "playground:G1JoystickFlatTerrain")
LOOPED = ("mujoco:HalfCheetah-v4", "playground:G1JoystickFlatTerrain")
FROM_IMAGES = ("dmc-vision:walker-run",)
"""The task that the vision preset is measured on."""


@dataclasses.dataclass(frozen=True)
class Bench:
    """What to measure, how long, and whom to tell."""

    presets: tuple[PresetName, ...] = ("laptop", "single", "parallel")
    precisions: tuple[str, ...] | None = None
    seconds: float = 10.0
    compile: bool = True
    device: torch.device = CPU
    say: Callable[[str], None] = print

    def run(self, parts: tuple[str, ...]) -> Iterator[list[Row]]:
        """Yield the rows of each part as soon as it is measured, so that none is lost if a later part fails."""
        keep_freed_memory()
        yield [self.machine()]
        for part in parts:
            yield getattr(self, part)()

    def machine(self) -> Row:
        """The machine and the versions that were measured: figures of two machines cannot be compared."""
        kind = processor() if self.device.type == "cpu" else torch.cuda.get_device_name()
        versions = ", ".join(
            f"{name} {version(name)}" for name in ("flashsac", "torch", "mujoco", "envpool") if version(name)
        )
        versions += "" if self.compile else ", uncompiled"
        return Row(
            "machine", f"{kind}, {torch.get_num_threads()} threads", versions, float(os.cpu_count() or 0), "cores"
        )

    def update(self) -> list[Row]:
        """Compare the whole update with its matrix products alone, and with the uncompiled update in fp32."""
        rows = []
        for preset in self.presets:
            reference = self.learning_cycle(preset, torch.float32, compiled=False)
            for precision in self._precisions:
                self.say(f"update, {preset}, {precision} ...")
                learn = self.learning_cycle(preset, DTYPES[precision], compiled=self.compile)
                products = Products(self.learning_cycle(preset, DTYPES[precision], compiled=False))
                cycle = PRESETS[preset].agent.actor_delay  # the actor is due once in so many updates
                times = self._interleaved({"eager": reference, "update": learn, "floor": products.run})
                case = f"{preset} {precision}"
                alone = "convolutions and matrix products alone" if preset == "vision" else "matrix products alone"
                rows += [
                    Row("update", case, alone, 1e3 * times["floor"] / cycle, "ms"),
                    Row("update", case, "update", 1e3 * times["update"] / cycle, "ms"),
                    Row("update", case, "uncompiled fp32", 1e3 * times["eager"] / cycle, "ms"),
                    Row("update", case, "update / products", times["update"] / times["floor"], "x"),
                    Row("update", case, "uncompiled / update", times["eager"] / times["update"], "x"),
                    Row("update", case, "operations", products.operations / cycle / 1e9, "GFLOP"),
                ]
        return rows

    def act(self) -> list[Row]:
        """Time the step from observations to actions, exploration included."""
        rows = []
        seeing = self.presets == ("vision",)
        for num_envs, precision in itertools.product((1, 16) if seeing else (1, 1024), self._precisions):
            case = f"{num_envs} environments{', images' if seeing else ''} {precision}"
            self.say(f"acting, {case} ...")
            agent = self._agent(
                "vision" if seeing else "single", DTYPES[precision], compiled=self.compile, num_envs=num_envs
            )
            obs, _, _ = random_step(agent.spec)
            times = self._interleaved({"act": functools.partial(agent.act, obs)}, share=0.2)
            rows.append(Row("act", case, "act", 1e3 * times["act"], "ms"))
        return rows

    def replay(self) -> list[Row]:
        """Time storing one step of every environment, and drawing one batch."""
        rows = []
        for preset in self.presets:
            self.say(f"replay, {preset} ...")
            capacity = (
                20_000 if preset == "vision" else min(PRESETS[preset].replay.capacity, 1_000_000)
            )  # far beyond any cache
            agent = self._agent(preset, torch.float32, compiled=self.compile, capacity=capacity)
            size = agent.config.batch_size
            generator = torch.Generator().manual_seed(0)
            times = self._interleaved(
                {
                    "add": functools.partial(agent.observe, *random_step(agent.spec)),
                    "sample": functools.partial(agent.replay.sample, size, generator, self.device),
                },
                share=0.2,
            )
            rows += [
                Row("replay", preset, f"add {agent.spec.num_envs} transitions", 1e3 * times["add"], "ms"),
                Row("replay", preset, f"sample {size}", 1e3 * times["sample"], "ms"),
            ]
        return rows

    def memory(self) -> list[Row]:
        """Compare the bytes that a transition takes with one observation, one action and twelve bytes."""
        rows = []
        for preset in self.presets:
            spec, config = spec_of(preset), PRESETS[preset]
            if spec.pixels:
                whole = layout_bytes(layout(spec, config.replay.capacity, config.agent.n_step, torch.float32))
                stored = whole / config.replay.capacity
                rows += [
                    Row("memory", preset, "per transition", stored, "bytes"),
                    Row("memory", preset, "stored / one frame", stored / math.prod(spec.pixels.frame), "x"),
                ]
                continue
            for dtype in (torch.float32, torch.float16):
                shapes = layout(spec, config.replay.capacity, config.agent.n_step, dtype)
                ideal = sum(spec.obs.values()) * dtype.itemsize + 4 * spec.action_dim + 12
                stored = layout_bytes(shapes) / config.replay.capacity
                case = f"{preset} {str(dtype).removeprefix('torch.')}"
                rows += [
                    Row("memory", case, "per transition", stored, "bytes"),
                    Row("memory", case, "stored / (observation + action + 12)", stored / ideal, "x"),
                ]
        return rows

    def simulator(self) -> list[Row]:
        """Steps per second of the simulators alone, with random actions, resets included."""
        return self._each_task(self._tasks(SIMULATED), self._steps_per_second)

    def loop(self) -> list[Row]:
        """Time the parts of real runs, once with learning during simulation and once with learning after it.

        Tasks with images run with the vision preset, the others with the laptop preset."""
        measure = lambda task: [
            row
            for precision, overlap in itertools.product(self.precisions or ("auto",), (True, False))
            for row in wall_clock(
                task, preset_for(task), self.seconds, precision=precision, overlap=overlap, compiled=self.compile
            )
        ]
        return self._each_task(self._tasks(LOOPED), measure)

    def start(self) -> list[Row]:
        """Seconds from the command to the first updates, with the laptop preset."""
        if "laptop" not in self.presets:
            return []
        self.say("start ...")
        return start_up(compiled=self.compile)

    def _tasks(self, from_state: tuple[str, ...]) -> tuple[str, ...]:
        """The tasks that suit the presets: `from_state`, those with images, or both."""
        seen = FROM_IMAGES if "vision" in self.presets else ()
        return (*from_state, *seen) if set(self.presets) - {"vision"} else seen

    def _each_task(self, tasks: tuple[str, ...], measure: Callable[[str], list[Row]]) -> list[Row]:
        rows = []
        for task in tasks:
            self.say(f"{task} ...")
            try:
                rows += measure(task)
            except FlashSACError as error:  # its simulator is not installed, say: measure the other tasks
                self.say(f"{task} is left out: {error}")
        return rows

    def _steps_per_second(self, task: str) -> list[Row]:
        env = make_env(task, configure(task, preset_for(task)).env)
        rate = steps_per_second(env, 0.3 * self.seconds)
        env.close()
        return [Row("simulator", task, f"{env.spec.num_envs} environments", rate, "steps/s")]

    @functools.cached_property
    def _precisions(self) -> tuple[str, ...]:
        """The precisions that were asked for, or else those that this device does not merely emulate."""
        if self.precisions:
            return self.precisions
        seconds = product_seconds(self.device)
        native = [name for name in seconds if seconds[name] < 2 * seconds["fp32"]]
        for name in sorted(set(seconds) - set(native)):
            self.say(f"{name} is left out: its products take {seconds[name] / seconds['fp32']:.0f} times as long here")
        return tuple(native)

    def _agent(
        self,
        preset: PresetName,
        dtype: torch.dtype,
        *,
        compiled: bool = False,
        num_envs: int | None = None,
        capacity: int = 10_000,
    ) -> Agent:
        config, spec = PRESETS[preset], spec_of(preset, num_envs)
        replay = Replay(spec, capacity, discount=0.99, n_step=config.agent.n_step)
        settings = dataclasses.replace(config.agent, warmup=0)
        compiler = compiler_for(self.device) if compiled else lambda function: function
        agent = Agent(spec, settings, replay, total_updates=10**6, device=self.device, dtype=dtype, compiler=compiler)
        agent.observe(*random_step(spec))
        for ring in (*replay.obs.values(), replay.action, replay.reward):
            ring.random_(256) if ring.dtype == torch.uint8 else ring.normal_()
        replay.head = replay.slots - 1 - replay.lookback  # full
        return agent

    def learning_cycle(self, preset: PresetName, dtype: torch.dtype, *, compiled: bool) -> Callable[[], None]:
        """One cycle of updates, with one update of the actor, on a batch that was drawn before."""
        agent = self._agent(preset, dtype, compiled=compiled)
        batch = agent.replay.sample(agent.config.batch_size, torch.Generator().manual_seed(0), self.device)
        agent.replay.sample = lambda *_: batch  # type: ignore[method-assign]

        def cycle() -> None:
            for _ in range(agent.config.actor_delay):
                agent.update()

        return cycle

    def _interleaved(self, functions: dict[str, Callable[[], Any]], share: float = 1.0) -> dict[str, float]:
        """Median seconds of each function. They take turns, because the speed of a shared machine varies."""
        times: dict[str, list[float]] = {name: [] for name in functions}
        for function in functions.values():
            function()
        stop = time.perf_counter() + share * self.seconds
        while time.perf_counter() < stop or len(min(times.values(), key=len)) < 5:
            for name, function in functions.items():
                function()  # brings its own data back into the caches
                self._wait()
                start = time.perf_counter()
                function()
                self._wait()
                times[name].append(time.perf_counter() - start)
        return {name: statistics.median(values) for name, values in times.items()}

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def steps_per_second(env: VecEnv, seconds: float) -> float:
    """Measure an environment with random actions, resets included."""
    env.reset(0)
    generator, num_envs = torch.Generator().manual_seed(0), env.spec.num_envs
    steps, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        action = 2 * torch.rand(num_envs, env.spec.action_dim, generator=generator) - 1
        env.step(action.to(env.spec.device))
        steps += num_envs
    return steps / passed


class Products(TorchDispatchMode):
    """Record the matrix products and convolutions of `function`, to run them alone, back to back."""

    def __init__(self, function: Callable[[], None]):
        super().__init__()
        self.products: list[Callable[[], Any]] = []
        self.operations = 0
        with self:
            function()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function._overloadpacket in flop_registry:
            self.operations += flop_registry[function._overloadpacket](*args, **(kwargs or {}), out_val=result)
            # The copies keep the strides, because it matters whether an operand is transposed.
            copies = [_copy(x) if isinstance(x, torch.Tensor) else x for x in args]
            if function is torch.ops.aten.bmm.default:  # write into memory that is allocated already
                self.products.append(functools.partial(torch.bmm, *copies, out=torch.empty_like(result)))
            else:
                self.products.append(functools.partial(function, *copies, **(kwargs or {})))
        return result

    def run(self) -> None:
        for product in self.products:
            product()


def _copy(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)


def preset_for(task: str) -> PresetName:
    """The paper's preset for tasks with images, the laptop preset for the others."""
    return "vision" if task in FROM_IMAGES else "laptop"


def spec_of(preset: PresetName, num_envs: int | None = None) -> EnvSpec:
    obs, action = DIMS.get(preset, CHEETAH)
    images = Pixels(3, 84, 84, 3) if preset == "vision" else None
    return EnvSpec(
        num_envs=num_envs or PRESETS[preset].env.num_envs,
        obs={} if images else {"actor": obs},
        action_dim=action,
        action_low=(-1.0,) * action,
        action_high=(1.0,) * action,
        max_episode_steps=1000,
        pixels=images,
    )


def random_step(spec: EnvSpec) -> tuple[dict[str, torch.Tensor], torch.Tensor, Step]:
    obs, following = (
        {
            group: torch.testing.make_tensor(spec.num_envs, *shape, dtype=dtype, device="cpu")
            for group, (shape, dtype) in groups
        }
        for groups in [spec.groups.items()] * 2
    )
    no = torch.zeros(spec.num_envs, dtype=torch.bool)
    action = 2 * torch.rand(spec.num_envs, spec.action_dim) - 1
    return obs, action, Step(following, torch.randn(spec.num_envs), no, no, following, ~no, {})
