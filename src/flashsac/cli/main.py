"""The command line. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

import errno
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashsac.cli.options import BenchOptions, EvalOptions, PlayOptions, ReportOptions, TrainOptions, whole_number_flags
from flashsac.cli.parsing import leading, leading_path, leading_task, take_option, write_out_numbers

if TYPE_CHECKING:
    from flashsac.runs.directory import Result

USAGE = """\
usage: flashsac COMMAND ...

FlashSAC: fast, stable off-policy reinforcement learning for robots.

  train TASK [--preset NAME] [...]   train a robot          flashsac train mujoco:HalfCheetah-v4 --preset laptop
  resume RUN [--device NAME]         go on with a run       flashsac resume runs/cheetah
  eval RUN [--episodes N]            measure a policy       flashsac eval runs/cheetah
  play RUN [--out FILE]              watch it               flashsac play runs/cheetah
  report RUN ... --out DIR           draw learning curves   flashsac report runs --out curves
  export RUN [--out FILE]            write it as ONNX       flashsac export runs/g1 --out g1.onnx
  deploy FILE [--robot NAME]         run it on a robot      flashsac deploy g1.onnx --robot mujoco
  list [SUITE or WORD]               simulators and tasks   flashsac list dmc
  bench [--compare FILE]             speed and memory here  flashsac bench --out bench.csv

