"""Peak, Next, Last and Workload: what the battery gained or lost is spent or saved in future steps.

The servers of these steps are refitted to the energy, one after the other, the best moves to another state
first. Servers of one situation have the same moves: those of one kind, in the same planned state in the
step, on or asleep in the step before, and in the same state in the step after.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.energy.server_energy import CellEnergies, shifted
from beasy_sched.engine.actions import Action, Compensate, FactDict
from beasy_sched.engine.policy import Options, View
from beasy_sched.engine.words import Sentences, Words
from beasy_sched.model.host_states import BUSY
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.follow_plan import PLAN_WORDS, FollowPlan, latest_ends_s
from beasy_sched.policies.planned.follower import battery_j
from beasy_sched.policies.planned.rest import compensation_j
from beasy_sched.policies.planned.working_plan import WorkingPlan

TOLERANCE_J = 1e-3
"""Smallest amount of energy that is spent or saved, J."""

Situations = npt.NDArray[np.int64]
"""Numbers of situations."""

_KEPT: Final = "[ Kept on for running jobs, where the plan had it asleep: {hosts_kept:server}.]"
_AS_ANOTHER: Final = (
    "[ It was compensated as {as_policy} does][, of which most is expected in such a step: last {value_last},"
    " next {value_next}, peak {value_peak}, workload {value_workload}][value_none?, none {value_none}]"
    "[as_policy?.]"
)
_SURPLUS: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} more in the battery than its target:"
    " {comp_j} could be spent[, {spendable_j} of it without draining the battery on the way]."
    "[ {spent_on_jobs_j} went into faster servers for running jobs,"
    " {spent_on_wakes_j} into waking servers for waiting jobs.]"
    "[ {spent_j} went into {steps_changed:step} to come.]"
    f"{_KEPT}{_AS_ANOTHER}"
)
_SHORTAGE: Final = (
    "The plan would end the window (at {window_end_s}) with {diff_j:abs} less in the battery than its target:"
    " {comp_j:abs} had to be saved[; {saved_j} was, by servers that sleep or run slower]"
    "[ in {steps_changed:step} to come][, around {violation_at_s} ({curves_below} of the nine predicted"
    " curves are below SoC_min there)]."
    f"{_KEPT}{_AS_ANOTHER}"
)
END_WORDS: Final[Sentences] = {
    ("P-state", "the plan has it asleep"): Words(
        "No job needs it, and the plan, as it is now, has it asleep.",
    ),
    ("compensate", "surplus"): Words(
        _SURPLUS,
        in_short="[spent_on_jobs_j? (a surplus: {spent_on_jobs_j} spent on faster servers)]"
        "[spent_j? (a surplus: {spent_j} spent, in {steps_changed:step})]",
    ),
    ("compensate", "shortage"): Words(
        _SHORTAGE,
        in_short="[saved_j? (a shortage: {saved_j} saved)]",
    ),
}
"""Words for the rules of policies that balance the battery for the end of the plan's window."""


class Move(NamedTuple):
    """A change of one server's state in one step."""

    worth: float
    """Flops gained for each joule spent; flops lost for each joule saved, negative."""
    energy_j: float
    """Energy that a move up costs, or a move down saves, the step after included, J."""
    switches: int
    """Times that the server falls asleep or wakes at the step or after it, once moved."""
    row: int
    """Place of the new state among those of its kind: computing states first, then sleep."""
    pstate: int
    """The new state."""
    situation: int
    """The server's situation once moved."""


_worth = operator.attrgetter("worth")


