"""A picture of a video: frames side by side, to look at where a video cannot be shown.

python benchmarks/film_strip.py runs/demo/videos/final.mp4 benchmarks/results/demo.png
"""

from __future__ import annotations

import sys

import imageio.v2 as imageio
import numpy as np

COUNT = 4


def main(
    video: str,
    out: str,
    start: float = 2.0,
    seconds: float = 1.0,
    top: float = 0.4,
    left: float = 1 / 12,
    right: float = 1.0,
) -> None:
    """`top`, `left`, `right`: where to cut, as parts of a frame; the rest is sky."""
    reader = imageio.get_reader(video)
    frames = imageio.mimread(video, memtest=False)
    fps = reader.get_meta_data()["fps"]
    picks = np.linspace(start * fps, (start + seconds) * fps, COUNT).round().astype(int).clip(0, len(frames) - 1)
    height, width = frames[0].shape[:2]
    strip = [frames[i][int(height * top) :, int(width * left) : int(width * right)] for i in picks]
    imageio.imwrite(out, np.concatenate(strip, axis=1)[::2, ::2])


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(float, sys.argv[3:]))
