"""Pictures of the rough task's ground: all tiles from above, and the G1 on the hardest tile of each kind. Needs mjlab.

python benchmarks/terrain_picture.py      writes benchmarks/results/g1-terrain.png
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from matplotlib import pyplot as plt
from mjlab.scene import Scene
from mjlab.tasks.registry import load_env_cfg

import flashsac.integrations.mjlab.tasks  # noqa: F401 (registers the task)
from flashsac.tasks.g1.terrain import TERRAIN

OUT = Path(__file__).parent / "results" / "g1-terrain.png"
LEVEL = TERRAIN.levels - 1
MOST_SHAPES = 50_000
"""The grid alone has thousands; the renderer leaves out what is beyond its default."""


def camera(lookat: np.ndarray, distance: float, azimuth: float, elevation: float) -> mujoco.MjvCamera:
    view = mujoco.MjvCamera()
    view.lookat[:], view.distance, view.azimuth, view.elevation = lookat, distance, azimuth, elevation
    return view


def main() -> None:
    cfg = load_env_cfg("FlashSAC-G1-Rough")
    cfg.scene.num_envs = 1
    scene = Scene(cfg.scene, device="cpu")
    scene.spec.visual.global_.offwidth, scene.spec.visual.global_.offheight = 1280, 960
    model = scene.compile()
    data = mujoco.MjData(model)
    origins = scene.terrain.terrain_origins.numpy()  # level, kind, xyz
    kinds = list(cfg.scene.terrain.terrain_generator.sub_terrains)
    renderer = mujoco.Renderer(model, 480, 640, max_geom=MOST_SHAPES)
    standing = [0.0, 0.0, cfg.scene.entities["robot"].init_state.pos[2]]

    def picture(view: mujoco.MjvCamera) -> np.ndarray:
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, view)
        return renderer.render()

    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    figure, axes = plt.subplots(2, 4, figsize=(12.8, 5.2), constrained_layout=True)
    middle = origins.reshape(-1, 3).mean(0)
    data.qpos[:3] = origins[LEVEL, 0] + standing
    panels = [("all tiles, ten levels of each kind", picture(camera(middle, 82.0, 90.0, -55.0)))]
    for i, kind in enumerate(kinds):
        data.qpos[:3] = origins[LEVEL, i] + standing
        panels.append((kind.replace("_", " "), picture(camera(data.qpos[:3] - [0, 0, 0.4], 7.5, 135.0, -28.0))))
    data.qpos[:3] = origins[LEVEL, 1] + standing
    panels.append(("the robot", picture(camera(data.qpos[:3] - [0, 0, 0.05], 2.2, 150.0, -12.0))))
    for axis, (title, image) in zip(axes.flat, panels, strict=True):
        axis.imshow(image)
        axis.set_title(title, fontsize=10)
        axis.axis("off")
    figure.savefig(OUT, dpi=90)


if __name__ == "__main__":
    main()
