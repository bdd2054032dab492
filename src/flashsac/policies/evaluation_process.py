"""Evaluation in a process of its own, for simulators that allow only one environment in a process.

Training must not lend its environment: its episodes would be cut and its next transitions would be false. The child is
a fresh interpreter that makes its own environment once; after that, weights go in and scores come out, as plain bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import struct
import subprocess
import sys
import threading
import time
from typing import IO, Any

import numpy as np
import torch
from safetensors.torch import load, save

from flashsac.config.schema import EnvConfig, TrainConfig
from flashsac.errors import EvaluationAbandoned, EvaluationLost, FlashSACError
from flashsac.policies.evaluation import Evaluation, Evaluator
from flashsac.policies.policy import Policy, policy_from
from flashsac.sims.make import must_evaluate_apart
from flashsac.sims.user_env import more_like
from flashsac.system.children import PythonChild
from flashsac.system.memory import keep_freed_memory

EVAL_SEED = 1_000_003
"""The offset from the run's seed, so that evaluation never repeats training episodes."""
PATIENCE = 30.0
"""Seconds until a child that is told to end is killed; simulators can be slow to shut down."""
HANG_SECONDS = 600.0
"""Seconds that a child may take for one step, or to make its environments; like PATIENCE of the workers
(sims/vector)."""
SIGN_OF_LIFE = b""
"""What the child sends at most once a second while it evaluates."""


def make_evaluator(task: Any, config: TrainConfig) -> Evaluator | ProcessEvaluator:
    """Beside the training environment, or in another process where the simulator allows no second one."""
    settings: dict[str, Any] = dict(
        config=config.env, episodes=config.eval.episodes, seed=config.seed + EVAL_SEED, device=config.device
    )
    if must_evaluate_apart(task, config.env):
        return ProcessEvaluator(task, **settings)
    return Evaluator(more_like(task), **settings)


class ProcessEvaluator:
    """Like Evaluator; the policy's weights travel. The child starts with the first evaluation.

    A child that gives no sign of life for `patience` seconds (default: HANG_SECONDS) is killed; the next evaluation
    starts another.
    """

    def __init__(
        self,
        task: str,
        config: EnvConfig,
        episodes: int,
        seed: int,
        *,
        device: str = "cpu",
        patience: float | None = None,
    ):
        self.patience = HANG_SECONDS if patience is None else patience
        self._settings = {
            "task": task,
            "config": dataclasses.asdict(config),
            "episodes": episodes,
            "seed": seed,
            "device": device,
            # The same sums in the same order: the child's scores are what this process would have found.
            "threads": torch.get_num_threads(),
        }
        self._child: PythonChild | None = None
        self._abandoned = False

    def evaluate(self, policy: Policy) -> Evaluation:
        policy.require_finite()
        self._child = child = self._child or self._start()
        if self._abandoned:
            raise EvaluationAbandoned("told to stop")
        answer = self._ask(child, policy)
        if answer is None:
            self._child, hung = None, child.timed_out
            code, said = _end(child)
            if self._abandoned:
                raise EvaluationAbandoned("told to stop")
            if hung:
                raise EvaluationLost(
                    f"the evaluation process for {self._settings['task']} has not made a step for {self.patience:.0f} s: its "
                    "simulator hangs, so it was killed. If that repeats, train without evaluation: --eval.every 0."
                )
            raise EvaluationLost(
                f"the evaluation process for {self._settings['task']} died with code {code}{said and f': {said}'}.\nIf memory ran "
                "out, evaluate fewer episodes at a time (--eval.episodes); to train without evaluation: --eval.every 0."
            )
        content = json.loads(answer)
        if "error" in content:
            raise FlashSACError(content["error"])
        returns, lengths, successes = (np.array(content[name]) for name in ("returns", "lengths", "successes"))
        return Evaluation(returns, lengths, successes, content["void"], content["cut"])

    def _ask(self, child: PythonChild, policy: Policy) -> bytes | None:
        """The child's answer; None if it died or was killed."""
        requests, answers = _pipes(child)
        try:
            child.kill_after(self.patience)
            _send(requests, json.dumps(policy.meta).encode())
            _send(requests, save(policy.weights()))
            while (answer := _receive(answers)) == SIGN_OF_LIFE:
                child.kill_after(self.patience)
        except BrokenPipeError:
            return None
        child.kill_after(None)
        return answer

    def abandon(self) -> None:
        """Like Evaluator's. The child has nothing to save."""
        self._abandoned = True
        if self._child is not None:
            self._child.process.kill()

    def _start(self) -> PythonChild:
        return PythonChild(
            "-m",
            "flashsac.policies.evaluation_process",
            json.dumps(self._settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the trainer, which then ends us in order
        )

    def close(self) -> int | None:
        """End the child, if there is one; return its exit code."""
        if self._child is None:
            return None
        child, self._child = self._child, None
        return _end(child)[0]


def _pipes(child: PythonChild) -> tuple[IO[bytes], IO[bytes]]:
    """The pipes: requests go in at one, answers come out at the other."""
    assert child.process.stdin is not None
    assert child.process.stdout is not None
    return child.process.stdin, child.process.stdout


def _end(child: PythonChild) -> tuple[int, str]:
    """Let the child end, or kill it when it takes too long; return its exit code and its last line."""
    with child:
        with contextlib.suppress(BrokenPipeError):
            _pipes(child)[0].close()  # the child ends when there is nothing more to read
        child.kill_after(PATIENCE)
        return child.wait(), child.last_line()


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(struct.pack("<Q", len(message)) + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    """None if the other side is gone."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    (length,) = struct.unpack("<Q", head)
    message = stream.read(length)
    return message if len(message) == length else None


def serve(settings: dict[str, Any], requests: IO[bytes], answers: IO[bytes]) -> None:
    """The child: evaluate every policy that arrives, until the other side is gone."""
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    torch.set_num_threads(settings["threads"])
    keep_freed_memory()
    device = settings["device"]
    evaluator: Evaluator | None = None
    while (meta_bytes := _receive(requests)) is not None and (weights := _receive(requests)) is not None:
        policy = policy_from(json.loads(meta_bytes), load(weights), source="the trainer")
        answer: dict[str, Any]
        try:
            if evaluator is None:
                config = EnvConfig(**settings["config"])
                evaluator = Evaluator(settings["task"], config, settings["episodes"], settings["seed"], device=device)
            result = evaluator.evaluate(policy.to(device), _Alive(answers))
            answer = {name: getattr(result, name).tolist() for name in ("returns", "lengths", "successes")}
            answer |= {"void": result.void, "cut": result.cut}
        except FlashSACError as error:
            answer = {"error": str(error)}
        _send(answers, json.dumps(answer).encode())
    if evaluator is not None:
        evaluator.close()


class _Alive:
    """A function that sends a sign of life when it is called, at most one a second."""

    def __init__(self, answers: IO[bytes]):
        self._answers, self._sent = answers, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._sent >= 1.0:
            _send(self._answers, SIGN_OF_LIFE)
            self._sent = time.monotonic()


def _die_with(parent: int) -> None:
    """A trainer that was killed reads no answers: do not go on evaluating, with all the memory that takes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main() -> None:
    # What simulators print must not get between the answers: from here on, stdout is stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
