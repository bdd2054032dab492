"""Images as adapters hand them over: channels first, the newest few frames as one observation."""

from __future__ import annotations

import collections

import numpy as np


class FrameStack:
    """The newest frames of one environment, oldest first; an episode's first frame stands for those before it."""

    def __init__(self, size: int):
        self._frames: collections.deque[np.ndarray] = collections.deque(maxlen=size)

    def begin(self, frame: np.ndarray) -> np.ndarray:
        """An episode's first observation."""
        self._frames.extend([frame] * (self._frames.maxlen or 1))
        return self._observation()

    def add(self, frame: np.ndarray) -> np.ndarray:
        """The observation with this frame as its newest."""
        self._frames.append(frame)
        return self._observation()

    def _observation(self) -> np.ndarray:
        return np.concatenate(self._frames)


def channels_first(image: np.ndarray) -> np.ndarray:
    """(height, width, channels), or already (channels, height, width), to the latter: there are fewer channels than
    rows."""
    return np.moveaxis(image, -1, 0) if image.shape[-1] <= image.shape[0] else image
