"""One whole update against an independent implementation: plain functions on dicts, written from the algorithm's description."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.networks import Linear, cross_batch_forward, separate_forward
from flashsac.core.optimizer import Adam, adam_step_size
from flashsac.core.update import Learner
from flashsac.training.compile import compiler_for
from flashsac.types import Batch
from tests.helpers import noise_and_step_sizes

SIZE, OBS, PRIVILEGED, ACTION = 16, 5, 7, 3


class PlainFlashSAC:
    """No ensemble axis, no modules, torch.optim.Adam and torch's own batch_norm: shares no line with the package."""

    def __init__(self, learner: Learner):
        self.actor = self._member(learner.actor, 0)
        self.critics = [self._member(learner.critic, i) for i in range(2)]
        self.targets = [self._member(learner.target, i, grad=False) for i in range(2)]
        self.log_alpha = learner.log_temperature.detach().clone().requires_grad_()
        adam = lambda params: torch.optim.Adam(params, lr=3e-4)
        trainable = lambda net: [v for k, v in net.items() if "running" not in k]
        self.actor_optimizer = adam(trainable(self.actor))
        self.critic_optimizer = adam([p for critic in self.critics for p in trainable(critic)])
        self.alpha_optimizer = adam([self.log_alpha])
        self.z = torch.linspace(-5, 5, 101, dtype=self.log_alpha.dtype)

    @staticmethod
    def _member(net, index, grad=True):
        values = {}
        for name, value in net.state_dict().items():
            value = value[index].clone()
            value = value[0] if value.shape[0] == 1 and "weight" not in name else value
            values[name] = value.requires_grad_(grad and "running" not in name)
        return values

    @staticmethod
    def _batch_norm(w, name, x, train):
        return F.batch_norm(
            x,
            w[f"{name}.running_mean"],
            w[f"{name}.running_var"],
            w[f"{name}.scale"],
            w[f"{name}.bias"],
            train,
            0.01,
            1e-5,
        )

    def _features(self, w, x, train):
        h = self._batch_norm(w, "backbone.input_norm", x, train) @ w["backbone.embed.weight"].T
        for i in range(2):
            p = f"backbone.blocks.{i}"
            y = F.relu(self._batch_norm(w, f"{p}.expand_norm", h @ w[f"{p}.expand.weight"].T, train))
            h = h + F.relu(self._batch_norm(w, f"{p}.contract_norm", y @ w[f"{p}.contract.weight"].T, train))
        return h / torch.sqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w["backbone.output_norm.scale"]

    def _policy(self, obs, train, noise):
        h = self._features(self.actor, obs, train)[: len(noise)]
        mean = h @ self.actor["mean.weight"].T + self.actor["mean.bias"]
        raw = h @ self.actor["log_std.weight"].T + self.actor["log_std.bias"]
        std = torch.exp(-10 + 6 * (1 + torch.tanh(raw)))
        u = mean + std * noise
        log_prob = torch.distributions.Normal(mean, std).log_prob(u) - torch.log(1 - torch.tanh(u).pow(2))
        return torch.tanh(u), log_prob.sum(-1)

    def _logits(self, w, obs, action, train):
        return self._features(w, torch.cat([obs, action], -1), train) @ w["head.weight"].T + w["head.bias"]

    def _project(self, w):
        with torch.no_grad():
            for name, value in w.items():
                if name.endswith("weight"):
                    value /= value.norm(dim=1, keepdim=True)
                elif "_norm" in name and name.endswith("scale"):
                    partner = w.get(name.replace("scale", "bias"))
                    parts = [value] if partner is None else [value, partner]
                    factor = math.sqrt(len(value)) / math.sqrt(sum(float(p.pow(2).sum()) for p in parts))
                    for part in parts:
                        part *= factor

    def update(self, batch: Batch, scale, noise, actor_due):
        size = len(batch.action)
        if actor_due:
            both = torch.cat([batch.obs["actor"], batch.next_obs["actor"]])
            action, log_prob = self._policy(both, True, noise[0])
            q = [
                (self._logits(c, batch.obs["critic"], action, False).softmax(-1) * self.z).sum(-1) for c in self.critics
            ]
            loss = (self.log_alpha.exp().detach() * log_prob - torch.minimum(*q)).mean()
            self.actor_optimizer.zero_grad()
            loss.backward()
            self.actor_optimizer.step()
            self._project(self.actor)
            target = ACTION * 0.5 * math.log(2 * math.pi * math.e * 0.15**2)
            self.alpha_optimizer.zero_grad()
            (self.log_alpha.exp() * (-log_prob.mean() - target).detach()).backward()
            self.alpha_optimizer.step()
        with torch.no_grad():
            next_action, next_log_prob = self._policy(batch.next_obs["actor"], False, noise[1])
        obs2, action2 = (
            torch.cat([batch.obs["critic"], batch.next_obs["critic"]]),
            torch.cat([batch.action, next_action]),
        )
        with torch.no_grad():
            probs = [self._logits(t, obs2, action2, True)[size:].softmax(-1) for t in self.targets]
            target = torch.zeros(size, 101, dtype=self.z.dtype)
            for i in range(size):
                chosen = min((p[i] for p in probs), key=lambda p: float((p * self.z).sum()))
                soft = self.z - self.log_alpha.exp() * next_log_prob[i]
                values = (batch.reward[i] / scale + batch.discount[i] * soft).clamp(-5, 5)
                for p, v in zip(chosen, values, strict=True):
                    b = float(v + 5) / 0.1
                    lower = min(int(b), 99)
                    target[i, lower] += p * (lower + 1 - b)
                    target[i, lower + 1] += p * (b - lower)
        logits = [self._logits(c, obs2, action2, True)[:size].log_softmax(-1) for c in self.critics]
        loss = sum(-(target * x).sum(-1).mean() for x in logits) / 2
        self.critic_optimizer.zero_grad()
        loss.backward()
        self.critic_optimizer.step()
        for critic, slow in zip(self.critics, self.targets, strict=True):
            self._project(critic)
            with torch.no_grad():
                for name, value in slow.items():
                    if "running" not in name:
                        value += 0.01 * (critic[name] - value)


