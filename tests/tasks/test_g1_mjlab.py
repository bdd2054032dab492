"""The G1 task on the real simulator: what was compiled, drawn, seen and paid. `check_env` runs in tests/sims/test_mjlab.py."""

from __future__ import annotations

import math

import pytest
import torch

pytest.importorskip("mjlab")

from flashsac.config.schema import EnvConfig
from flashsac.robots.g1 import ACTION_SCALE, G1, JOINTS, PPO_ACTION_SCALE, PRIVILEGED, STANDING_HEIGHT
from flashsac.sims.make import make_env
from flashsac.tasks.g1.mjlab import g1_env_cfg
from flashsac.tasks.g1.mjlab_state import _readers
from flashsac.tasks.g1.randomization import RANDOMIZATION
from flashsac.tasks.g1.rewards import REWARDS

N = 16


@pytest.fixture(scope="module")
def flat():
    env = make_env("mjlab:FlashSAC-G1-Flat", EnvConfig(num_envs=N))
    yield env
    env.close()


@pytest.fixture(scope="module")
def rough():
    env = make_env("mjlab:FlashSAC-G1-Rough", EnvConfig(num_envs=6))
    yield env
    env.close()


def robot(env):
    return env.base.scene["robot"]


def hold(env, steps=1):
    """Actions of zero."""
    return [env.step(torch.zeros(env.spec.num_envs, 29)) for _ in range(steps)][-1]


def place(env, *, offset=(0.0, 0.0), yaw=0.0, velocity=(0.0, 0.0, 0.0), spin=(0.0, 0.0, 0.0)):
    """Put every robot so far from where it began, and bring all that follows from it up to date."""
    base, n = env.base, env.spec.num_envs
    pose = torch.zeros(n, 7)
    pose[:, :3] = base.scene.env_origins + torch.tensor([*offset, STANDING_HEIGHT])
    pose[:, 3], pose[:, 6] = math.cos(yaw / 2), math.sin(yaw / 2)
    robot(env).write_root_link_pose_to_sim(pose)
    robot(env).write_root_link_velocity_to_sim(torch.tensor([[*velocity, *spin]]).expand(n, 6).clone())
    default = robot(env).data.default_joint_pos
    robot(env).write_joint_state_to_sim(default.clone(), torch.zeros_like(default))
    base.sim.forward()


def state(env):
    reader = _readers[env.base]
    reader.forget(None)
    return reader.read(env.base)


def test_gains_and_pose_of_the_compiled_model(flat):
    model = flat.base.sim.mj_model
    assert model.nu == 29
    pose = model.key_qpos[0]
    assert pose[2] == pytest.approx(STANDING_HEIGHT)
    for i, joint in enumerate(JOINTS):
        actuator = model.actuator(i)
        assert actuator.name == f"robot/{joint.name}"
        assert actuator.gainprm[0] == pytest.approx(joint.stiffness)
        assert actuator.biasprm[1] == pytest.approx(-joint.stiffness)
        assert actuator.biasprm[2] == pytest.approx(-joint.damping)
        assert pose[model.joint(f"robot/{joint.name}").qposadr[0]] == pytest.approx(joint.default)
    limits = {joint.name: model.actuator(i).forcerange[1] for i, joint in enumerate(JOINTS)}
    assert (limits["left_knee_joint"], limits["waist_roll_joint"], limits["right_wrist_yaw_joint"]) == (139, 50, 5)


def test_mjlabs_export_describes_the_robot(flat):
    """What its ONNX files say, and robots' computers read."""
    from mjlab.rl.exporter_utils import get_base_metadata

    said = get_base_metadata(flat.base, "run")
    assert said["joint_names"] == [joint.name for joint in JOINTS]
    assert said["joint_stiffness"] == pytest.approx([joint.stiffness for joint in JOINTS])
    assert said["joint_damping"] == pytest.approx([joint.damping for joint in JOINTS])
    assert said["default_joint_pos"] == pytest.approx([joint.default for joint in JOINTS])
    assert said["action_scale"] == pytest.approx(G1.action_scale)
    assert said["observation_names"] == [term.name for term in G1.observation]


def test_rates(flat):
    assert flat.base.physics_dt == pytest.approx(1 / 200)
    assert flat.base.step_dt == pytest.approx(1 / 50)
    assert flat.spec.max_episode_steps == 1000


