"""The policy that evaluated best so far, kept beside the checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flashsac.runs import layout
from flashsac.runs.seal import MALFORMED, parse_object
from flashsac.sims.catalog import tasks
from flashsac.system.files import make_folder, replacing, write_atomic

SCORE = "best.json"


class Score(NamedTuple):
    """What policies are ranked by. Success comes first where the task is judged by it, and is 0 elsewhere."""

    success: float
    value: float
    """The evaluated return."""


WORST = Score(0.0, -math.inf)


class BestPolicy:
    """checkpoints/best.safetensors, and best.json, which says what it scored."""

    def __init__(self, run_dir: Path, task: str):
        self.folder = run_dir / layout.CHECKPOINTS
        self.score = WORST
        """The best score so far."""
        self.written = WORST
        """The score of the policy on disk: a full disk may have kept the best one from it."""
        self.unwritten: tuple[dict[str, float], Callable[[Path], None]] | None = None
        """What best.json shall say, and how to write the policy; None if both are on the disk."""
        known = tasks().get(task)
        self._by_success = known is not None and known.metric == "success"

    def offer(self, step: int, evaluation: dict[str, float], write_policy: Callable[[Path], None]) -> None:
        """Keep the policy that was just evaluated if it is better than all before. `write` puts it on the disk."""
        success = evaluation.get("eval_success", 0.0)
        score = Score(success if self._by_success else 0.0, evaluation["eval_return"])
        if score > self.score:
            content = {"step": step, "return": score.value} | ({"success": success} if self._by_success else {})
            self.score, self.unwritten = score, (content, write_policy)

    def write(self) -> None:
        """Write the policy that is kept, if there is one. After an OSError it is still kept, and can be written
        later."""
        if self.unwritten is None:
            return
        content, write_policy = self.unwritten
        make_folder(self.folder)
        # The policy first: a crash between the two leaves a policy that is better than its score, not a worse one.
        with replacing(self.folder / layout.BEST) as temporary:
            write_policy(temporary)
        write_atomic(self.folder / SCORE, json.dumps(content))
        self.written, self.unwritten = self.score, None

    def restore(self, saved: float | list[float]) -> None:
        """The score in a checkpoint, or that of the policy on disk, which may be newer."""
        # The first checkpoints hold the return alone.
        score = Score(*saved) if isinstance(saved, list) else Score(0.0, saved)
        self.score = self.written = max(score, best_score(self.folder.parent))


def best_score(run_dir: Path) -> Score:
    """The score of the best policy on disk."""
    try:
        content = parse_object((run_dir / layout.CHECKPOINTS / SCORE).read_text())
        score = Score(float(content.get("success", 0.0)), float(content["return"]))
    except (OSError, *MALFORMED):
        return WORST
    return WORST if math.isnan(score.value) or math.isnan(score.success) else score