def random_batch(generator, dtype=torch.float32) -> Batch:
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=dtype)
    obs = {"actor": draw(SIZE, OBS), "critic": draw(SIZE, PRIVILEGED)}
    next_obs = {"actor": draw(SIZE, OBS), "critic": draw(SIZE, PRIVILEGED)}
    discount = 0.99 * (torch.rand(SIZE, generator=generator) > 0.2).to(dtype)
    return Batch(obs, torch.tanh(draw(SIZE, ACTION)), 3 * draw(SIZE), discount, next_obs)


def make_learner(make_spec, dtype=torch.float32, **changes) -> Learner:
    torch.manual_seed(0)
    config = AgentConfig(actor_width=12, critic_width=16, **changes)
    learner = Learner(make_spec(obs=OBS, action=ACTION, critic=PRIVILEGED), config, torch.device("cpu"))
    if dtype == torch.float64:
        for net in (learner.actor, learner.critic, learner.target):
            net.double()
            for module in net.modules():
                if isinstance(module, Linear):
                    module.dtype = torch.float64
        learner.log_temperature.data = learner.log_temperature.data.double()
        learner.value.atoms = torch.linspace(-5, 5, 101, dtype=torch.float64)
        learner.actor_optimizer = Adam(learner.actor_parameters)
        learner.critic_optimizer = Adam(learner.critic_parameters)
        learner.temperature_optimizer = Adam([learner.log_temperature])
    return learner