def test_actions_move_the_targets(flat):
    flat.reset(0)
    action = torch.zeros(N, 29)
    action[:, 3], action[:, 9] = 1.0, -1.0  # knees
    flat.step(action)
    bias = robot(flat).data.encoder_bias
    moved = robot(flat).data.joint_pos_target + bias - robot(flat).data.default_joint_pos
    expected = torch.zeros(N, 29)
    expected[:, 3] = G1.action_scale[3]
    expected[:, 9] = -0.087267 - 0.42  # the stop
    assert torch.allclose(moved, expected, atol=1e-5)


def test_observation_and_noise(flat):
    """Every term is the truth, off by at most the paper's noise and now and then by nearly as much."""
    flat.reset(1)
    hold(flat, 10)
    base, data = flat.base, robot(flat).data
    truth = {
        "angular_velocity": base.scene["robot/imu_ang_vel"].data,
        "gravity": data.projected_gravity_b,
        "command": base.command_manager.get_command("twist"),
        "joint_position": data.joint_pos + data.encoder_bias - data.default_joint_pos,
        "joint_velocity": data.joint_vel,
        "last_action": base.action_manager.action,
        "linear_velocity": base.scene["robot/imu_lin_vel"].data,
        "foot_contact": (base.scene["feet_contact"].data.force.norm(dim=2) > 1).float(),
        "height_map": data.root_link_pos_w[:, 2:].expand(-1, 187),
    }
    drawn = [flat._split(base.observation_manager.compute()) for _ in range(20)]
    seen = torch.stack([groups["critic"] for groups in drawn])
    assert all(torch.equal(groups["critic"][:, :96], groups["actor"]) for groups in drawn)
    at = 0
    for term in (*G1.observation, *PRIVILEGED):
        off = (seen[..., at : at + term.size] - truth[term.name]).abs().max().item()
        at += term.size
        assert 0.95 * term.noise - 1e-5 <= off <= term.noise + 1e-5, term.name
    assert at == flat.spec.obs["critic"] == 288


def test_randomisation_stays_in_its_ranges(flat):
    flat.reset(2)
    model, default = flat.base.sim.model, flat.base.sim.mj_model

    def within(values, low_high):
        low, high = low_high
        assert torch.isfinite(values).all()
        assert values.min() >= low - 1e-4
        assert values.max() <= high + 1e-4
        assert values.max() - values.min() > 0.4 * (high - low), "hardly anything is drawn"

    soles = [i for i in range(default.ngeom) if "_foot" in default.geom(i).name]
    assert len(soles) == 14
    friction = model.geom_friction[:, soles, 0]
    within(friction, RANDOMIZATION.friction)
    assert torch.equal(friction.min(1).values, friction.max(1).values)
    torso = default.body("robot/torso_link").id
    links = [i for i in range(default.nbody) if default.body(i).name.startswith("robot/") and i != torso]
    mass, inertia = torch.as_tensor(default.body_mass), torch.as_tensor(default.body_inertia)
    within(model.body_mass[:, torso] / mass[torso], RANDOMIZATION.torso_mass)
    within(model.body_mass[:, links] / mass[links], RANDOMIZATION.link_mass)
    # Inertia goes with the mass; its axes may be sorted anew.
    factor = (model.body_mass / mass.clamp(min=1e-9))[:, [torso, *links]]
    whole = model.body_inertia[:, [torso, *links]].sum(2) / inertia[[torso, *links]].sum(1)
    assert torch.allclose(whole.double(), factor.double(), rtol=1e-2)
    shift = model.body_ipos[:, torso] - torch.as_tensor(default.body_ipos[torso], dtype=torch.float32)
    for axis in range(3):
        within(shift[:, axis], RANDOMIZATION.torso_center[axis])
    stiffness = torch.tensor([joint.stiffness for joint in JOINTS])
    damping = torch.tensor([joint.damping for joint in JOINTS])
    within(model.actuator_gainprm[:, :, 0] / stiffness, RANDOMIZATION.gains)
    within(-model.actuator_biasprm[:, :, 2] / damping, RANDOMIZATION.gains)
    assert torch.allclose(model.actuator_gainprm[:, :, 0], -model.actuator_biasprm[:, :, 1])
    within(robot(flat).data.encoder_bias, RANDOMIZATION.encoder_bias)


