"""Export a policy to ONNX and call it with NumPy alone, as a robot's computer would: no PyTorch, no flashsac."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import onnxruntime

import flashsac


def make_env() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


def main(run_dir: str = "runs/exported", preset: str = "laptop", steps: int = 20_000, **settings: Any) -> float:
    flashsac.train(make_env, preset=preset, steps=steps, run_dir=run_dir, **settings)
    file = flashsac.export(run_dir, make_env)  # from a shell: flashsac export RUN --task my_module:make_env

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (name,) = (value.name for value in session.get_inputs())
    env = make_env()
    low, high = env.action_space.low, env.action_space.high
    obs, _ = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        unit = session.run(None, {name: np.asarray(obs, np.float32)[None]})[0][0]  # in [-1, 1]
        obs, reward, terminated, truncated, _ = env.step(low + 0.5 * (unit + 1.0) * (high - low))
        total, over = total + float(reward), terminated or truncated
    print(f"return of one episode with NumPy and ONNX Runtime: {total:.1f}")
    return total


if __name__ == "__main__":
    main()
