"""A video of a simulated robot, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flashsac.deploy.mujoco_robot import MujocoRobot
from flashsac.errors import RenderError
from flashsac.system.gl import GL_HINT

SIZE = 480
FPS = 25


class Film:
    """`frame` is called at every policy step and keeps what it needs; `draw` in the end, or it would hold up the loop."""

    def __init__(self, robot: MujocoRobot, out: Path):
        import imageio.v2 as imageio
        import mujoco

        # Drawn in software, smooth edges, reflections and fine shadows are most of a frame's 0.7 s; without them it takes 0.2 s.
        quality = robot.model.vis.quality
        quality.offsamples, quality.shadowsize = 0, 1024
        try:
            self._renderer = mujoco.Renderer(robot.model, SIZE, SIZE)
        except Exception as error:  # whatever the GL library throws
            raise RenderError(f"no video: {error}. {GL_HINT}") from None
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        self._camera.trackbodyid = 1  # the base: the first body after the world
        self._camera.distance, self._camera.azimuth, self._camera.elevation = 3.0, 120.0, -15.0
        self._writer: Any = imageio.get_writer(out, fps=FPS, macro_block_size=2, quality=7)
        self._mujoco, self._robot = mujoco, robot
        self._due: float | None = None
        self._poses: list[np.ndarray] = []

    def frame(self) -> None:
        due = self._robot.now() if self._due is None else self._due
        if self._robot.now() >= due - 1e-9:
            self._poses.append(self._robot.data.qpos.copy())
            self._due = due + 1.0 / FPS

    def draw(self) -> None:
        model = self._robot.model
        data = self._mujoco.MjData(model)
        print(f"drawing {len(self._poses)} frames (Ctrl-C leaves the rest out)", flush=True)
        for pose in self._poses:
            data.qpos[:] = pose
            model.light_pos[model.light_bodyid == 0, :2] = pose[:2]  # a lamp that stays behind casts no shadow out here
            self._mujoco.mj_forward(model, data)
            self._renderer.update_scene(data, self._camera)
            self._writer.append_data(self._renderer.render())

    def close(self) -> None:
        self._writer.close()
        self._renderer.close()