def test_one_delay_an_episode(flat):
    flat.reset(3)
    lags = []
    for _ in range(3):
        hold(flat)
        lags.append(robot(flat).actuators[0]._delay_buffer.current_lags.clone())
    assert torch.equal(lags[0], lags[2])
    assert set(lags[0].tolist()) <= {0, 1, 2, 3, 4}
    assert len(set(lags[0].tolist())) > 2, "all alike"


def test_pushes(flat):
    """Ten to fifteen seconds apart, up to a metre a second in the plane."""
    flat.reset(4)
    event = flat.base.event_manager.get_term_cfg("push")
    assert (event.mode, event.interval_range_s) == ("interval", (10.0, 15.0))
    before = robot(flat).data.root_link_lin_vel_w.clone()
    event.func(flat.base, torch.arange(N), **event.params)
    flat.base.sim.forward()
    change = robot(flat).data.root_link_lin_vel_w - before
    assert 0.5 < change[:, :2].abs().max() <= 1.0 + 1e-4
    assert change[:, 2].abs().max() < 1e-4


def test_frames_and_feet(flat):
    """Facing left in the world and moving left in the world is moving ahead."""
    flat.reset(5)
    place(flat, yaw=math.pi / 2, velocity=(0.0, 0.5, 0.1), spin=(0.0, 0.0, 0.3))
    s = state(flat)
    assert torch.allclose(s.velocity, torch.tensor([0.5, 0.0, 0.1]).expand(N, 3), atol=1e-4)
    assert torch.allclose(s.spin, torch.tensor([0.0, 0.0, 0.3]).expand(N, 3), atol=1e-4)
    assert torch.allclose(s.gravity, torch.tensor([0.0, 0.0, -1.0]).expand(N, 3), atol=1e-5)
    assert torch.allclose(s.torso_gravity, s.gravity, atol=1e-5)
    assert torch.allclose(s.foot_side, torch.tensor([0.1185, -0.1185]).expand(N, 2), atol=1e-3)
    assert torch.allclose(s.joint_position, torch.tensor([joint.default for joint in JOINTS]).expand(N, 29), atol=1e-6)
    soles = robot(flat).data.site_pos_w[:, _readers[flat.base]._feet, 2]
    assert soles.abs().max() < 0.02, "not standing on the ground"
    knee, low, high = 3, -0.087267, 2.8798  # nine tenths of the joint's range
    margin = 0.05 * (high - low)
    assert s.joint_low[0, knee].item() == pytest.approx(low + margin, abs=1e-4)
    assert s.joint_high[0, knee].item() == pytest.approx(high - margin, abs=1e-4)


def test_feet_remember_one_step(flat):
    flat.reset(6)
    reader = _readers[flat.base]
    assert not reader._foot_velocity.any()
    hold(flat)
    first = reader.read(flat.base)
    assert not first.foot_velocity_before.any()
    hold(flat)
    second = reader.read(flat.base)
    assert torch.equal(second.foot_velocity_before, first.foot_velocity)
    assert not torch.equal(second.foot_velocity, first.foot_velocity)


def test_standing_is_paid_and_lying_ends(flat):
    flat.reset(7)
    place(flat)
    step = hold(flat, 2)
    weights = {reward.name: reward.flashsac for reward in REWARDS if reward.flashsac is not None}
    assert set(step.info) >= set(weights)
    total = torch.stack([step.info[name] for name in weights]).sum(0)
    assert torch.allclose(total * 0.02, step.reward, atol=1e-5)
    assert (step.info["alive"] == 1).all()
    assert not step.info["undesired_contacts"].any()
    assert not step.terminated.any()
    for _ in range(100):  # nobody balances
        step = hold(flat)
        if step.terminated.any():
            break
    assert step.terminated.any()
    assert (step.info["alive"][step.terminated] == 0).all()
    assert not (step.terminated & step.truncated).any()


def test_columns():
    names = [joint.name for joint in JOINTS]
    for column, scale in (("flashsac", ACTION_SCALE), ("ppo", PPO_ACTION_SCALE)):
        cfg = g1_env_cfg(rough=False, column=column)
        assert cfg.actions["joint_pos"].scale == dict(zip(names, scale, strict=True))
        expected = {reward.name: reward.weight(column) for reward in REWARDS if reward.weight(column) is not None}
        assert {name: term.weight for name, term in cfg.rewards.items()} == expected
    assert g1_env_cfg(rough=False).rewards["track_linear_velocity"].params["sigma"] == 0.25
    assert cfg.rewards["track_linear_velocity"].params["sigma"] == 0.5
    assert "alive" not in cfg.rewards
    assert cfg.rewards["termination"].weight == -200


