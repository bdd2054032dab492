"""Drawing without a screen: which library does it is found out by trying, in a process of its own, because a bad one
aborts."""

from __future__ import annotations

import functools
import os
import subprocess

from flashsac.errors import RenderError
from flashsac.system.children import PythonChild

GL_HINT = (
    "Drawing needs a GL library. On Debian and Ubuntu: apt-get install libegl1 libgl1-mesa-dri "
    "(or libosmesa6 with MUJOCO_GL=osmesa)."
)

_DRAW = """
import mujoco
model = mujoco.MjModel.from_xml_string("<mujoco/>")
renderer = mujoco.Renderer(model, 16, 16)
renderer.update_scene(mujoco.MjData(model))
renderer.render()
"""


def choose_gl_backend() -> None:
    """MuJoCo reads MUJOCO_GL when it is first imported; without a display it must be told to draw off-screen."""
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", working_backend() or "egl")


def require_gl_backend() -> None:
    """Render off-screen even where there is a display, for training from images; an error says what to install."""
    wanted = os.environ.get("MUJOCO_GL")
    if wanted and (problem := why_not(wanted)):
        raise RenderError(
            f"MUJOCO_GL is {wanted}, which does not draw here ({problem}). Unset it, "
            f"so that egl and osmesa are tried, or install what it names. {GL_HINT}"
        )
    backend = wanted or working_backend()
    if backend is None:
        raise RenderError(
            f"neither EGL ({why_not('egl')}) nor OSMesa ({why_not('osmesa')}) draws here, and this task is about images. {GL_HINT}"
        )
    os.environ["MUJOCO_GL"] = backend


def working_backend() -> str | None:
    """egl, osmesa, or None."""
    return next((name for name in ("egl", "osmesa") if why_not(name) is None), None)


@functools.cache
def why_not(backend: str) -> str | None:
    """The reason why a backend cannot draw; None if it can."""
    environment = os.environ | {"MUJOCO_GL": backend}
    with PythonChild("-c", _DRAW, env=environment, stdout=subprocess.DEVNULL) as child:
        child.kill_after(60.0)
        code = child.wait()
        if child.timed_out:
            return "no picture within a minute"
        return None if code == 0 else child.last_line() or f"died with code {code}"