TASK is suite:task, or module:function of your own that makes a Gymnasium environment.
RUN is a run directory (or, for eval, play and export, a checkpoint or a policy file). `flashsac COMMAND --help` says more.
"""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    commands = {"train": _train, "resume": _resume, "eval": _eval, "play": _play, "report": _report}
    commands |= {"export": _export, "deploy": _deploy, "list": _list, "bench": _bench}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(f"flashsac {version('flashsac')}")
        return 0
    command = commands.get(arguments[0])
    if command is None:
        print(f"error: there is no command '{arguments[0]}'\n\n{USAGE}", file=sys.stderr)
        return 2
    from flashsac.errors import FlashSACError
    from flashsac.system.memory import use_large_pages

    use_large_pages()
    try:
        return command(arguments[1:])
    except FlashSACError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        # Installed without what only other commands need, as docs/deploy.md tells for a robot's computer.
        if error.name not in ("torch", "rich", "psutil", "gymnasium", "safetensors", "tyro", "imageio"):
            raise
        print(
            f"error: `flashsac {arguments[0]}` needs {error.name}, which is not installed: pip install {error.name}",
            file=sys.stderr,
        )
        return 1
    except BrokenPipeError:  # `flashsac ... | head`
        sys.stderr.close()
        return 141
    except OSError as error:
        about_disk = error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS)
        hint = ". Is the disk full, or the directory not yours to write to?" if about_disk else ""
        print(f"error: {error}{hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        training = arguments[0] in ("train", "resume")
        print(f"stopped at once{'; the last checkpoint is whole' if training else ''}", file=sys.stderr)
        return 130


def _train(arguments: list[str]) -> int:
    import tyro

    from flashsac.sims.capacity import check_memory
    from flashsac.sims.catalog import check_task, find_task, suites
    from flashsac.sims.defaults import default_config, default_preset
    from flashsac.sims.registry import choose_simulator
    from flashsac.sims.simulator import EnvRequest

    # Two stages: the task and the preset decide the defaults that the rest overrides.
    task, rest = leading_task(arguments, suites())
    chosen, rest = take_option(rest, "--preset")
    help_wanted = any(argument in ("-h", "--help") for argument in rest)
    if task is None and not help_wanted:
        print(
            "error: which task? It comes first: flashsac train mujoco:HalfCheetah-v4 --preset laptop", file=sys.stderr
        )
        return 2
    if task is not None:
        check_task(task)
    example = task or "mujoco:HalfCheetah-v4"
    preset: Any = chosen or default_preset(example)
    whose = "as chosen" if chosen else f"which {example} has without --preset"
    options = tyro.cli(
        TrainOptions,
        default=TrainOptions.of(default_config(example, preset), preset),
        args=write_out_numbers(rest, whole_number_flags()),
        prog="flashsac train TASK",
        description=f"Train {task or 'a robot'}. The defaults shown are those of the preset {preset}, {whose}.",
    )
    config = options.config()
    assert task is not None
    if known := find_task(task):  # before torch and the simulator are loaded, so that a refusal comes at once
        check_memory(known, choose_simulator(known, config.env), EnvRequest.of(config.env, config.device))
    from flashsac import api

    return _finish(api.train(task, config))


def _resume(arguments: list[str]) -> int:
    from flashsac import api
    from flashsac.errors import FlashSACError

    if arguments in (["-h"], ["--help"]):
        print("usage: flashsac resume RUN [--device NAME]\n")
        print("Goes on with an interrupted run from its last checkpoint, with the settings it was begun with.")
        print("--device cpu, cuda, cuda:1, ...: where it goes on, if not on the device it was begun on.")
        return 0
    device, rest = take_option(arguments, "--device")
    run_dir, rest = leading(rest)
    if run_dir is None:
        raise FlashSACError("which run? usage: flashsac resume RUN")
    if rest:
        raise FlashSACError(
            f"{' '.join(rest)}: the settings of a run are fixed when it begins. Its learning rate follows a schedule over all "
            "its steps, and resumed it must come to the same as if it had never stopped. For other settings or more steps begin a new "
            "run: flashsac train TASK ... --run-dir ANOTHER"
        )
    return _finish(api.resume(run_dir, device=device))


def _finish(result: Result) -> int:
    """After training: where things are, and what to do next."""
    from flashsac.api import Finished
    from flashsac.robots.catalog import ROBOTS
    from flashsac.runs.directory import read_config

    run_dir = result.run_dir
    if result.interrupted:
        print(f"\nsaved at step {result.step:,}. Go on with:\n  flashsac resume {run_dir}")
        return 130
    score, minutes = result.row.get("eval_return"), result.row.get("seconds", 0) / 60
    print(
        ("it had " if isinstance(result, Finished) else "\n")
        + f"trained {result.step:,} steps in {minutes:.1f} minutes (evaluations not counted)"
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
    task, config = read_config(run_dir)
    undrawable = result.video is None and config.video
    print("next:")
    for command, useful in (
        (f"play {run_dir}", not undrawable),
        (f"eval {run_dir}", True),
        (f"report {run_dir} --out {run_dir}/curves", math.isfinite(result.best)),
        (f"export {run_dir}", task in ROBOTS),
    ):
        if useful:
            print(f"  flashsac {command}")
    return 0


def _eval(arguments: list[str]) -> int:
    path, rest = leading_path(arguments)
    options = _options(EvalOptions, rest, "flashsac eval RUN", needs=path)
    from flashsac.policies.find import find, measure
    from flashsac.policies.policy import find_policy

    found = find(str(path), options.task, options.checkpoint, options.env.options, options.env.engine)
    result = measure(found, options.episodes, options.seed)
    print(f"policy: {find_policy(Path(str(path)), options.checkpoint)}")
    mean, spread, low, high = (
        # To the digit that matters: returns are thousands in one suite, hundredths in another.
        f"{value:.1f}" if result.returns.max() >= 100 else f"{value:.2f}"
        for value in (result.returns.mean(), result.returns.std(), result.returns.min(), result.returns.max())
    )
    print(f"{found}: return {mean} ± {spread} (std over {len(result.returns)} episodes)")
    print(f"  lowest {low}, highest {high}, mean length {result.lengths.mean():.0f}")
    if "eval_success" in (summary := result.summary()):
        print(f"  success {100 * summary['eval_success']:.0f}%")
    if options.out:
        result.write_csv(Path(options.out), str(found))
        print(f"wrote {options.out}")
    return 0


def _play(arguments: list[str]) -> int:
    path, rest = leading_path(arguments)
    options = _options(PlayOptions, rest, "flashsac play RUN", needs=path)
    from flashsac.policies.find import find, play
    from flashsac.policies.video import has_display, show

    if options.window or (options.window is None and options.out is None and has_display()):
        found = find(str(path), options.task, options.checkpoint, options.env.options, options.env.engine)
        show(found.policy, found.task, found.env, seed=options.seed, seconds=options.seconds)
        return 0
    out = play(
        str(path),
        options.task,
        options.out,
        seconds=options.seconds,
        seed=options.seed,
        checkpoint=options.checkpoint,
        options=options.env.options,
        engine=options.env.engine,
        say=lambda line: print(line, flush=True),
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

    published = Path(options.published) if options.published else None
    for file in report(group_paths(paths), Path(options.out), published, say=print):
        print(f"wrote {file}")
    return 0


def _export(arguments: list[str]) -> int:
    from flashsac.cli import export

    return export.main(arguments)


def _deploy(arguments: list[str]) -> int:
    from flashsac.cli import deploy

    return deploy.main(arguments)


def _bench(arguments: list[str]) -> int:
    options = _options(BenchOptions, arguments, "flashsac bench", needs=arguments)
    import torch

    from flashsac.bench import figures
    from flashsac.bench import measure as bench
    from flashsac.errors import FlashSACError
    from flashsac.training.compile import compiler_missing

    if options.compare and Path(options.compare).resolve() == Path(options.out).resolve():
        raise FlashSACError(f"the figures in {options.compare} would be overwritten: name another file with --out.")
    try:
        earlier = figures.read_csv(Path(options.compare)) if options.compare else None
    except FileNotFoundError as error:
        raise FlashSACError(f"there is no file {options.compare} to compare with.") from error
    except (OSError, KeyError, ValueError) as error:
        raise FlashSACError(f"{options.compare} holds no figures of an earlier `flashsac bench`.") from error
    if not options.seconds > 0:
        raise FlashSACError(f"--seconds must be above 0, not {options.seconds:g}.")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    problem = compiler_missing() if options.compile == "on" else None
    if problem:
        print(problem)
    compiled = options.compile == "on" and problem is None
    rows: list[figures.Row] = []
    for part in bench.Bench(options.preset, options.precision, options.seconds, compiled, device).run(options.parts):
        rows += part
        print(figures.table(part, earlier))
        figures.write_csv(rows, Path(options.out))
    for line in figures.caveats(rows, earlier):
        print(f"note: {line}")
    print(f"wrote {options.out}")
    return 0


def _list(arguments: list[str]) -> int:
    from flashsac.cli.list import print_tasks

    wanted, rest = leading(arguments)
    if rest not in ([], ["--paper"]):
        print(
            "usage: flashsac list [SUITE or WORD] [--paper]\n\nThe suites; or a suite's tasks, dimensions and scores; or the tasks "
            "with WORD in their name. --paper: only the paper's."
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


if __name__ == "__main__":
    sys.exit(main())