class MoveTables:
    """Numbers the situations of a platform's servers, and knows the moves of each."""

    def __init__(self, cells: CellEnergies, step_s: float) -> None:
        """Lay out energy and flops of steps of ``step_s`` seconds by situation."""
        platform = cells.power.platform
        self._sleep_of = platform.sleep_of_kind.tolist()
        self._choices = [kind.plannable for kind in platform.kinds]
        self.no_state = count = cells.awake_w.shape[2]
        """Number that stands for a state where there is none."""
        self._slept_counts = count * (count + 1)
        """Number of situations of the servers of a kind that are on in the step before."""
        self._first_of = platform.kind_of * (2 * self._slept_counts)
        """The first situation of each server's kind, [N]."""
        energy_j, flops = _outcomes(cells, step_s)
        for kind, choices in enumerate(self._choices):
            energy_j[kind, ..., np.delete(np.arange(count), choices)] = np.nan  # nobody moves to or from them
        more_j, self._gained = _differences(energy_j), _differences(flops)
        rises = (more_j > TOLERANCE_J) & (self._gained > 0.0)
        falls = -more_j > TOLERANCE_J
        self._spent_j = {True: np.where(rises, more_j, np.inf), False: np.where(falls, -more_j, np.inf)}
        """Energy that a move up (True) or down takes, J: [situation, new state]; infinite where none is."""
        self.least_j = np.stack([self._spent_j[up].min(axis=1) for up in (False, True)])
        """Least energy of any move down or up (second row) by situation; infinite where none is."""
        self._moves: dict[bool, dict[int, list[Move]]] = {True: {}, False: {}}

    def situations(self, slept: BoolArray, now: StateArray, after: StateArray) -> Situations:
        """Situation of each server (last axis: N).

        ``slept``: whether it is asleep in the step before; ``now`` and ``after``: its states in the step and
        in the one after it, ``no_state`` where the plan ends.
        """
        numbers: Situations = np.multiply(slept, self._slept_counts, dtype=np.int64)
        numbers += self._first_of
        numbers += np.multiply(now, self.no_state + 1, dtype=np.int64)
        numbers += after
        return numbers

    def moves(self, situation: int, up: bool) -> list[Move]:
        """The moves up (or down) of a server in this situation, those of most worth first."""
        known = self._moves[up].get(situation)
        if known is None:
            known = self._moves[up][situation] = self._sorted_moves(situation, up)
        return known

    def _sorted_moves(self, situation: int, up: bool) -> list[Move]:
        none, found = self.no_state, []
        places = np.unravel_index(situation, (len(self._choices), 2, none, none + 1))
        kind, slept, here, after = (int(place) for place in places)
        sleep = self._sleep_of[kind]
        spent_j, gained = self._spent_j[up][situation].tolist(), self._gained[situation].tolist()
        for row, there in enumerate(self._choices[kind]):
            if (used_j := spent_j[there]) < np.inf:
                asleep = there == sleep
                switches = (asleep != slept) + (after != none and asleep != (after == sleep))
                moved = situation + (there - here) * (none + 1)
                found.append(Move(gained[there] / used_j, used_j, switches, row, there, moved))
        return sorted(found, key=lambda move: (-move.worth, move.row))


def _differences(values: FloatArray) -> FloatArray:
    """Return each state's difference from the present one: [situation, state]; ``values`` as `_outcomes`."""
    more = values[:, :, None] - values.swapaxes(2, 3)[..., None]
    return more.reshape(-1, more.shape[-1])


def _outcomes(cells: CellEnergies, step_s: float) -> tuple[FloatArray, FloatArray]:
    """Energy (J) and flops of a step and the one after it: [kind, asleep before, state after, state]."""
    step_j, step_flops = cells.table_j(step_s)[:, 0], cells.flops(step_s)
    kinds, _, count = step_j.shape
    kind, states = np.arange(kinds)[:, None, None], np.arange(count)
    asleep = states == cells.power.sleep_pstate[:, None]
    later = (slice(None), slice(None), slice(count))
    energy_j = np.repeat(step_j[:, :, None], count + 1, axis=2)
    energy_j[later] += step_j[kind, asleep[:, None].astype(np.intp), states[:, None]][:, None]
    flops = np.repeat(step_flops[:, :, None], count + 1, axis=2)
    woken = asleep[:, None, :] & ~asleep[:, :, None]
    lost_flops = cells.speed_flops * cells.power.on_s[:, None]
    flops[later] -= np.where(woken, lost_flops[:, :, None], 0.0)[:, None]
    return energy_j, flops


