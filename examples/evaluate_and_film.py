"""Train, evaluate the best policy over many episodes, and film it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flashsac

TASK = "mujoco:InvertedPendulum-v4"


def main(run_dir: str = "runs/balance", preset: str = "laptop", steps: int = 15_000, **settings: Any) -> Path:
    flashsac.train(TASK, preset=preset, steps=steps, run_dir=run_dir, **settings)
    scores = flashsac.evaluate(run_dir, episodes=20).summary()  # the best policy; checkpoint="last" for the newest
    for name, value in scores.items():
        print(f"{name}: {value:.4g}")
    film = flashsac.play(run_dir, seconds=5.0)
    print(f"video: {film}")
    return film


if __name__ == "__main__":
    main()
