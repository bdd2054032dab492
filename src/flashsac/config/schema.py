"""All settings, as frozen dataclasses. The docstring under a field is its help text on the command line."""

from __future__ import annotations

import dataclasses
import typing
from typing import Annotated, Any, Literal

from flashsac.system.limits import Above, AtLeast, AtMost, Between

PresetName = Literal["parallel", "single", "vision", "laptop"]
Precision = Literal["fp32", "bf16", "fp16"]


@dataclasses.dataclass(frozen=True)
class AgentConfig:
    """The algorithm. Defaults are the paper's; `--preset` sets what differs by regime."""

    batch_size: Annotated[int, AtLeast(2), AtMost(2**24)] = 2048
    """Transitions per update."""
    updates_per_transition: Annotated[float, Above(0)] = 2 / 1024
    """Update-to-data ratio. It counts transitions, so the number of environments does not change it."""
    warmup: Annotated[int, AtLeast(0), AtMost(10**15)] = 100_000
    """Transitions collected with uniformly random actions before the first update."""
    discount: Annotated[float, Between(0, 1)] = 0.99
    """Discount factor; tasks bring their own."""
    n_step: Annotated[int, AtLeast(1), AtMost(10_000)] = 1
    """Length of the return before bootstrapping."""

    actor_width: Annotated[int, AtLeast(1), AtMost(2**16)] = 128
    """Hidden width of the actor."""
    critic_width: Annotated[int, AtLeast(1), AtMost(2**16)] = 256
    """Hidden width of each critic."""
    blocks: Annotated[int, AtLeast(1), AtMost(1000)] = 2
    """Inverted residual blocks in each network."""
    critics: Annotated[int, AtLeast(1), AtMost(1000)] = 2
    """Size of the critic ensemble."""
    residual: bool = True
    """Add each block's input to its output (off: ablation)."""
    batch_norm: bool = True
    """BatchNorm before each nonlinearity and on the inputs (off: ablation)."""
    rms_norm: bool = True
    """RMSNorm before the heads (off: ablation)."""
    weight_projection: bool = True
    """Project weights to unit norm after each step (off: ablation)."""
    cross_batch: bool = True
    """Current and next states in one critic pass, so that both share BatchNorm statistics (off: ablation)."""

    image_channels: Annotated[int, AtLeast(1), AtMost(2**12)] = 32
    """Channels of each convolution."""
    image_features: Annotated[int, AtLeast(1), AtMost(2**16)] = 50
    """Numbers that the encoder makes of a stack of images."""
    image_shift: Annotated[int, AtLeast(0), AtMost(2**12)] = 4
    """Random shift of images in training, up to so many pixels; 0 turns it off."""

    symmetry: bool = False
    """Show half of every batch in a mirror, left and right exchanged; for robots that say how."""
    context_latent: Annotated[int, AtLeast(1), AtMost(2**16)] = 16
    """Numbers beside the velocity that the context estimator makes of the history (--env.history)."""

    value: Literal["categorical", "scalar"] = "categorical"
    """A distribution over returns trained by cross-entropy, or one number by squared error (ablation)."""
    reward_scaling: bool = True
    """Divide rewards by the running spread of returns (off: ablation)."""
    reward_guard: bool = True
    """Keep a reward beyond 100 times the largest return so far (at least 1) out of that spread until a second one
    confirms it."""
    value_max: Annotated[float, Above(0)] = 5.0
    """The categorical support is [-value_max, value_max]."""
    atoms: Annotated[int, AtLeast(2), AtMost(100_000)] = 101
    """Atoms of the categorical critic."""

    learning_rate: Annotated[float, Above(0)] = 3e-4
    """Adam's learning rate at the start."""
    learning_rate_end: Annotated[float, AtLeast(0)] = 1.5e-4
    """Adam's learning rate at the end; it falls along a cosine over the whole run."""
    target_rate: Annotated[float, Between(0, 1, "[]")] = 0.01
    """Step of the target critic towards the critic, per update."""
    actor_delay: Annotated[int, AtLeast(1), AtMost(10**9)] = 2
    """Critic updates per actor update."""
    initial_temperature: Annotated[float, Above(0)] = 0.01
    """Entropy weight at the start."""
    target_std: Annotated[float, Above(0)] = 0.15
    """Action standard deviation that defines the entropy target, the same for every robot."""
    noise_max_repeat: Annotated[int, AtLeast(1), AtMost(10**6)] = 16
    """Longest run of steps with the same exploration noise; 1 turns noise repetition off."""
    noise_exponent: Annotated[float, Between(-1000, 1000, "[]")] = 2.0
    """Repetition lengths k have probability proportional to k^-exponent."""


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """The simulator."""

    num_envs: Annotated[int, AtLeast(1), AtMost(10**7)] = 1024
    """Environments stepped together."""
    engine: str = "auto"
    """Which implementation simulates the task, by the names of `flashsac list`; auto takes the fast one, or with one
    environment Gymnasium or dm_control, which resume exactly."""
    max_episode_steps: Annotated[int | None, AtLeast(1)] = None
    """Cut episodes after this many steps (default: the task's own limit)."""
    overlap: bool = True
    """Simulate one step while learning from those before it, where the simulator runs beside us (EnvPool, ManiSkill,
    images)."""
    image_size: Annotated[int, AtLeast(1), AtMost(2**13)] = 84
    """Height and width of what dmc-vision draws; other images keep their size."""
    frame_stack: Annotated[int, AtLeast(1), AtMost(1000)] = 3
    """Frames in one observation, where there are images."""
    with_state: bool = False
    """Observe the state vector beside the images (dmc-vision)."""
    history: Annotated[int, AtLeast(0), AtMost(10_000)] = 0
    """Show the actor so many of its last observations too, for tasks that name the base's velocity. A context estimator
    learns to tell the velocity from them."""
    privileged: bool = True
    """Show the critic what only simulation knows, where a task offers it."""
    blind: bool = False
    """Hide the base's linear velocity from the actor, as robots without an estimator do; for Playground's joystick
    tasks."""
    options: tuple[str, ...] = ()
    """Settings of the simulator's own, as name=value: in EnvPool's Playground reward scales, noise, pushes, commands;
    in Genesis how Go2 starts."""


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """The replay buffer."""

    capacity: Annotated[int, AtLeast(1), AtMost(10**13)] = 10_000_000
    """Transitions kept."""
    storage: Literal["auto", "ram", "disk", "device"] = "auto"
    """Place of the replay: main memory, memory-mapped files in the run directory (may exceed memory), or the
    accelerator. By default main memory where it fits, else files."""
    obs_dtype: Literal["float32", "float16", "bfloat16"] = "float32"
    """Storage type of observations; half precision halves what they take."""


