"""Videos of a policy. Drawing happens in a process of its own: a renderer that aborts must never take a run with it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, RenderError
from flashsac.policies.policy import Acting, Policy, read_policy
from flashsac.sims.make import make_env
from flashsac.sims.user_env import more_like
from flashsac.system.children import PythonChild
from flashsac.system.files import replacing
from flashsac.system.gl import GL_HINT

FORMATS = (".mp4", ".mkv", ".mov", ".avi")
PATIENCE = 1800.0
"""Seconds after which a renderer is given up."""
PACE = 5.0
"""Seconds between lines that say how far the drawing is."""
MARK = "flashsac-frame "
"""What such a line of the drawing process begins with; simulators print lines of their own."""

Say = Callable[[str], None]


def record(
    policy: Policy | Path,
    out: Path,
    *,
    task: Any = None,
    env: EnvConfig | None = None,
    seed: int = 0,
    seconds: float = 10.0,
    say: Say | None = None,
) -> Path:
    """Write a video of one episode (at most `seconds` of it). `env` is what it was trained with, by default what the
    policy itself knows of it. RenderError says what to install."""
    policy = read_policy(policy) if isinstance(policy, Path) else policy
    task = policy.named_task() if task is None else task
    env = to_draw(env or policy.env_config())
    say = say or (lambda line: None)
    if isinstance(task, str):
        _record_apart(policy, task, env, out, seed, seconds, say)
        return out
    # A user's own object cannot be handed to another process; such environments draw through Gymnasium, which raises.
    try:
        return record_here(policy, task, env, out, seed, seconds, say)
    except Exception as error:  # whatever a user's own environment throws when it is asked to draw
        raise RenderError(f"no video: {_reason(error)}") from error


def to_draw(env: EnvConfig) -> EnvConfig:
    """One environment, on whichever engine draws best, unless the settings are those of one engine."""
    return dataclasses.replace(env, num_envs=1, overlap=False, engine=env.engine if env.options else "auto")


def checked_out(out: Path) -> Path:
    """The file to write, .mp4 unless it says otherwise; refuses what could not be written, before anything is made."""
    out = out if out.suffix else out.with_name(f"{out.name}.mp4")
    if out.suffix.lower() not in FORMATS:
        raise RenderError(f"{out}: a video's name ends in {', '.join(FORMATS)}.")
    if not out.parent.is_dir():
        raise RenderError(
            f"{out} cannot be written: there is no directory {out.parent}. Name a file in one that exists."
        )
    return out


def _record_apart(policy: Policy, task: str, env: EnvConfig, out: Path, seed: int, seconds: float, say: Say) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.safetensors"
        policy.save(file)
        settings = json.dumps(dataclasses.asdict(env))
        draw_apart("flashsac.policies.video", (str(file), task, settings, str(out), str(seed), str(seconds)), task, say)


def draw_apart(module: str, arguments: Sequence[str], task: str, say: Say) -> None:
    """Run a module that draws (see `drawing`) in a process of its own. RenderError says what to install."""
    with PythonChild("-m", module, *arguments, stdout=subprocess.PIPE, text=True) as child:
        child.kill_after(PATIENCE)
        assert child.process.stdout is not None
        for line in child.process.stdout:
            if line.startswith(MARK):
                say(line.removeprefix(MARK).rstrip())
        code, said, in_time = child.wait(), child.last_line(), not child.timed_out
    if code == 0:
        return
    reason = said or f"the renderer died with code {code}"
    if not in_time:
        reason = f"it was not drawn after {PATIENCE / 60:.0f} minutes. Draw fewer --seconds"
    about_gl = in_time and (not said or re.search(r"\bE?GL\b|egl|glfw|osmesa|glad|display", reason, re.IGNORECASE))
    hint = f" {GL_HINT}" if about_gl and "apt-get" not in reason else ""
    raise RenderError(f"no video of {task}: {reason.rstrip('.')}.{hint}")


def record_here(policy: Acting, task: Any, config: EnvConfig, out: Path, seed: int, seconds: float, say: Say) -> Path:
    """The drawing itself, in this process."""
    import imageio.v2 as imageio

    env = make_env(more_like(task), config, render=True)
    fps, total, said = env.spec.fps, max(1, round(seconds * env.spec.fps)), time.monotonic()
    try:
        if isinstance(policy, Policy):
            policy.check_fits(env.spec)
        obs = env.reset(seed)
        frame = _even(env.render())  # what cannot be drawn leaves neither a file nor a directory behind
        out.parent.mkdir(exist_ok=True)  # a run's videos
        writer: Any
        with (
            replacing(out, in_place=True) as temporary,
            # macro_block_size=2: H.264 needs even sizes, and must not blow 480 up to 496.
            imageio.get_writer(temporary, fps=fps, macro_block_size=2, quality=7) as writer,
        ):
            for done in range(1, total + 1):
                writer.append_data(frame)
                step = env.step(policy.act(obs))
                obs = step.obs
                if done == total:
                    break
                if bool(step.terminated[0] | step.truncated[0]):
                    say(f"  the episode ended after {done / fps:.1f} of {seconds:g} s")
                    break
                frame = _even(env.render())
                if time.monotonic() - said > PACE:
                    said = time.monotonic()
                    say(f"  frame {done} of {total}")
    finally:
        env.close()
    return out


def has_display() -> bool:
    """True if a window could be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform in ("darwin", "win32")


def show(policy: Policy, task: Any, config: EnvConfig, *, seed: int, seconds: float) -> None:
    """Play in a window, at real speed, until the time is up or the window is closed."""
    from matplotlib import pyplot as plt

    if plt.get_backend().lower() == "agg":
        raise RenderError(
            "matplotlib found no window toolkit. Install one (apt-get install python3-tk), or use --out FILE."
        )
    env = make_env(task, to_draw(config), render=True)
    try:
        policy.check_fits(env.spec)
        obs = env.reset(seed)
        picture = plt.imshow(env.render())
        plt.axis("off")
        for _ in range(round(seconds * env.spec.fps)):
            step = env.step(policy.act(obs))
            obs = step.obs
            picture.set_data(env.render())
            plt.pause(0.5 / env.spec.fps)
            if not plt.get_fignums():
                break
    finally:
        env.close()


def _even(frame: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2])


def _reason(error: Exception) -> str:
    """One line, a sentence also where an exception says nothing but its name."""
    if isinstance(error, FlashSACError):
        return str(error)
    name, text = type(error).__name__, str(error).replace("\n", " ").strip()
    return f"{name}: {text}" if text else f"the environment could not be drawn ({name})"


def drawing(draw: Callable[[Say], Any]) -> int:
    """What the main function of a module that draws does; returns its exit code."""
    try:
        draw(lambda line: print(f"{MARK}{line}", flush=True))
    except Exception as error:  # whatever a renderer throws; the caller prints this line
        print(_reason(error), file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    policy, task, settings, out, seed, seconds = arguments
    env = EnvConfig(**json.loads(settings))
    return drawing(
        lambda say: record_here(read_policy(Path(policy)), task, env, Path(out), int(seed), float(seconds), say)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
