"""Errors meant for the user: they say what is wrong and what to do next, and the CLI prints them without a
traceback."""


class FlashSACError(Exception):
    """A problem the user can fix. The message ends with what to do next."""


class CannotBegin(FlashSACError):
    """What was asked for cannot begin, however often it is tried. The exit code is 2."""


class UsageError(CannotBegin):
    """A command lacks an argument that it needs."""


class UnknownTask(CannotBegin):
    """The task name matches nothing that is registered."""


class MissingExtra(CannotBegin):
    """A simulator or tool is not installed."""


class UnsupportedSpace(CannotBegin):
    """An observation or action space that FlashSAC cannot train on."""


class BadSimulation(FlashSACError):
    """The simulator returned too many NaN or Inf values, or arrays of the wrong shape."""


class RankLost(FlashSACError):
    """Another process of a run over several is gone, or cannot be reached."""


class LeadFailed(FlashSACError):
    """The first process of a run could not begin, and has said why."""


class RanksDiffer(FlashSACError):
    """The processes of a run hold different weights."""


class Diverged(FlashSACError):
    """The networks hold NaN or Inf."""


class NotEnoughMemory(FlashSACError):
    """The replay buffer, or the environments, would not fit."""


class RunDirectoryError(FlashSACError):
    """The run directory exists, is in use, or holds something else."""


class OtherAlgorithm(FlashSACError):
    """A run directory holds a baseline's run, and what was asked for works with FlashSAC's own."""


class UntrustedRun(FlashSACError):
    """A run directory names a module, and nobody has said that its code may run."""

    def __init__(self, message: str, task: str):
        super().__init__(message)
        self.task = task


class CheckpointError(FlashSACError):
    """A checkpoint is missing, corrupt, foreign, or could not be written."""


class RenderError(FlashSACError):
    """No video could be made."""


class EvaluationAbandoned(FlashSACError):
    """An evaluation was told to end before it had a result."""


class EvaluationLost(FlashSACError):
    """The process that evaluates has died. Training need not."""
