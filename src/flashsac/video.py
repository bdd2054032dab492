"""Videos of a policy. Drawing happens in a process of its own: a renderer that aborts must never take a run with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from flashsac.errors import FlashSACError, RenderError
from flashsac.policy import Policy, load_policy
from flashsac.sims.gl import GL_HINT
from flashsac.sims.registry import make_env, more_like


def record(policy_file: Path, out: Path, *, task: Any = None, seed: int = 0, seconds: float = 10.0) -> Path:
    """Write an mp4 of one episode (at most `seconds` of it). Raises RenderError, saying what to install."""
    policy = load_policy(policy_file)
    task = policy.task if task is None else task
    if not isinstance(task, str):
        # A user's own object cannot be handed to another process; such environments draw through Gymnasium, which raises.
        return record_here(policy, task, out, seed, seconds)
    command = [sys.executable, "-m", "flashsac.video", str(policy_file), task, str(out), str(seed), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        reason = (
            done.stderr.strip().splitlines()[-1]
            if done.stderr.strip()
            else f"the renderer died with code {done.returncode}"
        )
        about_gl = not done.stderr.strip() or re.search(r"\bE?GL\b|egl|glfw|osmesa|glad|display", reason, re.IGNORECASE)
        hint = f" {GL_HINT}" if about_gl and "apt-get" not in reason else ""
        raise RenderError(f"no video of {task}: {reason.rstrip('.')}.{hint}")
    return out


def record_here(policy: Policy, task: Any, out: Path, seed: int, seconds: float) -> Path:
    """The drawing itself, in this process."""
    import imageio.v2 as imageio

    env = make_env(more_like(task), policy.env_config(), render=True)
    fps = env.spec.fps
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        obs = env.reset(seed)
        # macro_block_size=2: H.264 needs even sizes, and must not blow 480 up to 496.
        writer: Any
        with imageio.get_writer(out, fps=fps, macro_block_size=2, quality=7) as writer:
            for _ in range(round(seconds * fps)):
                writer.append_data(_even(env.render()))
                step = env.step(policy.act(obs))
                obs = step.obs
                if bool(step.terminated[0] | step.truncated[0]):
                    break
    finally:
        env.close()
    return out


def has_display() -> bool:
    """True if a window could be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) or sys.platform in ("darwin", "win32")


def show(policy_file: Path, task: str, *, seed: int, seconds: float) -> None:
    """Play in a window, at real speed, until the time is up or the window is closed."""
    from matplotlib import pyplot as plt

    if plt.get_backend().lower() == "agg":
        raise RenderError(
            "matplotlib found no window toolkit. Install one (apt-get install python3-tk), or use --out FILE."
        )
    policy = load_policy(policy_file)
    env = make_env(task, policy.env_config(), render=True)
    try:
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


def main(arguments: list[str]) -> int:
    policy_file, task, out, seed, seconds = arguments
    try:
        record_here(load_policy(policy_file), task, Path(out), int(seed), float(seconds))
    except FlashSACError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:  # whatever a renderer throws; the caller prints this line
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
