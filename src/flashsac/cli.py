"""The command line. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flashsac.arguments import leading, only_path, take_option
from flashsac.config import Precision, PresetName

if TYPE_CHECKING:
    from flashsac.trainer import Result

USAGE = """\
usage: flashsac COMMAND ...

FlashSAC: fast, stable off-policy reinforcement learning for robots.

  train TASK [--preset NAME] [...]   train a robot          flashsac train mujoco:HalfCheetah-v4 --preset laptop
  resume RUN                         go on with a run       flashsac resume runs/cheetah
  eval RUN [--episodes N]            measure a policy       flashsac eval runs/cheetah
  play RUN [--out FILE]              watch it               flashsac play runs/cheetah
  report RUN ... --out DIR           draw learning curves   flashsac report runs --out curves
  export RUN [--out FILE]            write it as ONNX       flashsac export runs/g1 --out g1.onnx
  deploy FILE [--robot NAME]         run it on a robot      flashsac deploy g1.onnx --robot mujoco
  list [SUITE]                       simulators and tasks   flashsac list dmc
  bench [--compare FILE]             speed and memory here  flashsac bench --out bench.csv

TASK is suite:task, or module:function of your own that makes a Gymnasium environment.
RUN is a run directory (or, for eval, play and export, a policy file). `flashsac COMMAND --help` says more.
"""


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Measure a trained policy: deterministic, in environments of its own."""

    episodes: int = 10
    """Episodes to run."""
    seed: int = 12345
    """Seed of the episodes."""


