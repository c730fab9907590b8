"""A session under a test's control: a policy that does what the test says, messages by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worlds import FAST

from beasy_sched.energy.devices.battery import BatterySpec
from beasy_sched.energy.site import GuardMode, GuardSettings, Site
from beasy_sched.energy.storage import Storage
from beasy_sched.engine import Session, SessionOptions
from beasy_sched.engine.actions import Action, Start
from beasy_sched.engine.policy import Policy, View
from beasy_sched.generate.platform_file import host_properties
from beasy_sched.model import decisions as d
from beasy_sched.model import events as e
from beasy_sched.model.hosts import HostSet
from beasy_sched.model.jobs import Job
from beasy_sched.model.platform import ServerKind
from beasy_sched.protocol.notices import notice

ASLEEP = 2
"""The P-state of sleep of `worlds.FAST`; 0 and 1 compute."""

Answer = Callable[[View], Sequence[Action]]


def hosts(text: str) -> HostSet:
    return HostSet.parse(text)


def start(view: View, job: str, where: str) -> Start:
    return Start(waiting(view, job), hosts(where))


def waiting(view: View, job: str) -> Job:
    return next(each for each in view.queue if each.id == f"w0!{job}")


class Scripted(Policy):
    """Answers once with what `say` and `say_at_step` were given, then with nothing again."""

    name = "scripted"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.steps: list[float] = []
        self.say: Answer = self._nothing
        self.say_at_step: Answer = self._nothing

    def _nothing(self, view: View) -> Sequence[Action]:
        return ()

    def schedule(self, view: View) -> Sequence[Action]:
        self.asked.append(view.now)
        answer, self.say = self.say, self._nothing
        return answer(view)

    def power_actions(self, view: View) -> Sequence[Action]:
        self.steps.append(view.now)
        answer, self.say_at_step = self.say_at_step, self._nothing
        return answer(view)


def small_battery(
    *,
    capacity_j: float = 100_000.0,
    soc_pct: float = 50.0,
    discharge_w: float = 1e6,
    charge_w: float = 1e6,
    steps: int = 3,
    mode: GuardMode = GuardMode.SHED,
    veto: bool = True,
) -> Site:
    """Steps of 60 s; no losses, so that figures can be worked out by hand."""
    battery = BatterySpec(
        capacity_j,
        soc_start_pct=soc_pct,
        charge_limit_w=charge_w,
        discharge_limit_w=discharge_w,
        charge_efficiency=1.0,
        discharge_efficiency=1.0,
    )
    return Site(Storage(battery), 60.0, 60.0 * steps, GuardSettings(mode, veto))


class Talk:
    """A session that has been told of its hosts."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        count: int = 4,
        kinds: Sequence[ServerKind] = (),
        stores: Sequence[ServerKind] = (),
        **options: object,
    ) -> None:
        self.policy = policy or Scripted()
        self.log: list[tuple[float, str, str, str, str]] = []
        """Lines of the decision log without their facts."""
        self.facts: list[dict[str, object]] = []
        """The facts of each line."""
        self.session = Session(
            self.policy,
            SessionOptions(**options),  # type: ignore[arg-type]
            self._note,
        )
        all_kinds = kinds or [FAST] * count
        resources = tuple(
            e.Resource(i, f"n{i:03}", properties=host_properties(kind)) for i, kind in enumerate(all_kinds)
        )
        storage = tuple(
            e.Resource(i, f"s{i:03}", properties=host_properties(kind))
            for i, kind in enumerate(stores, len(resources))
        )
        begins = e.SimulationBegins(0.0, resources, storage_resources=storage)
        self.begun = self.session.step(e.Message(0.0, [begins])).decisions

    def _note(self, *row: object) -> None:
        *texts, facts = row
        self.log.append(tuple(texts))  # type: ignore[arg-type]
        self.facts.append(dict(facts))  # type: ignore[call-overload]

    def at(self, now: float, *events: e.Event) -> list[d.Decision]:
        """Send one message; return the decisions."""
        reply = self.session.step(e.Message(now, list(events)))
        assert reply.now == now
        assert all(decision.timestamp == now for decision in reply.decisions)
        return reply.decisions

    def ask(self, now: float, answer: Answer, *events: e.Event) -> list[d.Decision]:
        """Send one message, to which the scripted policy says ``answer``."""
        assert isinstance(self.policy, Scripted)
        self.policy.say = answer
        return self.at(now, *events)

    def run_job(self, now: float, job: str, where: str, walltime: float | None = 1000.0) -> None:
        """Submit a job and start it at once."""
        count = len(hosts(where))
        found = self.ask(now, lambda view: [start(view, job, where)], submitted(now, job, count, walltime))
        assert d.ExecuteJob(now, f"w0!{job}", hosts(where)) in found

    def put_to_sleep(self, now: float, where: str) -> None:
        """Put idle hosts to sleep, at once and without a word."""
        from beasy_sched.engine.actions import SetPState

        found = self.ask(now, lambda view: [SetPState(hosts(where), ASLEEP)])
        assert d.SetResourceState(now, hosts(where), ASLEEP) in found
        self.at(now, changed(now, where, ASLEEP))


def submitted(now: float, job: str, res: int = 1, walltime: float | None = 1000.0) -> e.JobSubmitted:
    return e.JobSubmitted(now, e.JobRequest(f"w0!{job}", now, res, "p", walltime))


def completed(now: float, job: str, where: str = "0", end: e.JobEnd = e.JobEnd.SUCCESS) -> e.JobCompleted:
    return e.JobCompleted(now, f"w0!{job}", end, hosts(where))


def killed(now: float, job: str, where: str = "0") -> e.JobCompleted:
    return completed(now, job, where, e.JobEnd.KILLED)


def changed(now: float, where: str, pstate: int) -> e.ResourceStateChanged:
    return e.ResourceStateChanged(now, hosts(where), pstate)


def production(now: float, watts: float) -> e.Notify:
    return notice(now, "power", {"type": "power", "power_available": watts})


def machines(now: float, where: str, kind: str) -> e.Notify:
    return notice(now, f"event_machine_{kind}", {"type": f"event_machine_{kind}", "resources": where})


def only(kind: type[d.Decision], decisions: list[d.Decision]) -> list[d.Decision]:
    return [decision for decision in decisions if isinstance(decision, kind)]