WORTH_TOLERANCE = 1e-9
"""Moves whose worth differs by this share are equals."""


class GreedyMoves:
    """Servers of one step, in groups of the same situation: whoever is in one has the same moves."""

    def __init__(self, tables: MoveTables, states: StateArray, situations: Situations, up: bool) -> None:
        """Begin with the step's planned ``states`` (N) and ``situations`` (N); moves go up or down."""
        self.states = states.copy()
        """Planned states (N), with the moves made."""
        self._tables, self._situations, self._up = tables, situations, up
        self._groups: defaultdict[int, list[int]] = defaultdict(list)
        """Ids by situation, in order; none may be left."""
        self._tops: dict[int, Move] = {}
        """The best move that can be afforded, by the situation of groups that have one and a server."""

    def spend(self, hosts: HostIds, energy_j: float) -> float:
        """Move ``hosts`` (ids in order) as far as ``energy_j`` goes; return what is left of it.

        The most worth first; of equals, the fewest switches, then the earlier state of its kind, then the
        lower id.
        """
        groups, tops = self._groups, self._tops
        groups.clear()
        for host, situation in zip(hosts.tolist(), self._situations[hosts].tolist(), strict=True):
            groups[situation].append(host)
        for situation in groups:
            self._find_top(situation, energy_j)
        reached: dict[int, int] = {}
        while tops:
            situation, move, while_j, most = self._choose(energy_j)
            group, goal, count = groups[situation], groups[move.situation], 0
            while count < most and while_j <= energy_j:
                energy_j -= move.energy_j
                count += 1
            goal += group[:count]
            goal.sort()
            reached[move.situation] = move.pstate
            del group[:count]
            if not group:
                del tops[situation]
            if move.situation not in tops:
                self._find_top(move.situation, energy_j)
            for known in [known for known, top in tops.items() if top.energy_j > energy_j]:
                self._find_top(known, energy_j)
        for situation, pstate in reached.items():
            self.states[groups[situation]] = pstate
        return energy_j

    def _find_top(self, situation: int, energy_j: float) -> None:
        """Find the best move that a group can afford with ``energy_j``, which only falls."""
        top = self._top(situation, energy_j)
        if top is not None:
            self._tops[situation] = top
        else:
            self._tops.pop(situation, None)

    def _choose(self, energy_j: float) -> tuple[int, Move, float, int]:
        """Find the best move that costs or saves at most ``energy_j``, and the situation of its servers.

        It stays the best while as much energy as the third value is left, for the number of servers that is
        the fourth.
        """
        best = max(self._tops.values(), key=_worth)
        least = best.worth - WORTH_TOLERANCE * abs(best.worth)
        equals = []
        for situation, top in self._tops.items():
            if top.worth >= least:
                first = self._groups[situation][0]
                for move in self._tables.moves(situation, self._up):
                    if move.worth < least:
                        break
                    if move.energy_j <= energy_j:
                        equals.append((move.switches, move.row, first, situation, move))
        equals.sort()
        *_, situation, move = equals[0]
        group = self._groups[situation]
        most = len(group)
        if len(equals) > 1 and equals[1][:2] == equals[0][:2]:
            most = bisect_left(group, equals[1][2])  # then it is the turn of a rival, whose id is lower
        ahead = self._top(move.situation, energy_j)
        if ahead is not None and ahead.worth >= least:
            most = 1  # what has moved may be the next to move
        return situation, move, max(move.energy_j, best.energy_j), most

    def _top(self, situation: int, energy_j: float) -> Move | None:
        """The best move in a situation that costs or saves at most ``energy_j``."""
        for move in self._tables.moves(situation, self._up):
            if move.energy_j <= energy_j:
                return move
        return None


_IDLE, _BUSY = True, False
"""Groups of servers that a shortage is taken out of."""