@dataclasses.dataclass(frozen=True)
class PlayOptions:
    """Watch a trained policy: a window where there is a display, a video otherwise."""

    out: str | None = None
    """Video file (default: RUN/videos/play.mp4)."""
    seconds: float = 15.0
    """Length of the video, in simulated time."""
    seed: int = 12345
    """Seed of the episode."""
    window: bool | None = None
    """Force a window or a video file; by default a window where there is a display."""


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Draw evaluation curves over seeds: against steps and against time, as PNG and CSV. NAME=RUN compares groups by name."""

    out: str
    """Directory for the pictures and tables."""
    published: str | None = None
    """CSV of published curves to draw beside them (task, method, env_step, seeds, mean, ci_low, ci_high)."""


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Where time and memory go on this machine. Keep it quiet meanwhile; about ten minutes the first time."""

    parts: tuple[Literal["update", "act", "replay", "memory", "simulator", "loop"], ...] = (
        "update",
        "act",
        "replay",
        "memory",
        "simulator",
        "loop",
    )
    """What to measure."""
    preset: tuple[PresetName, ...] = ("laptop", "single", "parallel")
    """Sizes of networks and batch."""
    precision: tuple[Precision, ...] | None = None
    """Types of the matrix products (default: those that the device does not merely emulate)."""
    seconds: float = 10.0
    """Time for each measurement."""
    compile: Literal["on", "off"] = "on"
    """Compile, as training does."""
    out: str = "bench.csv"
    """Where the figures go."""
    compare: str | None = None
    """Figures of an earlier run, to print ratios to."""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    commands = {"train": _train, "resume": _resume, "eval": _eval, "play": _play, "report": _report}
    commands |= {"export": _export, "deploy": _deploy, "list": _list, "bench": _bench}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if arguments[0] == "--version":
        from flashsac import __version__

        print(f"flashsac {__version__}")
        return 0
    command = commands.get(arguments[0])
    if command is None:
        print(f"error: there is no command '{arguments[0]}'\n\n{USAGE}", file=sys.stderr)
        return 2
    from flashsac.errors import FlashSACError

    try:
        return command(arguments[1:])
    except FlashSACError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `flashsac ... | head`
        sys.stderr.close()
        return 141
    except OSError as error:
        print(f"error: {error}. Is the disk full, or the directory not yours to write to?", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped at once; the last checkpoint is whole", file=sys.stderr)
        return 130


def _train(arguments: list[str]) -> int:
    import tyro

    from flashsac.config import TrainConfig
    from flashsac.settings import default_config
    from flashsac.sims.registry import check_memory, choose_engine
    from flashsac.sims.tasks import suite_of, tasks, unknown_task

    # Two stages: the task and the preset decide the defaults that the rest overrides.
    task, rest = leading(arguments)
    preset, rest = take_option(rest, "--preset")
    help_wanted = any(argument in ("-h", "--help") for argument in rest)
    if task is None and not help_wanted:
        print("error: which task? For example: flashsac train mujoco:HalfCheetah-v4 --preset laptop", file=sys.stderr)
        return 2
    if task is not None and (":" not in task or (suite_of(task) not in (None, "gym") and task not in tasks())):
        raise unknown_task(task)
    default = default_config(task or "mujoco:HalfCheetah-v4", preset)  # type: ignore[arg-type]
    about = (
        f"Train {task or 'a robot'}. The defaults shown here are those of a preset; choose another with --preset: parallel (1024 "
        "environments, GPU), single (one environment, the paper's CPU setting), vision, laptop (minutes on a CPU)."
    )
    config = tyro.cli(TrainConfig, default=default, args=rest, prog="flashsac train TASK", description=about)
    assert task is not None
    if task in tasks():  # before torch and the simulator are loaded, so that a refusal comes at once
        check_memory(tasks()[task], choose_engine(tasks()[task], config.env), config.env.num_envs)
    from flashsac import api

    return _finish(api.train(task, config))


def _resume(arguments: list[str]) -> int:
    from flashsac import api

    if arguments in (["-h"], ["--help"]):
        print("usage: flashsac resume RUN\n")
        print("Goes on with an interrupted run from its last checkpoint, with the settings it was begun with.")
        return 0
    run_dir = only_path(arguments, "resume")
    return _finish(api.resume(run_dir))


def _finish(result: Result) -> int:
    """After training: where things are, and what to do next."""
    run_dir = result.run_dir
    if result.interrupted:
        print(f"\nsaved at step {result.step:,}. Go on with:\n  flashsac resume {run_dir}")
        return 130
    score = result.row.get("eval_return")
    print(
        f"\ntrained {result.step:,} steps in {result.row.get('seconds', 0) / 60:.1f} minutes"
        + (f", evaluated return {score:.1f} (best {result.best:.1f})" if score is not None else "")
    )
    made = {
        "videos/final.mp4": "the robot",
        "checkpoints/best.safetensors": "the best policy",
        "metrics.csv": "the numbers",
    }
    for name, what in made.items():
        if (run_dir / name).exists():
            print(f"  {run_dir / name}  ({what})")
    print("next:")
    for command in (f"play {run_dir}", f"eval {run_dir}", f"report {run_dir} --out {run_dir}/curves"):
        print(f"  flashsac {command}")
    return 0


def _eval(arguments: list[str]) -> int:
    path, rest = leading(arguments)
    options = _options(EvalOptions, rest, "flashsac eval RUN", needs=path)
    from flashsac.evaluate import Evaluator
    from flashsac.policy import find_policy, load_policy

    policy = load_policy(str(path))
    env = _env_config(Path(str(path))) or policy.env_config()
    evaluator = Evaluator(_own_task(policy.task), env, options.episodes, options.seed)
    policy.check_fits(evaluator.env.spec)
    result = evaluator.run(policy.act)
    evaluator.close()
    print(f"policy: {find_policy(Path(str(path)))}")
    spread = result.returns.std()
    print(f"{policy.task}: return {result.returns.mean():.1f} ± {spread:.1f} (std over {len(result.returns)} episodes)")
    print(
        f"  lowest {result.returns.min():.1f}, highest {result.returns.max():.1f}, mean length {result.lengths.mean():.0f}"
    )
    if "eval_success" in (summary := result.summary()):
        print(f"  success {100 * summary['eval_success']:.0f}%")
    return 0


def _play(arguments: list[str]) -> int:
    path, rest = leading(arguments)
    options = _options(PlayOptions, rest, "flashsac play RUN", needs=path)
    from flashsac.policy import find_policy, load_policy
    from flashsac.video import has_display, record, show

    run = Path(str(path))
    policy_file = find_policy(run)
    task = _own_task(load_policy(policy_file).task)
    if options.window or (options.window is None and options.out is None and has_display()):
        show(policy_file, task, seed=options.seed, seconds=options.seconds)
        return 0
    folder = run / "videos" if run.is_dir() else run.parent
    out = record(
        policy_file,
        Path(options.out) if options.out else folder / "play.mp4",
        seed=options.seed,
        seconds=options.seconds,
    )
    print(f"wrote {out}")
    return 0


def _report(arguments: list[str]) -> int:
    paths = []
    while arguments and not arguments[0].startswith("-"):
        paths.append(arguments[0])
        arguments = arguments[1:]
    options = _options(ReportOptions, arguments, "flashsac report RUN ...", needs=paths or None)
    from flashsac.experiments.report import group_paths, report

    for file in report(group_paths(paths), Path(options.out), Path(options.published) if options.published else None):
        print(f"wrote {file}")
    return 0


def _export(arguments: list[str]) -> int:
    from flashsac.deploy import export

    return export.main(arguments)


def _deploy(arguments: list[str]) -> int:
    from flashsac.deploy import deploy

    return deploy.main(arguments)


def _bench(arguments: list[str]) -> int:
    options = _options(BenchOptions, arguments, "flashsac bench", needs=arguments)
    import torch

    from flashsac.core.compiler import compiler_missing
    from flashsac.errors import FlashSACError
    from flashsac.experiments import bench, figures

    try:
        earlier = figures.read_csv(Path(options.compare)) if options.compare else None
    except (OSError, KeyError, ValueError) as error:
        raise FlashSACError(f"{options.compare} holds no figures of an earlier `flashsac bench` ({error}).") from error
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    problem = compiler_missing(device) if options.compile == "on" else None
    if problem:
        print(problem)
    compiled = options.compile == "on" and problem is None
    rows = []
    for part in bench.Bench(options.preset, options.precision, options.seconds, compiled, device).run(options.parts):
        rows += part
        print(figures.table(part, earlier))
        figures.write_csv(rows, Path(options.out))
    print(f"wrote {options.out}")
    return 0


def _list(arguments: list[str]) -> int:
    from flashsac.sims.listing import print_tasks

    wanted, rest = leading(arguments)
    if rest not in ([], ["--paper"]):
        print(
            "usage: flashsac list [SUITE] [--paper]\n\nShows suites, tasks, dimensions, scores; --paper: only the paper's."
        )
        return 0 if rest[0] in ("-h", "--help") else 2
    print_tasks(wanted, paper=bool(rest))
    return 0


# --- helpers -----------------------------------------------------------------------------------------------------------


def _options(kind: type, arguments: list[str], prog: str, needs: object):
    import tyro

    options: Any = tyro.cli(kind, args=arguments, prog=prog)
    if needs is None:
        from flashsac.errors import FlashSACError

        raise FlashSACError(f"which run? usage: {prog}")
    return options


def _env_config(path: Path):
    from flashsac.run import read_config

    return read_config(path)[1].env if path.is_dir() else None


def _own_task(task: str) -> str:
    from flashsac.errors import FlashSACError

    if task.startswith("custom:"):
        raise FlashSACError(
            f"this policy was trained from Python on an environment of your own ({task}). Load it there with "
            "flashsac.load_policy(...), or train by name: flashsac train module:function."
        )
    return task


if __name__ == "__main__":
    sys.exit(main())
