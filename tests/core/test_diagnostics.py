"""Every measure against brute force or a value worked out by hand."""

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from flashsac.config.schema import AgentConfig
from flashsac.core.agent import Agent
from flashsac.core.diagnostics import (
    DAMPING,
    condition,
    diagnose,
    dormant,
    hessian_product,
    lanczos,
    metrics_of,
    rms,
    srank,
)
from flashsac.core.networks import Linear
from flashsac.core.replay import Replay
from flashsac.core.update import Learner
from flashsac.types import EnvSpec, Pixels, Step

TINY = dict(
    batch_size=12, warmup=10, actor_width=4, critic_width=3, blocks=1, atoms=5, image_channels=2, image_features=3
)
SPEC = EnvSpec(2, {"actor": 2}, 1, (-1.0,), (1.0,), None)
SPECS = {
    "state": SPEC,
    "asymmetric": dataclasses.replace(SPEC, obs={"actor": 2, "critic": 3}),
    "pixels": dataclasses.replace(SPEC, obs={}, pixels=Pixels(3, 16, 16, 2)),
    "context": dataclasses.replace(SPEC, obs={"actor": 2, "critic": 4}, history=2, velocity=(0, 3)),
}
PLAIN = dict(batch_norm=False, rms_norm=False, residual=False, weight_projection=False, cross_batch=False)
KINDS = [
    ("state", {}),
    ("state", {"value": "scalar"}),
    ("state", PLAIN | {"value": "scalar", "reward_scaling": False}),
    ("state", {"critics": 1, "blocks": 2}),
    ("asymmetric", PLAIN),
    ("asymmetric", {"n_step": 3}),
    ("pixels", {}),
    ("context", {}),
]


def trained_agent(kind: str = "state", dtype: torch.dtype = torch.float32, compiler=lambda f: f, **changes) -> Agent:
    """An agent that has made a few updates on random transitions."""
    spec, config = SPECS[kind], AgentConfig(**TINY | changes)
    agent = Agent(
        spec,
        config,
        Replay(spec, 100, discount=0.99, n_step=config.n_step),
        total_updates=9,
        dtype=dtype,
        compiler=compiler,
    )
    random, no, yes = torch.Generator().manual_seed(1), torch.zeros(2).bool(), torch.ones(2).bool()

    def look():
        return {
            group: torch.randint(256, (2, *shape), generator=random, dtype=torch.uint8)
            if group == "pixels"
            else torch.randn(2, *shape, generator=random)
            for group, (shape, _) in spec.groups.items()
        }

    obs = look()
    for _ in range(30):
        following = look()
        step = Step(following, torch.randn(2, generator=random), no, no, following, yes, {})
        agent.observe(obs, agent.act(obs), step)
        obs = following
    for _ in range(3):
        agent.update()
    return agent


def measure(agent: Agent, iterations: int = 1000, seed: int = 5) -> dict[str, float]:
    generator = torch.Generator().manual_seed(seed)
    return diagnose(agent.learner, *agent.draw_update(generator), generator=generator, iterations=iterations)


def in_double(agent: Agent) -> tuple[Learner, torch.Tensor, torch.Tensor]:
    """A copy of the learner in float64, and the losses of the update that `measure` looks at."""
    batch, scale, noise, _ = agent.draw_update(torch.Generator().manual_seed(5))
    learner = copy.deepcopy(agent.learner)
    for network in (learner.actor, learner.critic, learner.target, learner.encoder):
        network.double()
        for module in network.modules():
            if isinstance(module, Linear):
                module.dtype = torch.float64
    batch = learner.transform(batch, noise.transform)
    obs, next_obs = ({k: v.double() for k, v in x.items()} for x in (batch.obs, batch.next_obs))
    batch = batch._replace(obs=obs, next_obs=next_obs, action=batch.action.double(), reward=batch.reward.double())
    here, following = learner.encoder(batch.obs), learner.encoder(batch.next_obs)
    actor_loss = learner.actor_loss(here, following, noise.actor.double())[0]

    def critic_loss():
        return learner.critic_loss(here, following, batch, scale.double(), noise.target.double())[0]

    return learner, actor_loss, critic_loss


def exact_hessian(parameters, loss) -> torch.Tensor:
    """Row by row, the gradient of each entry of the gradient."""
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss(), parameters, create_graph=True)])
    rows = [torch.autograd.grad(entry, parameters, retain_graph=True, materialize_grads=True) for entry in gradient]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


def hessian_by_differences(parameters, loss) -> torch.Tensor:
    """Column by column, from central differences of the gradient: without a second derivative."""

    def gradient():
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss(), parameters)])

    columns = []
    for parameter in parameters:
        flat = parameter.data.view(-1)
        for index in range(len(flat)):
            middle, sides = flat[index].item(), []
            for side in (1e-6, -1e-6):
                flat[index] = middle + side
                sides.append(gradient())
            flat[index] = middle
            columns.append((sides[0] - sides[1]) / 2e-6)
    return torch.stack(columns, 1)