_STEPS_A_PIECE: Final = 64
"""Number of steps that are looked at together, so that arrays stay small."""


class EnvelopeRefit:
    """Moves single servers of single steps to faster or slower states, or to sleep and back.

    While it is used, nobody else changes the plan's states.
    """

    def __init__(self, plan: WorkingPlan) -> None:
        """Find what every server can do in every step."""
        self.plan = plan
        self._tables = MoveTables(plan.cells, plan.step_s)
        self._window = range(0)
        self.enter(0)

    def enter(self, step: int) -> None:
        """Find what every server can do from ``step`` to the end of its window, unless that is known."""
        if step in self._window:
            return
        self._window = window = range(step, self.plan.window_end(step))
        self._situations = np.zeros((len(window), self.plan.states.shape[1]), dtype=np.int64)
        self._least_j = np.full((2, len(window)), np.inf)
        """Least energy of any move down or up (second row) in each step of the window."""
        for first_step in range(window.start, window.stop, _STEPS_A_PIECE):
            self._look_at(first_step, min(first_step + _STEPS_A_PIECE, window.stop))

    def forget(self) -> None:
        """Find out anew when a step is entered next: the plan was replaced."""
        self._window = range(0)

    def can_change(self, steps: IntArray, energy_j: float) -> BoolArray:
        """Return for each of ``steps`` whether some server has a move that takes at most ``energy_j``."""
        least_j = self._least_j[int(energy_j > 0)][steps - self._window.start]
        return np.asarray(least_j <= abs(energy_j))

    def keep_on(self, hosts: HostIds, step: int, pstates: StateArray) -> None:
        """Plan ``hosts`` in ``pstates``, one each, in ``step`` of the window."""
        self.plan.set_states(hosts, step, step + 1, pstates)
        self._look_around(step)

    def spread(
        self, steps: IntArray, energy_j: float, busy_until_s: FloatArray, *, idle_first: bool = True
    ) -> tuple[float, int]:
        """Put ``energy_j`` into ``steps`` in this order, each as far as it can take it.

        Where it is negative, take it out of them: out of the idle servers of all steps before any busy one
        (``idle_first``), or out of each step's idle and then its busy servers before the next step.
        ``busy_until_s`` (N), when the servers are idle at the latest, counts only then. Returns what is
        left, and how many steps have changed.
        """
        changed = np.zeros(self.plan.steps, dtype=np.bool_)
        rounds = ((_IDLE,), (_BUSY,)) if idle_first and energy_j < 0 else ((_IDLE, _BUSY),)
        for groups in rounds:
            energy_j = self._spread(steps, energy_j, busy_until_s, groups, changed)
        return energy_j, int(np.count_nonzero(changed))

    def _spread(
        self,
        steps: IntArray,
        energy_j: float,
        busy_until_s: FloatArray,
        groups: tuple[bool, ...],
        changed: BoolArray,
    ) -> float:
        """Change servers of these groups in ``steps``; mark the ``changed`` steps, return what is left."""
        left_j, place = energy_j, 0
        while abs(left_j) > TOLERANCE_J and place < len(steps):
            can_change = self.can_change(steps[place:], left_j)
            first = int(can_change.argmax())
            if not can_change[first]:
                break
            place += first
            step = int(steps[place])
            idle = busy_until_s <= self.plan.start_of(step)
            used_j = self.change(step, left_j, idle, groups)
            changed[step] |= used_j != 0.0
            left_j -= used_j
            place += 1
        return left_j

    def change(
        self, step: int, energy_j: float, idle: BoolArray, groups: tuple[bool, ...] = (_IDLE, _BUSY)
    ) -> float:
        """Let the servers draw up to ``energy_j`` more in ``step``, or that much less where it is negative.

        More: the most speed for the energy first. Less: servers that are ``idle`` (N) first, the least
        speed for the energy first; ``groups`` can be only the idle or only the busy ones. Of equals, the
        fewest switches, then the lower id. Never goes beyond ``energy_j``; returns by how much planned
        energy has changed, transitions of the step after included.
        """
        plan, up, left_j = self.plan, energy_j > 0, abs(energy_j)
        situations = self._situations[step - self._window.start]
        moves = GreedyMoves(self._tables, plan.states[step], situations, up)
        can_move = self._tables.least_j[int(up)][situations] <= left_j
        for group in (can_move,) if up else tuple(can_move & (idle == wanted) for wanted in groups):
            left_j = moves.spend(group.nonzero()[0], left_j)
        changed = (moves.states != plan.states[step]).nonzero()[0]
        if len(changed):
            plan.set_states(changed, step, step + 1, moves.states[changed])
            self._look_around(step)
        return energy_j - left_j if up else energy_j + left_j

    def _look_around(self, step: int) -> None:
        """Find what servers can do in ``step`` and its neighbours, as they are planned now."""
        self._look_at(max(step - 1, self._window.start), min(step + 2, self._window.stop))

    def _look_at(self, first_step: int, end_step: int) -> None:
        """Find what servers can do in these steps, as they are planned now."""
        plan, rows = self.plan, slice(first_step, end_step)
        if first_step:
            slept = ~plan.on[first_step - 1 : end_step - 1]
        else:
            slept = shifted(plan.states[rows], plan.before(0)) == plan.sleep
        after = plan.states[first_step + 1 : end_step + 1]
        if end_step == plan.steps:
            after = np.concatenate([after, np.full((1, after.shape[1]), self._tables.no_state)])
        found = self._tables.situations(slept, plan.states[rows], after)
        places = slice(first_step - self._window.start, end_step - self._window.start)
        self._situations[places] = found
        least_j = self._tables.least_j.take(found, axis=1)
        np.minimum.reduce(least_j, axis=2, initial=np.inf, out=self._least_j[:, places])


