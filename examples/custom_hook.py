"""Act at given moments of a run with a hook: here, stop early once the policy is good enough, and count the saved
checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium

import flashsac


class StopWhenGood(flashsac.Hooks):
    """A hook overrides the moments it needs; `flashsac.Hooks` lists them all."""

    def __init__(self, target: float):
        self.target, self.checkpoints = target, 0

    def after_row(self, trainer: Any, row: dict[str, float]) -> None:
        if row.get("eval_return", -float("inf")) >= self.target:
            trainer.stop()  # everything is saved; `flashsac resume` would go on

    def after_save(self, trainer: Any, checkpoint: Path) -> None:
        self.checkpoints += 1


def make_env() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


def main(
    run_dir: str = "runs/hooked", preset: str = "laptop", steps: int = 20_000, target: float = -250.0, **settings: Any
) -> StopWhenGood:
    hook = StopWhenGood(target)
    result = flashsac.train(make_env, preset=preset, steps=steps, run_dir=run_dir, hooks=[hook], **settings)
    print(f"ended at step {result.step:,}, {hook.checkpoints} checkpoints saved")
    return hook


if __name__ == "__main__":
    main()
