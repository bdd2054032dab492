"""The paper's G1 task as a configuration of mjlab, flat and rough, with either column of reward weights. It needs
mjlab."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

from mjlab.actuator import BuiltinPositionActuatorCfg
from mjlab.asset_zoo.robots import get_g1_robot_cfg
from mjlab.entity import EntityArticulationInfoCfg, EntityCfg
from mjlab.envs import ManagerBasedRlEnvCfg
from mjlab.envs import mdp as envs_mdp
from mjlab.envs.mdp import dr
from mjlab.envs.mdp.actions import JointPositionActionCfg
from mjlab.managers.action_manager import ActionTermCfg
from mjlab.managers.command_manager import CommandTermCfg
from mjlab.managers.curriculum_manager import CurriculumTermCfg
from mjlab.managers.event_manager import EventTermCfg
from mjlab.managers.observation_manager import ObservationGroupCfg, ObservationTermCfg
from mjlab.managers.reward_manager import RewardTermCfg
from mjlab.managers.scene_entity_config import SceneEntityCfg
from mjlab.managers.termination_manager import TerminationTermCfg
from mjlab.scene import SceneCfg
from mjlab.sensor import ContactMatch, ContactSensorCfg, GridPatternCfg, ObjRef, RayCastSensorCfg, SensorCfg
from mjlab.sim import MujocoCfg, SimulationCfg
from mjlab.tasks.velocity import mdp
from mjlab.terrains import TerrainEntityCfg
from mjlab.utils.noise import UniformNoiseCfg
from mjlab.viewer import ViewerConfig

from flashsac.robots.description import Joint, Term
from flashsac.robots.g1 import (
    COMMANDS,
    G1,
    G1_LIMITS,
    HEIGHT_MAP,
    HEIGHT_MAP_SPACING,
    OBSERVATION,
    PPO_ACTION_SCALE,
    PRIVILEGED,
    STANDING_HEIGHT,
)
from flashsac.tasks.g1.mjlab_state import (
    BODIES_SENSOR,
    COMMAND,
    FEET_SENSOR,
    MAP_SENSOR,
    TORSO_SENSOR,
    RewardTerm,
    foot_contact,
)
from flashsac.tasks.g1.mjlab_terrain import terrain_cfg
from flashsac.tasks.g1.randomization import EPISODE_SECONDS, FALLEN, RANDOMIZATION, START
from flashsac.tasks.g1.rewards import REWARDS, Column

OBS_GROUPS = {"actor": ("actor",), "critic": ("actor", "privileged")}
"""The critic sees what the actor sees, with the same noise, and the privileged terms."""
TOUCHABLE = r"pelvis|torso_link|.*_(hip_roll|hip_yaw|knee|shoulder_yaw|elbow|wrist_pitch|wrist_yaw)_link"
"""Bodies beside the feet that have a shape to collide with. Only contacts with the ground count. The capsules of mjlab
are thicker than the robot, and the hands are a centimetre from the hips in the default pose. Brushing the hips would
cost more than walking earns."""


def g1_env_cfg(*, rough: bool, column: Column = "flashsac", play: bool = False) -> ManagerBasedRlEnvCfg:
    """`play`: without noise and pushes, on tiles of all levels, for ever; what mjlab's `play` command shows."""
    cfg = ManagerBasedRlEnvCfg(
        scene=SceneCfg(
            terrain=terrain_cfg() if rough else TerrainEntityCfg(terrain_type="plane"),
            entities={"robot": _robot()},
            sensors=_sensors(),
            extent=2.0,
        ),
        observations={"actor": _group(OBSERVATION), "privileged": _group(PRIVILEGED)},
        actions=_actions(column),
        commands=_commands(),
        events=_events(),
        rewards=_rewards(column),
        terminations={
            "time_out": TerminationTermCfg(func=mdp.time_out, time_out=True),
            "fallen": TerminationTermCfg(func=mdp.bad_orientation, params={"limit_angle": FALLEN}),
            "torso_down": TerminationTermCfg(
                func=mdp.illegal_contact, params={"sensor_name": TORSO_SENSOR, "force_threshold": 1.0}
            ),
        },
        sim=_sim(rough),
        viewer=ViewerConfig(
            origin_type=ViewerConfig.OriginType.ASSET_BODY,
            entity_name="robot",
            body_name="torso_link",
            distance=3.0,
            elevation=-5.0,
            azimuth=90.0,
        ),
        decimation=round(G1.motor_hz / G1.policy_hz),
        episode_length_s=EPISODE_SECONDS,
    )
    if rough:
        # Up after half a tile, down after less than half of what was commanded: mjlab's rule is the paper's.
        cfg.curriculum = {
            "terrain_levels": CurriculumTermCfg(func=mdp.terrain_levels_vel, params={"command_name": COMMAND})
        }
        cfg.terminations["off_the_map"] = TerminationTermCfg(func=mdp.out_of_terrain_bounds, time_out=True)
    return _to_play(cfg, rough) if play else cfg


