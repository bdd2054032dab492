"""Stop a run in the middle and resume it. It ends exactly as a run that was never stopped."""

from __future__ import annotations

from typing import Any

import gymnasium

import flashsac


def make_env() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


class StopHalfWay(flashsac.Hooks):
    """A stand-in for Ctrl-C: both end the run after the current step, with everything saved."""

    def __init__(self, step: int):
        self.step = step

    def before_step(self, trainer: Any) -> None:
        if trainer.step >= self.step:
            trainer.stop()


def main(run_dir: str = "runs/resumed", preset: str = "laptop", steps: int = 20_000, **settings: Any) -> None:
    half = StopHalfWay(steps // 2)
    stopped = flashsac.train(make_env, preset=preset, steps=steps, run_dir=run_dir, hooks=[half], **settings)
    print(f"stopped at step {stopped.step:,}: {stopped.run_dir}")
    finished = flashsac.resume(run_dir, make_env)  # with a task name instead of a function: flashsac.resume(run_dir)
    print(f"finished at step {finished.step:,}")


if __name__ == "__main__":
    main()