def _by_peak(plan: WorkingPlan, steps: IntArray, surplus: bool) -> IntArray:
    """Order the steps by envelope, the largest first; of equals, the earlier first."""
    return steps[(-plan.energy_j[steps]).argsort(kind="stable")]


def _by_unmet(plan: WorkingPlan, steps: IntArray, surplus: bool) -> IntArray:
    """Order steps by predicted demand minus envelope: the largest first for a surplus, else the smallest."""
    unmet_w = plan.load_w[steps] - plan.energy_j[steps] / plan.step_s
    return steps[(-unmet_w if surplus else unmet_w).argsort(kind="stable")]


ORDERS: Final[dict[str, Callable[[WorkingPlan, IntArray, bool], IntArray]]] = {
    "peak": _by_peak,
    "next": lambda plan, steps, surplus: steps,
    "last": lambda plan, steps, surplus: steps[::-1],
    "workload": _by_unmet,
}
"""Order in which each policy changes steps, given from first to last, for a surplus or a shortage."""

NOWHERE: Final = "none"
"""Name in place of an order where nothing is changed, and the difference stays in the battery."""


class EndOfWindow(NamedTuple):
    """Expected end of a window, as seen in one of its steps."""

    step: int
    """The present step of the working plan."""
    end_step: int
    """The step after the window's last one."""
    diff_j: float
    """Battery level that is projected for the end, less its target, J."""
    comp_j: float
    """E_comp: what is to be spent (or saved, where negative) on the servers instead, J."""


class EnvelopeOptions(Options, frozen=True):
    """Options of the policies that refit a plan."""

    keep: Literal["always", "surplus", "never"] = "always"
    """Whether the server of a running job stays on where the plan has it asleep: always, only while E_comp
    is above 0, or never, so that its job is killed."""
    shortage: Literal["idle-first", "by-step"] = "idle-first"
    """Servers that a shortage is taken out of: the idle servers of all remaining steps before any busy one,
    or the idle and then the busy servers of one step after the other."""