def test_play_is_quiet():
    cfg = g1_env_cfg(rough=True, play=True)
    assert not any(group.enable_corruption for group in cfg.observations.values())
    assert "push" not in cfg.events
    assert not cfg.curriculum


def levels(env, level, command, offset):
    """The levels after episodes that end so far from where they began."""
    base, n = env.base, env.spec.num_envs
    base.scene.terrain.terrain_levels[:] = level
    nobody = torch.zeros(n, dtype=torch.bool)
    base.scene.terrain.update_env_origins(torch.arange(n), nobody, nobody)
    place(env, offset=offset)
    base.command_manager.get_term("twist").vel_command_b[:] = torch.tensor(command)
    base.episode_length_buf[:] = base.max_episode_length - 1
    assert hold(env).truncated.all()
    found = base.scene.terrain.terrain_levels
    tiles = base.scene.terrain.terrain_origins[found, base.scene.terrain.terrain_types]
    assert torch.equal(base.scene.env_origins, tiles)
    start = robot(env).data.root_link_pos_w - tiles
    assert start[:, :2].abs().max() < 0.55, "the robots are not on their new tiles"
    return found.tolist()


def test_curriculum(rough):
    rough.reset(0)
    assert rough.base.scene.terrain.terrain_levels.max() <= 5
    hold(rough)
    n, slow, fast = rough.spec.num_envs, (0.3, 0.0, 0.0), (0.3, 0.4, 0.0)
    assert levels(rough, 2, slow, (4.1, 0.0)) == [3] * n  # half of the eight metres
    assert levels(rough, 2, slow, (0.0, -4.1)) == [3] * n
    assert levels(rough, 2, slow, (3.8, 0.0)) == [2] * n  # more than half of 0.3 m/s for 20 s
    assert levels(rough, 2, slow, (2.8, 0.0)) == [1] * n
    assert levels(rough, 2, fast, (3.8, 0.0)) == [1] * n  # less than half of 0.5 m/s for 20 s
    assert levels(rough, 0, slow, (0.0, 0.0)) == [0] * n
    assert all(0 <= level <= 9 for level in levels(rough, 9, slow, (4.1, 0.0)))


def test_curriculum_goes_on_in_a_resumed_run(rough):
    rough.reset(0)
    terrain = rough.base.scene.terrain
    begun = terrain.terrain_levels.tolist()
    hold(rough)
    terrain.terrain_levels[:] = torch.arange(rough.spec.num_envs) % 3 + 7
    saved, steps = rough.state_dict(), rough.base.common_step_counter
    try:
        rough.reset(1)
        assert terrain.terrain_levels.tolist() == begun, "without a checkpoint it begins anew"
        assert rough.load_state_dict(saved) is False, "its episodes cannot go on"
        rough.reset(1)
        assert torch.equal(terrain.terrain_levels, saved["terrain_levels"])
        assert rough.base.common_step_counter == steps
        tiles = terrain.terrain_origins[terrain.terrain_levels, terrain.terrain_types]
        assert torch.equal(rough.base.scene.env_origins, tiles)
    finally:
        rough.load_state_dict({"steps": 0, "terrain_levels": torch.tensor(begun)})  # the fixture is shared


def test_height_map_sees_the_steps(rough):
    """On stairs that lead down, the edge of the platform: level to its edge, then one step lower."""
    rough.reset(1)
    base = rough.base
    base.scene.terrain.terrain_levels[:] = 9
    base.scene.terrain.terrain_types[:] = 0
    nobody, everybody = torch.zeros(6, dtype=torch.bool), torch.arange(6)
    base.scene.terrain.update_env_origins(everybody, nobody, nobody)
    place(rough, offset=(1.25, 0.0))
    lines = hold(rough).obs["critic"][:, 101:].reshape(6, 11, 17)
    behind, ahead = lines[:, :, :11], lines[:, :, 11:14]  # 0.8 m behind to 0.2 m ahead; 0.3 to 0.5 m ahead
    assert torch.allclose(behind, torch.full_like(behind, STANDING_HEIGHT), atol=0.02)
    assert torch.allclose(ahead, behind[:, :1, :1] + 0.23, atol=2e-3)