@dataclasses.dataclass(frozen=True)
class EvalConfig:
    """Evaluation during training: own environments, deterministic policy."""

    every: Annotated[int | None, AtLeast(0)] = None
    """Transitions between evaluations (default: a twentieth of the run); 0 turns evaluation off."""
    episodes: Annotated[int, AtLeast(1), AtMost(10**7)] = 10
    """Episodes per evaluation."""


@dataclasses.dataclass(frozen=True)
class DiagnosticsConfig:
    """Norms, rank and curvature of the networks, in metrics.csv as diag/NAME. A run learns the same with them."""

    every: Annotated[int, AtLeast(0)] = 0
    """Transitions between measurements; 0 turns them off. The next row of metrics.csv has them."""
    lanczos_iterations: Annotated[int, AtLeast(2), AtMost(10_000)] = 30
    """Hessian-vector products for the condition number. More of them find smaller eigenvalues."""


@dataclasses.dataclass(frozen=True)
class TrainConfig:
    """One training run."""

    steps: Annotated[int, AtLeast(1), AtMost(10**15)] = 50_000_000
    """Transitions to collect in all."""
    seed: Annotated[int, Between(0, 2**31 - 1, "[]")] = 0
    """Seed of everything random."""
    run_dir: str | None = None
    """Directory to write the run to (default: runs/TASK/DATE-seed)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ..."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Type of the matrix products; auto measures which is fastest on this device. All else is fp32."""
    compile: Literal["on", "off"] = "on"
    """Compile acting and learning. This needs a C++ compiler. Without one the run says so and goes on uncompiled."""
    log_every: Annotated[int | None, AtLeast(0)] = None
    """Transitions between rows of metrics.csv (default: a two-hundredth of the run)."""
    checkpoint_every: Annotated[int | None, AtLeast(0)] = None
    """Transitions between checkpoints (default: a tenth of the run); 0 saves only at the end."""
    keep_checkpoints: Annotated[int, AtLeast(1)] = 2
    """How many of the newest checkpoints are kept, besides the best."""
    video: bool = True
    """Record a video of the trained policy at the end."""
    wandb: str | None = None
    """Weights & Biases project to log to (needs the wandb extra)."""
    trackio: str | None = None
    """Trackio project to log to, in a local database (needs the trackio extra). `trackio show` draws it."""
    max_invalid: Annotated[float, AtLeast(0)] = 0.01
    """Stop when more than this share of the transitions held NaN or Inf; the first thousand are judged as a whole."""

    agent: AgentConfig = dataclasses.field(default_factory=AgentConfig)
    env: EnvConfig = dataclasses.field(default_factory=EnvConfig)
    replay: ReplayConfig = dataclasses.field(default_factory=ReplayConfig)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)
    diagnostics: DiagnosticsConfig = dataclasses.field(default_factory=DiagnosticsConfig)


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """The settings as JSON can hold them."""
    return dataclasses.asdict(config)


def from_dict(values: dict[str, Any]) -> TrainConfig:
    """The inverse of `to_dict`. An unknown key raises TypeError, so that a file of another version is noticed.

    Values have any type and size: config/checks.py has the checks."""
    return _build(TrainConfig, values)


def _build(kind: Any, value: Any) -> Any:
    if not dataclasses.is_dataclass(kind):
        return tuple(value) if isinstance(value, list) else value  # JSON has no tuples
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.60} is no dict of settings")
    kinds = typing.get_type_hints(kind)
    return typing.cast(type, kind)(**{name: _build(kinds.get(name), part) for name, part in value.items()})