OF_NUMBERS = [case for case in KINDS if case[0] in ("state", "asymmetric")]
REGULAR = ("state", {"value": "scalar"})
"""A case whose Hessian is not singular."""


@pytest.mark.parametrize(("kind", "changes"), OF_NUMBERS)
def test_condition_number_equals_that_of_the_exact_hessian(kind, changes):
    agent = trained_agent(kind, **changes)
    learner, _, critic_loss = in_double(agent)
    hessian = exact_hessian(learner.critic_parameters, critic_loss)
    magnitudes = torch.linalg.eigvalsh((hessian + hessian.T) / 2).abs()
    largest, smallest = magnitudes.max().item(), magnitudes.min().item()
    found = measure(agent)
    assert found["diag/critic_max_eig"] == pytest.approx(largest, rel=1e-9)
    assert found["diag/critic_min_eig"] == pytest.approx(smallest, rel=1e-6, abs=DAMPING / 100)
    assert found["diag/critic_condition"] == pytest.approx(largest / max(smallest, DAMPING), rel=1e-6)
    assert (smallest > 1e5 * DAMPING) == ((kind, changes) == REGULAR)

    gradients = torch.autograd.grad(critic_loss(), learner.critic_parameters, create_graph=True)
    product = hessian_product(gradients, learner.critic_parameters)
    vector = torch.randn(len(hessian), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert torch.allclose(product(vector), hessian @ vector, rtol=1e-9, atol=1e-12 * largest)


def test_the_exact_hessian_equals_differences_of_the_gradient():
    """The second derivatives of the networks' own parts are right."""
    kind, changes = REGULAR
    learner, _, critic_loss = in_double(trained_agent(kind, **changes))
    exact, differences = (f(learner.critic_parameters, critic_loss) for f in (exact_hessian, hessian_by_differences))
    assert torch.allclose(exact, differences, rtol=1e-4, atol=1e-5 * exact.abs().max().item())


@pytest.mark.parametrize("spectrum", [[-7.0, -2.0, 0.25, 1.0, 3.0], [1e-3, 1.0, 1.0, 1.0, 500.0]])
def test_lanczos_finds_the_extreme_magnitudes(spectrum):
    basis, _ = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    matrix = basis @ torch.diag(torch.tensor(spectrum, dtype=torch.float64)) @ basis.T
    start = torch.randn(5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = dict(condition(lanczos(lambda v: matrix @ v, start, 50)))
    magnitudes = [abs(value) for value in spectrum]
    assert found["max_eig"] == pytest.approx(max(magnitudes))
    assert found["min_eig"] == pytest.approx(min(magnitudes))
    assert found["condition"] == pytest.approx(max(magnitudes) / min(magnitudes))


def test_the_largest_eigenvalue_is_found_long_before_the_smallest():
    spectrum = torch.linspace(0, 1, 400, dtype=torch.float64) ** 3 * 10
    start = torch.randn(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    ritz = lanczos(lambda v: spectrum * v, start, 30)
    assert len(ritz) == 30
    assert ritz.max().item() == pytest.approx(10, rel=1e-3)
    assert ritz.abs().min().item() > 1e-6, "the smallest is 0"


def test_a_singular_hessian_has_the_condition_number_that_the_damping_allows():
    assert dict(condition(torch.tensor([0.0, 2.0])))["condition"] == pytest.approx(2 / DAMPING)


def test_dormant_units_by_hand():
    # Mean activations 0, 1, 0.02, 3; their mean is 1.005, and 0.025 of it 0.0251.
    rows = torch.tensor([[[0.0, 2.0, 0.04, 6.0], [0.0, 0.0, 0.0, 0.0]]])
    assert dormant(rows).tolist() == [[True, False, True, False]]
    assert dormant(torch.zeros(1, 3, 2)).all(), "a layer that is silent"


def test_srank_by_hand():
    assert srank(torch.diag(torch.tensor([90.0, 9.5, 0.4, 0.1]))) == 2, "99.5% of the sum"
    assert srank(torch.diag(torch.tensor([90.0, 8.5, 1.0, 0.5]))) == 3
    assert srank(torch.eye(7)) == 7
    assert srank(torch.ones(5, 3)) == 1
    assert srank(torch.zeros(5, 3)) == 1


def test_norms_and_steps_equal_plain_sums():
    agent = trained_agent()
    learner, actor_loss, critic_loss = in_double(agent)
    found = measure(agent, iterations=2)
    assert rms(torch.tensor([[3.0, 4.0], [0.0, 0.0]])) == 2.5
    loss = critic_loss()
    for prefix, network, value, delay, names in (
        ("diag/critic", learner.critic, loss, 1, ["embed", "block1.expand", "block1.contract", "head"]),
        ("diag/actor", learner.actor, actor_loss, 2, ["embed", "block1.expand", "block1.contract", "mean", "log_std"]),
    ):
        layers = [module for module in network.modules() if isinstance(module, Linear)]
        assert len(layers) == len(names)
        optimizer = learner.critic_optimizer if network is learner.critic else learner.actor_optimizer
        count = 3 // delay + 1
        totals = {"weight_norm": 0.0, "gradient_norm": 0.0, "effective_lr": 0.0}
        for name, layer in zip(names, layers, strict=True):
            (gradient,) = torch.autograd.grad(value, layer.weight, retain_graph=True)
            at = next(i for i, p in enumerate(optimizer.parameters) if p is layer.weight)
            first = 0.9 * optimizer.first[at] + 0.1 * gradient
            second = 0.999 * optimizer.second[at] + 0.001 * gradient**2
            change = (first / (1 - 0.9**count)) / ((second / (1 - 0.999**count)).sqrt() + 1e-8)
            change = agent.learning_rate() * change
            expected = {
                "weight_norm": math.sqrt(sum(x * x for x in layer.weight.flatten().tolist()) / layer.weight.numel()),
                "gradient_norm": math.sqrt(sum(x * x for x in gradient.flatten().tolist()) / gradient.numel()),
                "effective_lr": (change.norm() / layer.weight.norm()).item(),
            }
            for measure_name, number in expected.items():
                assert found[f"{prefix}/{name}/{measure_name}"] == pytest.approx(number, rel=1e-4), (name, measure_name)
                totals[measure_name] += number / len(layers)
        for measure_name, number in totals.items():
            assert found[f"{prefix}_{measure_name}"] == pytest.approx(number, rel=1e-4)


def test_features_are_taken_after_the_relu(make_spec):
    """A block whose first unit never fires, and whose other units do."""
    agent = trained_agent()
    block = agent.learner.critic.backbone.blocks[0]
    with torch.no_grad():
        block.expand_norm.scale[:, :, 0] = 0.0
        block.expand_norm.bias[:, :, 0] = -1.0
        block.expand_norm.bias[:, :, 1:] = 10.0
    found = measure(agent, iterations=2)
    assert found["diag/critic/block1.expand/dormant"] == pytest.approx(1 / 12)
    assert found["diag/critic_dormant"] >= 1 / 15, "of 12 and 3 ReLU units"
    assert found["diag/critic/block1.expand/feature_norm"] == pytest.approx(10 * math.sqrt(11 / 12), rel=0.1)


def test_the_weight_norm_is_the_published_one(make_spec):
    """Isaac-Repose-Cube-Allegro, whose observation has 124 numbers and action 16: the table says 0.0557526."""
    spec = make_spec(obs=124, action=16)
    config = AgentConfig(batch_size=8, warmup=10)
    agent = Agent(spec, config, Replay(spec, 100, discount=0.99), total_updates=9)
    no, yes = torch.zeros(2).bool(), torch.ones(2).bool()
    for _ in range(10):
        obs = {"actor": torch.randn(2, 124)}
        agent.observe(obs, agent.act(obs), Step(obs, torch.randn(2), no, no, obs, yes, {}))
    assert measure(agent, iterations=2)["diag/critic_weight_norm"] == pytest.approx(0.0557526, rel=1e-5)


@pytest.mark.parametrize(("kind", "changes"), KINDS)
def test_exactly_the_declared_metrics_are_measured_and_nothing_is_changed(kind, changes):
    agent, untouched = trained_agent(kind, **changes), trained_agent(kind, **changes)
    found = measure(agent, iterations=4)
    assert sorted(found) == sorted(metrics_of(agent.config.blocks))
    assert all(math.isfinite(value) for value in found.values())
    one, other = (torch.utils._pytree.tree_leaves(x.state_dict()) for x in (agent, untouched))
    assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True))
    metrics = [x.update() for x in (agent, untouched)]
    assert all(torch.equal(value, metrics[1][name]) for name, value in metrics[0].items())
    assert measure(agent, iterations=4) == measure(untouched, iterations=4), "the same seed gives the same numbers"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_of_low_precision_is_measured_in_float64(dtype):
    agent = trained_agent(dtype=dtype)
    learner, _, critic_loss = in_double(agent)
    hessian = exact_hessian(learner.critic_parameters, critic_loss)
    largest = torch.linalg.eigvalsh((hessian + hessian.T) / 2).abs().max().item()
    assert measure(agent)["diag/critic_max_eig"] == pytest.approx(largest, rel=1e-4)


@pytest.mark.slow
def test_a_learner_whose_update_was_compiled_is_measured_too():
    """Traced by the compiler, though not translated to C++, which takes a minute."""
    compiled = trained_agent(compiler=lambda function: torch.compile(function, backend="eager"))
    assert measure(compiled, iterations=4) == pytest.approx(measure(trained_agent(), iterations=4), rel=1e-3)
    assert all(torch.isfinite(value) for value in compiled.update().values())