def _to_play(cfg: ManagerBasedRlEnvCfg, rough: bool) -> ManagerBasedRlEnvCfg:
    cfg.episode_length_s = 1e9
    for group in cfg.observations.values():
        group.enable_corruption = False
    del cfg.events["push"]
    cfg.curriculum = {}
    if rough:
        del cfg.terminations["off_the_map"]
        cfg.events["random_tile"] = EventTermCfg(func=envs_mdp.randomize_terrain, mode="reset")
    return cfg


def _robot() -> EntityCfg:
    """mjlab's G1 with its motors' torque limits and inertias, the paper's pose and gains; actuators in the order of the
    joints."""
    robot = get_g1_robot_cfg()
    assert robot.articulation is not None
    motors = robot.articulation.actuators
    robot.articulation = EntityArticulationInfoCfg(
        actuators=tuple(_actuator(joint, motors) for joint in G1.joints),
        soft_joint_pos_limit_factor=robot.articulation.soft_joint_pos_limit_factor,
    )
    robot.init_state = EntityCfg.InitialStateCfg(
        pos=(0.0, 0.0, STANDING_HEIGHT),
        joint_pos={joint.name: joint.default for joint in G1.joints},
        joint_vel={".*": 0.0},
    )
    return robot


def _actuator(joint: Joint, motors: tuple[Any, ...]) -> BuiltinPositionActuatorCfg:
    (motor,) = (m for m in motors if any(re.fullmatch(name, joint.name) for name in m.target_names_expr))
    low, high = RANDOMIZATION.delay
    return dataclasses.replace(
        motor,
        target_names_expr=(joint.name,),
        stiffness=joint.stiffness,
        damping=joint.damping,
        delay_min_lag=low,
        delay_max_lag=high,
        delay_update_period=round(EPISODE_SECONDS * G1.motor_hz),  # one delay an episode
        delay_per_env_phase=False,
    )


def _sensors() -> tuple[SensorCfg, ...]:
    terrain = ContactMatch(mode="body", pattern="terrain")
    length, width = (HEIGHT_MAP_SPACING * (points - 1) for points in HEIGHT_MAP)
    return (
        ContactSensorCfg(
            name=FEET_SENSOR,
            primary=ContactMatch(
                mode="subtree", pattern=("left_ankle_roll_link", "right_ankle_roll_link"), entity="robot"
            ),
            secondary=terrain,
            reduce="netforce",
            track_air_time=True,
        ),
        ContactSensorCfg(
            name=BODIES_SENSOR,
            primary=ContactMatch(mode="body", pattern=TOUCHABLE, entity="robot"),
            secondary=terrain,
            reduce="netforce",
        ),
        ContactSensorCfg(
            name=TORSO_SENSOR,
            primary=ContactMatch(mode="body", pattern="torso_link", entity="robot"),
            secondary=terrain,
            reduce="netforce",
            history_length=round(G1.motor_hz / G1.policy_hz),  # a touch between two actions counts
        ),
        RayCastSensorCfg(
            name=MAP_SENSOR,
            frame=ObjRef(type="body", name="pelvis", entity="robot"),
            ray_alignment="yaw",
            pattern=GridPatternCfg(size=(length, width), resolution=HEIGHT_MAP_SPACING),
            max_distance=5.0,
            include_geom_groups=(0,),  # the ground
        ),
    )


def _group(terms: tuple[Term, ...]) -> ObservationGroupCfg:
    functions: dict[str, tuple[Any, dict[str, Any]]] = {
        "linear_velocity": (mdp.builtin_sensor, {"sensor_name": "robot/imu_lin_vel"}),
        "angular_velocity": (mdp.builtin_sensor, {"sensor_name": "robot/imu_ang_vel"}),
        "gravity": (mdp.projected_gravity, {}),
        "command": (mdp.generated_commands, {"command_name": COMMAND}),
        "joint_position": (mdp.joint_pos_rel, {"biased": True}),
        "joint_velocity": (mdp.joint_vel_rel, {}),
        "last_action": (mdp.last_action, {}),
        "foot_contact": (foot_contact, {}),
        "height_map": (envs_mdp.height_scan, {"sensor_name": MAP_SENSOR}),
    }

    def term_cfg(term: Term) -> ObservationTermCfg:
        function, params = functions[term.name]
        noise = UniformNoiseCfg(n_min=-term.noise, n_max=term.noise) if term.noise else None
        return ObservationTermCfg(func=function, params=params, noise=noise, scale=term.scale)

    return ObservationGroupCfg(terms={term.name: term_cfg(term) for term in terms}, enable_corruption=True)


