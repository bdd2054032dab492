"""Mirrors against hand-written ones, and against a simulator that is put into a mirror itself."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.sims.make import make_env
from flashsac.tasks import joystick
from flashsac.tasks.g1 import spec as g1_spec
from flashsac.tasks.joystick import T1_JOINTS
from flashsac.tasks.symmetry import mirror
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
    spec = g1_spec.annotate_spec(EnvSpec(1, {"actor": 96, "critic": 288}, 29, *bounds, None))
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


FEET = {"g1": ("left", "right"), "t1": ("left", "right"), "go1": ("FR", "FL", "RR", "RL")}


def scene(robot):
    """Playground's model, and the pose it stands in."""
    kind = "large" if robot == "go1" else "playground_humanoid"
    assets = pytest.importorskip(f"envpool_assets_mujoco_{kind}")
    folder = Path(assets.__file__).parent / "mujoco/playground/assets/mujoco_playground/_src/locomotion"
    model = mujoco.MjModel.from_xml_path(str(folder / robot / "xmls" / "scene_mjx_feetonly_flat_terrain.xml"))
    return model, model.keyframe("home" if robot == "go1" else model.nkey - 1).qpos


def state_in_a_mirror(mirrored, qpos, qvel):
    """Position and orientation of the base, then joints; the base turns in its own frame, moves in the world's."""
    return (
        np.concatenate([qpos[:7] * (1, -1, 1, 1, -1, 1, -1), seen(mirrored, qpos[7:])]),
        np.concatenate([qvel[:6] * (1, -1, 1, -1, 1, -1), seen(mirrored, qvel[6:])]),
    )


@pytest.mark.parametrize("robot", ["g1", "t1", "go1"])
def test_a_simulator_in_the_mirror(robot):
    """The mirrored state, pushed by the mirrored action, goes where the mirror says."""
    model, pose = scene(robot)
    names = tuple(model.joint(index).name for index in range(1, model.njnt))
    assert names == {"t1": T1_JOINTS, "go1": GO1}.get(robot, names)
    mirrored = mirror(("joints",), names, FEET[robot])
    random = np.random.default_rng(0)
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
        assert np.abs(there.qpos - expected).max() < 0.03, "the robots' own left and right differ by millimetres"


@pytest.mark.parametrize(("robot", "suffix"), [("g1", "_pelvis"), ("t1", ""), ("go1", "")])
def test_sensors_in_the_mirror(robot, suffix):
    """What the mirrored state shows is the mirror image of what the state shows: rotations turn where velocities do not."""
    model, pose = scene(robot)
    names = tuple(model.joint(index).name for index in range(1, model.njnt))
    site = "imu_in_pelvis" if robot == "g1" else "imu"
    beside = model.site(site).pos[1]
    assert beside == pytest.approx(-0.06659 if robot == "go1" else 0.0), "docs/sim-to-real.md speaks of Go1's"
    model.site(site).pos[1] = 0.0  # where the mirror takes it to be
    moves = "{}_global_linvel" if robot == "go1" else "{}_foot_global_linvel"

    def privileged(data):
        """In the order of Playground's source, as far as `_TRUE` goes; then the feet."""
        mujoco.mj_forward(model, data)
        sensor = lambda name: data.sensor(name).data
        gravity = data.site(site).xmat.reshape(3, 3).T @ (0.0, 0.0, -1.0)
        body = [sensor(f"gyro{suffix}"), sensor(f"accelerometer{suffix}"), gravity]
        body += [sensor(f"local_linvel{suffix}"), sensor(f"global_angvel{suffix}"), data.qpos[7:] - pose[7:]]
        feet = [sensor(moves.format(foot)) for foot in FEET[robot]]
        return np.concatenate([*body, data.qvel[6:], *feet])

    joints = mirror(("joints",), names, FEET[robot])
    whole = mirror((*joystick._TRUE, "feet_polar"), names, FEET[robot])
    random, states = np.random.default_rng(0), []
    for _ in range(3):
        here, there = mujoco.MjData(model), mujoco.MjData(model)
        here.qpos[:] = pose
        here.qpos[2] += 1.0  # the ground would push
        turned = here.qpos[3:7] + random.normal(scale=0.2, size=4)
        here.qpos[3:7] = turned / np.linalg.norm(turned)
        here.qpos[7:] += random.normal(scale=0.1, size=model.nu)
        here.qvel[:] = random.normal(size=model.nv)
        there.qpos[:], there.qvel[:] = state_in_a_mirror(joints, here.qpos, here.qvel)
        here.ctrl[:] = here.qpos[7:]
        there.ctrl[:] = there.qpos[7:]
        states.append((privileged(here), privileged(there)))
    shown, shown_there = (np.stack(rows) for rows in zip(*states, strict=True))
    assert np.abs(shown[:, :15]).max(0).min() > 0.05, "nothing to turn round"
    error = np.abs(shown_there - seen(whole, shown))
    assert error[:, 3:6].max() < (0.1 if robot == "go1" else 0.02), "accelerations: left and right differ by grams"
    assert np.delete(error, slice(3, 6), 1).max() < 1e-9


def test_where_playground_keeps_what_is_mirrored():
    """Its own, without noise: what the critic sees of the truth is what the actor's sensors show, in another order."""
    pytest.importorskip("envpool")
    options = ("noise_level=0", "push_enable=False")
    env = make_env("playground:G1JoystickFlatTerrain", EnvConfig(num_envs=1, options=options))
    env.reset(0)
    step = env.step(torch.full((1, env.spec.action_dim), 0.3))
    sensed, truth = step.final_obs["actor"][0], step.final_obs["critic"][0, 103:]
    velocity, spin, gravity = sensed[:9].split(3)
    assert torch.allclose(truth[0:3], spin, atol=1e-5)
    assert torch.allclose(truth[6:9], gravity, atol=1e-5)
    assert torch.allclose(truth[9:12], velocity, atol=1e-5)
    assert truth[12:15].norm().item() == pytest.approx(spin.norm().item(), abs=1e-4), (
        "the same spin, seen from the world"
    )
    assert env.spec.velocity == (103 + 9, 103 + 12)
    source, sign = env.spec.mirrors["critic"]
    # Velocities, accelerations and gravity turn round sideways, rotations in the two other directions.
    polar, axial = [1, -1, 1], [-1, 1, -1]
    assert list(sign[:9]) == [*polar, *axial, *polar]
    assert list(sign[103:118]) == [*axial, *polar, *polar, *polar, *axial]
    assert list(source[103:118]) == list(range(103, 118))
    height = 103 + 15 + 58
    assert (source[height], sign[height]) == (height, 1)
    contact = height + 1 + 29
    assert source[contact : contact + 2] == (contact + 1, contact)
    env.close()
