"""`flashsac play`: a window or a video of a trained policy."""

from __future__ import annotations

import dataclasses

from flashsac.cli.parsing import Run, SimulatorOptions, TrustRun, parse


@dataclasses.dataclass(frozen=True)
class PlayOptions:
    """Watch a trained policy: a window where there is a display, a video otherwise."""

    run: Run
    """Run directory, checkpoint or policy file."""
    out: str | None = None
    """Video file (default: RUN/videos/play.mp4)."""
    seconds: float = 15.0
    """Length of the video, in simulated time."""
    seed: int = 12345
    """Seed of the episode."""
    window: bool | None = None
    """Force a window or a video file; by default a window where there is a display."""
    task: str | None = None
    """Task to play: suite:task, or module:function (default: the training's task, with its --env.options)."""
    trust_run: TrustRun = False
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(PlayOptions, arguments, "play", question="which run? usage: flashsac play RUN")
    from flashsac.api import play
    from flashsac.policies.find import locate_policy
    from flashsac.policies.video import has_display, show

    if options.window or (options.window is None and options.out is None and has_display()):
        found = locate_policy(
            options.run,
            options.task,
            options.checkpoint,
            options.env.options,
            options.env.engine,
            trust_run=options.trust_run,
        )
        show(found.policy, found.task, found.env, seed=options.seed, seconds=options.seconds)
        return 0
    out = play(
        options.run,
        options.task,
        options.out,
        seconds=options.seconds,
        seed=options.seed,
        checkpoint=options.checkpoint,
        options=options.env.options,
        engine=options.env.engine,
        trust_run=options.trust_run,
        say=lambda line: print(line, flush=True),
    )
    print(f"wrote {out}")
    return 0