@dataclasses.dataclass(kw_only=True)
class _WithinStops(JointPositionActionCfg):
    """Targets end at the joints' stops, as in deploy/safety.py."""

    def build(self, env: Any) -> Any:
        # Not before: mjlab's command line cannot show such a value among its defaults.
        self.clip = {name: (limits.lower, limits.upper) for name, limits in G1_LIMITS.items()}
        return super().build(env)


def _actions(column: Column) -> dict[str, ActionTermCfg]:
    """FlashSAC's targets end at the joints' stops. PPO keeps the unbounded actions that its gains were designed for."""
    scales, cfg = (PPO_ACTION_SCALE, JointPositionActionCfg) if column == "ppo" else (G1.action_scale, _WithinStops)
    scale = {joint.name: scale for joint, scale in zip(G1.joints, scales, strict=True)}
    return {"joint_pos": cfg(entity_name="robot", actuator_names=(".*",), scale=scale)}


def _commands() -> dict[str, CommandTermCfg]:
    ranges = mdp.UniformVelocityCommandCfg.Ranges(
        lin_vel_x=COMMANDS.ahead, lin_vel_y=COMMANDS.left, ang_vel_z=COMMANDS.turn, heading=COMMANDS.heading
    )
    return {
        COMMAND: mdp.UniformVelocityCommandCfg(
            entity_name="robot",
            resampling_time_range=COMMANDS.every,
            rel_standing_envs=COMMANDS.standing,
            heading_command=True,
            heading_control_stiffness=0.5,
            ranges=ranges,
            viz=mdp.UniformVelocityCommandCfg.VizCfg(z_offset=1.15),
            debug_vis=True,
        )
    }


def _events() -> dict[str, EventTermCfg]:
    r = RANDOMIZATION
    feet = SceneEntityCfg("robot", geom_names=(r"(left|right)_foot\d_collision",))
    torso, links = (SceneEntityCfg("robot", body_names=(name,)) for name in ("torso_link", r"(?!torso_link).*"))
    flat = {"x": START.velocity, "y": START.velocity, "yaw": START.velocity}
    place = {"x": START.position, "y": START.position, "z": START.clearance, "yaw": START.heading}

    def startup(function: Any, **params: Any) -> EventTermCfg:
        return EventTermCfg(mode="startup", func=function, params=params)

    def mass(factor: tuple[float, float], bodies: SceneEntityCfg) -> EventTermCfg:
        """mjlab scales mass and inertia by e^2α."""
        alpha = (0.5 * math.log(factor[0]), 0.5 * math.log(factor[1]))
        return startup(dr.pseudo_inertia, alpha_range=alpha, asset_cfg=bodies)

    return {
        "friction": startup(dr.geom_friction, ranges=r.friction, operation="abs", shared_random=True, asset_cfg=feet),
        "torso_mass": mass(r.torso_mass, torso),
        "link_mass": mass(r.link_mass, links),
        "torso_center": startup(
            dr.body_com_offset, ranges=dict(enumerate(r.torso_center)), operation="add", asset_cfg=torso
        ),  # after the mass, which writes the centre too
        "gains": startup(dr.pd_gains, kp_range=r.gains, kd_range=r.gains, operation="scale"),
        "encoder_bias": startup(dr.encoder_bias, bias_range=r.encoder_bias),
        "start_base": EventTermCfg(
            mode="reset",
            func=mdp.reset_root_state_uniform,
            params={"pose_range": place, "velocity_range": flat},
        ),
        "start_joints": EventTermCfg(
            mode="reset",
            func=mdp.reset_joints_by_offset,
            params={"position_range": START.joint_offset, "velocity_range": (0.0, 0.0)},
        ),
        "push": EventTermCfg(
            mode="interval",
            func=mdp.push_by_setting_velocity,
            interval_range_s=r.push_every,
            params={"velocity_range": {"x": r.push, "y": r.push}},
        ),
    }


def _rewards(column: Column) -> dict[str, RewardTermCfg]:
    return {
        reward.name: RewardTermCfg(
            func=RewardTerm, weight=weight, params={"reward": reward.name} | reward.parameters(column)
        )
        for reward in REWARDS
        if (weight := reward.weight(column)) is not None
    }


def _sim(rough: bool) -> SimulationCfg:
    """Sizes and solver as in mjlab's own G1 tasks."""
    mujoco = MujocoCfg(timestep=1 / G1.motor_hz, iterations=10, ls_iterations=20, ccd_iterations=500 if rough else 50)
    if rough:
        return SimulationCfg(nconmax=70, njmax=1500, contact_sensor_maxmatch=500, mujoco=mujoco)
    return SimulationCfg(njmax=300, contact_sensor_maxmatch=64, mujoco=mujoco)
