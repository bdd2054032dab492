"""Report of a deployment: falls, errors of the velocity, torques, and the timing of the loop."""

from __future__ import annotations

import collections
import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from flashsac.deploy.interface import Torques
from flashsac.deploy.loop import Episode
from flashsac.deploy.onnx_policy import PolicyInfo
from flashsac.system.files import write_atomic


def summarise(episode: Episode, torques: Torques | None = None) -> dict[str, Any]:
    """One row of numbers; None where nothing was measured."""
    row: dict[str, Any] = {"seconds": round(episode.seconds, 3), "stopped": episode.stopped}
    commands = np.array([moment.command for moment in episode.moments]).reshape(-1, 3)
    turned = np.array([moment.sensors.angular_velocity[2] for moment in episode.moments])
    moved = [moment.sensors.linear_velocity for moment in episode.moments]
    if all(velocity is not None for velocity in moved):
        velocities = np.array(moved).reshape(-1, 3)
        row["velocity_error"] = _mean(np.linalg.norm(velocities[:, :2] - commands[:, :2], axis=1))
        row["mean_forward"] = _mean(velocities[:, 0])
        row["mean_sideways"] = _mean(velocities[:, 1])
    row["mean_turning"] = _mean(turned)
    row["turning_error"] = _mean(np.abs(turned - commands[:, 2]))
    row["unheard"] = episode.unheard
    row["cut"] = episode.cut
    row["held_back"] = _mean(np.array([moment.target != moment.wanted for moment in episode.moments]))
    if torques and torques.given.size:
        absolute = np.abs(torques.given)
        row |= {
            "torque_mean": _mean(absolute),
            "torque_p99": _percentile(absolute, 99),
            "torque_max": float(absolute.max()),
            "saturated": _mean(absolute >= torques.limits),
        }
    inference = 1e3 * np.array([moment.inference for moment in episode.moments])
    row |= {"inference_ms_p50": _percentile(inference, 50), "inference_ms_p99": _percentile(inference, 99)}
    late = 1e3 * np.array(episode.late)
    for q in (50, 95, 99, 100):
        row[f"late_ms_p{q}"] = _percentile(late, q)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Means over the episodes, as text. A fall or a stop shortens the seconds."""
    stops = collections.Counter(row["stopped"] for row in rows if row["stopped"])
    lines = [f"episodes                  {len(rows)}, stopped early {stops.total()}"]
    lines += [f"stopped: {reason}" + (f" ({count} times)" if count > 1 else "") for reason, count in stops.items()]
    names = {
        "seconds": "seconds until the end",
        "velocity_error": "velocity error, m/s",
        "mean_forward": "forward velocity, m/s",
        "mean_sideways": "sideways velocity, m/s",
        "mean_turning": "turning, rad/s",
        "turning_error": "turning error, rad/s",
        "held_back": "targets held back, share",
        "torque_mean": "torque, mean, Nm",
        "torque_p99": "torque, 99%, Nm",
        "torque_max": "torque, largest, Nm",
        "saturated": "motors at limit, share",
        "inference_ms_p50": "inference, median, ms",
        "inference_ms_p99": "inference, 99%, ms",
        "late_ms_p50": "loop late, median, ms",
        "late_ms_p95": "loop late, 95%, ms",
        "late_ms_p99": "loop late, 99%, ms",
        "late_ms_p100": "loop late, worst, ms",
    }
    for name, label in names.items():
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            spread = f" (from {min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
            lines.append(f"{label:<26}{np.mean(values):.3f}{spread}")
    if unheard := sum(row.get("unheard", 0) for row in rows):
        lines.append(f"note: in {unheard} policy steps the last command was too old and taken for zero")
    if cut := sum(row.get("cut", 0) for row in rows):
        lines.append(
            f"note: in {cut} policy steps the command was cut to what the policy was trained on (--describe shows that)"
        )
    return "\n".join(lines)


def describe(info: PolicyInfo) -> str:
    """What a file says about its policy and robot, to be read before the robot moves."""
    lines = [
        f"task            {info.task}, step {info.step}, flashsac {info.version}",
        f"sha256          {info.sha256}",
    ]
    if (robot := info.robot) is None:
        return "\n".join(
            [*lines, f"observations    {info.observations}", "robot           none: it can be called, not deployed"]
        )
    ranges = ", ".join(f"{low:g} to {high:g}" for low, high in robot.command_range)
    lines += [
        f"robot           {robot.name}, policy {robot.policy_hz:g} Hz, motors {robot.motor_hz:g} Hz",
        f"commands        {ranges} (forwards, sideways, m/s; turning, rad/s)",
        f"observation     {robot.obs_dim} numbers"
        + (f", and the last {robot.history} of them" if robot.history else ""),
    ]
    for term in robot.observation:
        late = f", {term.delay} step late" if term.delay else ""
        lines.append(f"  {term.name:<20}{term.size:>3}  times {term.scale:g}, trained with noise ±{term.noise:g}{late}")
    lines.append(
        f"{'joint':<28}{'default':>8}{'scale':>8}{'stiffness':>11}{'damping':>9}{'stops, rad':>18}{'Nm':>7}{'rad/s':>7}"
    )
    for joint, scale in zip(robot.joints, robot.action_scale, strict=True):
        row = f"{joint.name:<28}{joint.default:>8.3f}{scale:>8.3f}{joint.stiffness:>11.2f}{joint.damping:>9.3f}"
        if limits := joint.limits:
            row += f"{f'{limits.lower:.2f} to {limits.upper:.2f}':>18}{limits.torque:>7.0f}{limits.speed:>7.1f}"
        lines.append(row)
    return "\n".join(lines)


class Outputs:
    """The rows of the episodes, written to the report and the log after each episode, so that nothing measured is
    lost."""

    def __init__(self, about: dict[str, Any], joints: list[str], *, report: str | None, log: str | None):
        """`about` goes into the report, beside the rows. `report` is a JSON file, `log` a CSV file."""
        self.rows: list[dict[str, Any]] = []
        self._about = about
        self._report = Path(report) if report else None
        self._log = Log(Path(log), joints) if log else None

    def add(self, episode: Episode, torques: Torques | None) -> None:
        if self._log:
            self._log.add(len(self.rows), episode)
        self.rows.append(summarise(episode, torques))
        if self._report:
            write(self._report, self.rows, self._about)

    def close(self) -> None:
        if self._log:
            self._log.close()


def write(path: Path, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(about | {"episodes": rows}, indent=2) + "\n", in_place=True)


class Log:
    """Every policy step of every episode, as CSV: command, sensors, the policy's targets and the limited targets."""

    def __init__(self, path: Path, joints: list[str]):
        self._file = path.open("w", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        felt = [
            f"{name}.{axis}" for name, axes in (("quaternion", "wxyz"), ("angular_velocity", "xyz")) for axis in axes
        ]
        by_joint = [f"{what}.{joint}" for what in ("position", "velocity", "wanted", "target") for joint in joints]
        self._writer.writerow(["episode", "seconds", "command.x", "command.y", "command.yaw", *felt, *by_joint])

    def add(self, number: int, episode: Episode) -> None:
        for moment in episode.moments:
            felt = moment.sensors
            parts = (moment.command, felt.quaternion, felt.angular_velocity, felt.position, felt.velocity)
            values = np.concatenate([*parts, moment.wanted, moment.target])
            self._writer.writerow([number, f"{moment.seconds:.3f}", *(f"{value:.5g}" for value in values)])
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _mean(values: np.ndarray) -> float | None:
    found = float(values.mean()) if values.size else math.nan
    return found if math.isfinite(found) else None


def _percentile(values: np.ndarray, q: float) -> float | None:
    found = float(np.percentile(values, q)) if values.size else math.nan
    return found if math.isfinite(found) else None
