"""`flashsac eval`: the returns of a trained policy."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from flashsac.cli.parsing import Run, SimulatorOptions, TrustRun, parse


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Evaluate a trained policy: deterministic actions, in environments of its own."""

    run: Run
    """Run directory, checkpoint or policy file."""
    episodes: int = 10
    """Episodes to run."""
    seed: int = 12345
    """Seed of the episodes."""
    out: str | None = None
    """CSV file with a row for every episode."""
    task: str | None = None
    """Task to evaluate on: suite:task, or module:function (default: the training's task, with its --env.options)."""
    trust_run: TrustRun = False
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(EvalOptions, arguments, "eval", question="which run? usage: flashsac eval RUN")
    from flashsac.policies.evaluation import evaluate_policy
    from flashsac.policies.find import locate_policy, policy_file

    found = locate_policy(
        options.run,
        options.task,
        options.checkpoint,
        options.env.options,
        options.env.engine,
        trust_run=options.trust_run,
    )
    result = evaluate_policy(found, options.episodes, options.seed)
    print(f"policy: {policy_file(Path(options.run), options.checkpoint)}")
    mean, spread, low, high = (
        # Returns are thousands in one suite and hundredths in another.
        f"{value:.1f}" if result.returns.max() >= 100 else f"{value:.2f}"
        for value in (result.returns.mean(), result.returns.std(), result.returns.min(), result.returns.max())
    )
    print(f"{found}: return {mean} ± {spread} (std over {len(result.returns)} episodes)")
    print(f"  lowest {low}, highest {high}, mean length {result.lengths.mean():.0f}")
    if result.problem:
        print(f"  warning: {result.problem}")
    if "eval_success" in (summary := result.summary()):
        print(f"  success {100 * summary['eval_success']:.0f}%")
    if options.out:
        result.write_csv(Path(options.out), str(found))
        print(f"wrote {options.out}")
    return 0