def assert_same(learner: Learner, plain: PlainFlashSAC, tolerance: float):
    pairs = [(learner.actor, [plain.actor]), (learner.critic, plain.critics), (learner.target, plain.targets)]
    for net, members in pairs:
        for name, value in net.state_dict().items():
            for index, member in enumerate(members):
                difference = (value[index].squeeze() - member[name].detach().squeeze()).abs().max().item()
                assert difference < tolerance, f"{type(net).__name__}.{name}: {difference}"
    assert abs(learner.log_temperature.item() - plain.log_alpha.item()) < tolerance


def test_how_a_learner_begins(make_spec):
    learner = make_learner(make_spec)
    assert learner.log_temperature.exp().item() == pytest.approx(0.01)
    for network in (learner.actor, learner.critic, learner.target):
        layers = [module for module in network.modules() if isinstance(module, Linear)]
        assert len(layers) == (7 if network is learner.actor else 6), "embedding, two in each block, and the heads"
        for layer in layers:
            rows = layer.weight.norm(dim=-1)
            assert torch.allclose(rows, torch.ones_like(rows), atol=1e-6)
    critic, target = learner.critic.state_dict(), learner.target.state_dict()
    assert critic.keys() == target.keys()
    for name, value in critic.items():
        assert torch.equal(value, target[name]), name
        assert value.data_ptr() != target[name].data_ptr(), "a copy, or both would learn"
    assert not any(parameter.requires_grad for parameter in learner.target.parameters())


