"""A simulated robot that films its first episode. No torch."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from flashsac.deploy.mujoco_robot import MujocoRobot, World
from flashsac.deploy.signals import interrupt_again
from flashsac.errors import RenderError
from flashsac.robots.description import Robot
from flashsac.system.gl import GL_HINT, choose_gl_backend

SIZE = 480
"""Pixels, width and height."""
FPS = 25


class FilmedRobot(MujocoRobot):
    """A recorder that keeps poses during the first episode and draws them after the last: drawing would delay the
    loop."""

    def __init__(self, robot: Robot, world: World, video: Path, *, seed: int = 0):
        choose_gl_backend()  # before MuJoCo is imported
        super().__init__(robot, world, seed=seed)
        import imageio.v2 as imageio
        import mujoco

        # In software, smooth edges, reflections and fine shadows take 0.5 of a frame's 0.7 s.
        quality = self.model.vis.quality
        quality.offsamples, quality.shadowsize = 0, 1024
        try:
            self._renderer = mujoco.Renderer(self.model, SIZE, SIZE)
        except Exception as error:  # whatever the GL library throws
            raise RenderError(f"no video: {error}. {GL_HINT}") from None
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_TRACKING
        self._camera.trackbodyid = 1  # the base: the first body after the world
        self._camera.distance, self._camera.azimuth, self._camera.elevation = 3.0, 120.0, -15.0
        self._writer: Any = imageio.get_writer(video, fps=FPS, macro_block_size=2, quality=7)
        self._episodes = 0
        self._due: float | None = None
        self._poses: list[np.ndarray] = []
        """Rows of qpos, 1 / FPS seconds apart."""

    def start_episode(self) -> None:
        super().start_episode()
        self._episodes += 1

    def watch(self) -> str | None:
        due = self.now() if self._due is None else self._due
        if self._episodes == 1 and not self.held and self.now() >= due - 1e-9:
            self._poses.append(self.data.qpos.copy())
            self._due = due + 1.0 / FPS
        return super().watch()

    def finish(self) -> None:
        interrupt_again()  # the robot moves no more: a signal ends the drawing
        with contextlib.suppress(KeyboardInterrupt):
            self._draw()

    def _draw(self) -> None:
        model, data = self.model, self._mujoco.MjData(self.model)
        print(f"drawing {len(self._poses)} frames (Ctrl-C leaves the rest out)", flush=True)
        for pose in self._poses:
            data.qpos[:] = pose
            model.light_pos[model.light_bodyid == 0, :2] = pose[:2]  # a lamp at the start casts no shadow out here
            self._mujoco.mj_forward(model, data)
            self._renderer.update_scene(data, self._camera)
            self._writer.append_data(self._renderer.render())

    def close(self) -> None:
        self._writer.close()
        self._renderer.close()
