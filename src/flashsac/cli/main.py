"""The command line. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

import errno
import importlib
import os
import shlex
import sys

COMMANDS = (
    "train",
    "resume",
    "eval",
    "play",
    "sweep",
    "baseline",
    "report",
    "coverage",
    "watch",
    "export",
    "deploy",
    "list",
    "bench",
)
"""Each is a module beside this one, with a function `main(arguments) -> exit code`."""

USAGE = """\
usage: flashsac COMMAND ...

FlashSAC: fast, stable off-policy reinforcement learning for robots.

  train TASK [--preset NAME] [...]   train a robot          flashsac train mujoco:HalfCheetah-v4 --preset laptop
  resume RUN [--device NAME]         go on with a run       flashsac resume runs/cheetah
  eval RUN [--episodes N]            measure a policy       flashsac eval runs/cheetah
  play RUN [--out FILE]              watch it               flashsac play runs/cheetah
  sweep WHAT --out DIR [...]         train many runs        flashsac sweep ablation/exploration --laptop --out runs/explore
  baseline ALGO TASK [...]           another algorithm      flashsac baseline sac mujoco:HalfCheetah-v4
  report RUN ... --out DIR           curves and scores      flashsac report runs --out curves
  coverage RUN [--x COL --y COL]     what its data cover    flashsac coverage runs/cheetah --x obs:3 --y action:0
  watch [RUN ...]                    follow runs live       flashsac watch runs
  export RUN [--out FILE]            write it as ONNX       flashsac export runs/g1 --out g1.onnx
  deploy FILE [--robot NAME]         run it on a robot      flashsac deploy g1.onnx --robot mujoco
  list [SUITE or WORD]               simulators and tasks   flashsac list dmc
  bench [--compare FILE]             speed and memory here  flashsac bench --out bench.csv

TASK is suite:task, or module:function of your own that makes a Gymnasium environment.
RUN is a run directory (or, for eval, play and export, a checkpoint or a policy file). `flashsac COMMAND --help` says more.
"""


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    is_command, arguments = arguments is None, sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE)
        return 0
    if arguments[0] in ("--version", "version"):
        from importlib.metadata import version

        print(f"flashsac {version('flashsac')}")
        return 0
    if arguments[0] not in COMMANDS:
        from flashsac.system.suggest import did_you_mean

        meant = did_you_mean(arguments[0], COMMANDS)
        print(f"error: there is no command '{arguments[0]}'.{meant}\n\n{USAGE}", file=sys.stderr)
        return 2
    from flashsac.errors import CannotBegin, FlashSACError, LeadFailed, UntrustedRun
    from flashsac.system.children import SAFE_PATH
    from flashsac.system.memory import use_large_pages

    if is_command:
        os.environ.setdefault(SAFE_PATH, "1")  # packages start interpreters too, some when they are imported
    use_large_pages()
    try:
        return importlib.import_module(f"flashsac.cli.{arguments[0]}").main(arguments[1:])
    except LeadFailed:
        return 1
    except FlashSACError as error:
        print("\n".join((f"{_who()}error: {error}", *_notes(error))), file=sys.stderr)
        if isinstance(error, UntrustedRun):
            print(f"to allow it:\n  flashsac {shlex.join([*arguments, '--task', error.task])}", file=sys.stderr)
        return 2 if isinstance(error, CannotBegin) else 1
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
    except KeyboardInterrupt as error:
        training = arguments[0] in ("train", "resume", "sweep", "baseline")
        line = f"stopped at once{'; checkpoints that were saved before are whole' if training else ''}"
        print("\n".join((line, *_notes(error))), file=sys.stderr)
        return 130


def _who() -> str:
    """Which of several processes speaks."""
    return f"rank {os.environ['RANK']}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ else ""


def _notes(error: BaseException) -> list[str]:
    """What was added to an error on its way: where a checkpoint lies."""
    return getattr(error, "__notes__", [])


if __name__ == "__main__":
    sys.exit(main())