@pytest.mark.parametrize(("dtype", "updates", "tolerance"), [(torch.float32, 1, 2e-6), (torch.float64, 20, 1e-6)])
def test_whole_update_equals_the_plain_implementation(make_spec, dtype, updates, tolerance):
    """One float32 step to float32 accuracy; twenty in float64, where Adam's division by tiny gradients cannot blow up rounding."""
    learner = make_learner(make_spec, dtype)
    plain = PlainFlashSAC(learner)
    generator = torch.Generator().manual_seed(1)
    scale = torch.tensor(2.0, dtype=dtype)
    for index in range(updates):
        batch = random_batch(generator, dtype)
        noise = torch.randn(2, SIZE, ACTION, generator=generator, dtype=dtype)
        given = noise_and_step_sizes(noise, adam_step_size(3e-4, index // 2 + 1), adam_step_size(3e-4, index + 1))
        if index % 2 == 0:
            learner.update_actor(batch, *given)
        learner.update_critic(batch, scale, *given)
        plain.update(batch, 2.0, noise, actor_due=index % 2 == 0)
    assert_same(learner, plain, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "blocks", "tolerance"), [(torch.float32, 2, 1e-5), (torch.bfloat16, 1, 2e-3)])
def test_compiled_update_equals_the_eager_one(make_spec, dtype, blocks, tolerance):
    """Everything it changes: weights, running statistics, target, temperature and the optimizers' moments."""
    torch.manual_seed(0)
    spec = make_spec(obs=OBS, action=ACTION, critic=PRIVILEGED)
    config = AgentConfig(actor_width=12, critic_width=16, blocks=blocks)
    eager = Learner(spec, config, torch.device("cpu"), dtype)
    compiled, compiler = copy.deepcopy(eager), compiler_for(torch.device("cpu"))
    actor, critic = compiler(compiled.update_actor), compiler(compiled.update_critic)
    generator, scale = torch.Generator().manual_seed(1), torch.tensor(2.0)
    for count in (1, 2):
        batch = random_batch(generator)
        noise = torch.randn(2, SIZE, ACTION, generator=generator)
        given = noise_and_step_sizes(noise, adam_step_size(3e-4, count))
        eager.update_actor(batch, *given)
        expected = eager.update_critic(batch, scale, *given)
        actor(batch, *given)
        metrics = critic(batch, scale, *given)
        assert metrics["critic_loss"].item() == pytest.approx(expected["critic_loss"].item(), abs=tolerance)
    torch.testing.assert_close(compiled.state_dict(), eager.state_dict(), atol=tolerance, rtol=0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"residual": False},
        {"batch_norm": False},
        {"rms_norm": False},
        {"value": "scalar", "reward_scaling": False},
        {"weight_projection": False},
        {"cross_batch": False},
        {"critics": 3},
        {"blocks": 1},
    ],
    ids=lambda changes: "-".join(changes),
)
def test_ablations_build_and_learn_something(make_spec, changes):
    torch.manual_seed(0)
    config = AgentConfig(actor_width=12, critic_width=16, **changes)
    learner = Learner(make_spec(obs=OBS, action=ACTION, critic=PRIVILEGED), config, torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    batch = random_batch(generator)
    batch = batch._replace(discount=torch.zeros(SIZE), reward=batch.reward.clamp(-1, 1))
    losses = []
    for count in range(1, 61):
        step_size = adam_step_size(3e-3, count)
        noise = torch.randn(2, SIZE, ACTION, generator=generator)
        learner.update_actor(batch, *noise_and_step_sizes(noise, step_size))
        losses.append(
            learner.update_critic(batch, torch.tensor(1.0), *noise_and_step_sizes(noise, step_size))[
                "critic_loss"
            ].item()
        )
    assert losses[-1] < 0.9 * losses[0]
    for network in (learner.actor, learner.critic):
        names, backbone = network.state_dict(), network.backbone
        assert any("running_mean" in name for name in names) == config.batch_norm
        assert ("backbone.output_norm.scale" in names) == config.rms_norm
        assert [block.residual for block in backbone.blocks] == [config.residual] * config.blocks
        rows = backbone.embed.weight.norm(dim=-1)
        assert torch.allclose(rows, torch.ones_like(rows), atol=1e-5) == config.weight_projection
    outputs = 101 if config.value == "categorical" else 1
    assert learner.critic.head.weight.shape == (config.critics, outputs, 16)
    assert learner.joint_forward is (cross_batch_forward if config.cross_batch else separate_forward)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_learns_what_full_precision_learns(make_spec, dtype):
    """The same random numbers: the losses stay together while they fall, and weights and moments stay float32."""
    curves = []
    for kind in (torch.float32, dtype):
        torch.manual_seed(0)
        config = AgentConfig(actor_width=12, critic_width=16)
        spec = make_spec(obs=OBS, action=ACTION, critic=PRIVILEGED)
        learner = Learner(spec, config, torch.device("cpu"), kind)
        generator = torch.Generator().manual_seed(1)
        batch = random_batch(generator)
        batch = batch._replace(discount=torch.zeros(SIZE), reward=batch.reward.clamp(-1, 1))
        losses = []
        for count in range(1, 61):
            step_size, noise = adam_step_size(3e-3, count), torch.randn(2, SIZE, ACTION, generator=generator)
            learner.update_actor(batch, *noise_and_step_sizes(noise, step_size))
            losses.append(
                learner.update_critic(batch, torch.tensor(1.0), *noise_and_step_sizes(noise, step_size))[
                    "critic_loss"
                ].item()
            )
        tensors = [*learner.critic.state_dict().values(), *learner.critic_optimizer.first]
        assert all(tensor.dtype == torch.float32 for tensor in tensors)
        curves.append(torch.tensor(losses))
    assert curves[0][-1] < 0.8 * curves[0][0]
    assert torch.allclose(curves[0], curves[1], rtol=0.05)
    assert not torch.equal(*curves), "nothing was computed in low precision"


def test_no_cross_batch_feeds_each_half_alone(make_spec):
    learner = make_learner(make_spec, cross_batch=False)
    reference = copy.deepcopy(learner.critic)
    batch = random_batch(torch.Generator().manual_seed(1))
    learner.update_critic(
        batch, torch.tensor(1.0), *noise_and_step_sizes(torch.randn(2, SIZE, ACTION), adam_step_size(0.0, 1))
    )
    rows = torch.cat([batch.obs["critic"], batch.action], -1)
    reference(rows, True)
    ours, theirs = learner.critic.backbone.input_norm, reference.backbone.input_norm
    assert torch.allclose(ours.running_mean, theirs.running_mean, atol=1e-7)