class EnvelopePolicy(FollowPlan):
    """Follows a plan that it refits at each step, so that the window ends at the target level.

    Servers of running jobs stay on against the plan, unless an option forbids it (thesis, Section 3.1.3: the
    online module may decide to use "more energy now", "maintaining the job running"). E_comp goes into the
    steps in the policy's order, each as far as its servers can take it. The envelope of a step is what its
    servers are planned to draw. See docs/decisions/other-policies.md#envelope-policies.
    """

    needs_speeds = True
    words: ClassVar[Sentences] = {**PLAN_WORDS, **END_WORDS}
    options_type: ClassVar[type[Options]] = EnvelopeOptions
    options: EnvelopeOptions

    def begin(self, view: View) -> None:
        """Copy the plan."""
        super().begin(view)
        self._refit = EnvelopeRefit(self.plan)

    def plan_renewed(self) -> None:
        """Find anew what every server can do."""
        self._refit.forget()

    def place(self, view: View, ending: EndOfWindow) -> tuple[str, FactDict]:
        """Return where E_comp goes: one of `ORDERS`, or `NOWHERE`; and facts that say why."""
        return self.name, {}

    def compensate(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Spend or save E_comp (Eq. 3.31) in the rest of the window, from ``step`` on, and say so."""
        plan, keep = self.plan, self.options.keep
        plan.set_production(step, renew_w)
        self._refit.enter(step)
        kept = self._keep_busy(view, step) if keep == "always" else 0
        ending = self._ending(view, step)
        if keep == "surplus" and ending.comp_j > 0.0:
            kept = self._keep_busy(view, step)
            ending = self._ending(view, step) if kept else ending
        comp_j = left_j = ending.comp_j
        place, reasons = self.place(view, ending)
        steps_changed = 0
        if place != NOWHERE:
            steps = ORDERS[place](plan, np.arange(step, ending.end_step), comp_j > 0)
            ends_s = latest_ends_s(view) if comp_j < 0 else np.zeros(view.platform.size)
            idle_first = self.options.shortage == "idle-first"
            left_j, steps_changed = self._refit.spread(steps, comp_j, ends_s, idle_first=idle_first)
        why: FactDict = {
            "diff_j": ending.diff_j,
            "comp_j": comp_j,
            "window_end_s": plan.start_of(ending.end_step),
            "spent_j" if comp_j > 0 else "saved_j": float(abs(comp_j - left_j)),
            "steps_changed": steps_changed,
            **({"hosts_kept": kept} if kept else {}),
            **reasons,
        }
        return [Compensate("surplus" if comp_j > 0 else "shortage", why)]

    def _ending(self, view: View, step: int) -> EndOfWindow:
        """How the window of ``step`` ends if the plan is followed from the present level."""
        plan = self.plan
        end_step = plan.window_end(step)
        levels_j = plan.project_soc(step, end_step, battery_j(view))
        diff_j = float(levels_j[-1]) - plan.battery.target_j
        return EndOfWindow(step, end_step, diff_j, compensation_j(plan.battery, diff_j))

    def _keep_busy(self, view: View, step: int) -> int:
        """Plan busy servers that are to sleep in ``step`` on for it, in their P-states; return how many."""
        hosts = ((view.host_state == BUSY) & view.available & ~self.plan.on[step]).nonzero()[0]
        if len(hosts):
            self._refit.keep_on(hosts, step, view.pstate[hosts])
        return len(hosts)


class Peak(EnvelopePolicy):
    """The steps of the largest envelope first."""

    name = "peak"
    summary = "follows the plan; balances the battery in the steps of highest power"


class Next(EnvelopePolicy):
    """The next step onward."""

    name = "next"
    summary = "follows the plan; balances the battery in the next steps"


class Last(EnvelopePolicy):
    """The last step backward."""

    name = "last"
    summary = "follows the plan; balances the battery in the window's last steps"


class WorkloadEnvelope(EnvelopePolicy):
    """The steps where demand exceeds the envelope most; in a shortage, those where it exceeds it least."""

    name = "workload"
    summary = "follows the plan; balances the battery where demand and plan differ most"
