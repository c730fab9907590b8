"""Peak, Next, Last and Workload: battery gains or losses are spent or saved in future steps.

The servers of these steps are adapted to the energy one after the other, the best moves to another state
first. Servers in the same situation have the same moves: servers of one kind, in the same planned state in
the step, on or asleep in the previous step, and in the same state in the next step.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from beasy_sched.arrays import BoolArray, FloatArray, IntArray, StateArray
from beasy_sched.energy.server_energy import CellEnergies, shifted
from beasy_sched.engine.actions import Action, Compensate, FactDict
from beasy_sched.engine.policy import Options, View
from beasy_sched.engine.session_words import Rule, Sentences, Words, words_of
from beasy_sched.model.host_states import BUSY
from beasy_sched.model.hosts import HostIds
from beasy_sched.policies.follow_plan import PLAN_WORDS, FollowPlan, latest_ends_s
from beasy_sched.policies.planned.follower import battery_j, know_step
from beasy_sched.policies.planned.rest_of_window import compensation_j
from beasy_sched.policies.planned.working_plan import WorkingPlan

TOLERANCE_J = 1e-3
"""Minimum amount of energy that is spent or saved, J."""

Situations = npt.NDArray[np.int64]
"""Numbers of situations."""

_KEPT: Final = "[ {hosts_kept:server} kept on for running jobs, against the plan.]"
_AS_ANOTHER: Final = (
    "[ It was compensated like {as_policy}][, the best choice expected in such a step: last {value_last},"
    " next {value_next}, peak {value_peak}, workload {value_workload}][value_none?, none {value_none}]"
    "[as_policy?.]"
)
_SURPLUS: Final = (
    "According to the plan, the battery would end the window ({window_end_s}) {diff_j:abs} above its target"
    "[, minus its band of {band_pct}]:"
    " {comp_j} could be spent[, of which {spendable_j} without draining the battery before the end]."
    "[ {spent_on_jobs_j} were spent on faster servers for running jobs,"
    " {spent_on_wakes_j} on waking servers for waiting jobs.]"
    "[ {spent_j} were spent in {steps_changed:future step}.]"
    f"{_KEPT}{_AS_ANOTHER}"
)
_SHORTAGE: Final = (
    "According to the plan, the battery would end the window ({window_end_s}) {diff_j:abs} below its target"
    "[, minus its band of {band_pct}]:"
    " {comp_j:abs} had to be saved[; {saved_j} was saved by servers that sleep or run slower]"
    "[ in {steps_changed:future step}][, around {violation_at_s} ({curves_below} of the nine predicted"
    " curves are below SoC_min there)]."
    f"{_KEPT}{_AS_ANOTHER}"
)
PLANNED_ASLEEP: Final = Rule(
    "P-state", "the plan has it asleep", Words("No job needs it, and the current plan has it asleep.")
)
SURPLUS: Final = Rule(
    "compensate",
    "surplus",
    Words(
        _SURPLUS,
        in_short="[spent_on_jobs_j? (a surplus: {spent_on_jobs_j} spent on faster servers)]"
        "[spent_j? (a surplus: {spent_j} spent, in {steps_changed:step})]",
    ),
)
SHORTAGE: Final = Rule(
    "compensate", "shortage", Words(_SHORTAGE, in_short="[saved_j? (a shortage: {saved_j} saved)]")
)
END_WORDS: Final[Sentences] = words_of(PLANNED_ASLEEP, SURPLUS, SHORTAGE)
"""Words for the rules of policies that compensate the battery level at the end of the window."""


class Move(NamedTuple):
    """Change of one server's state in one step."""

    worth: float
    """Flops gained per joule spent; flops lost per joule saved, negative."""
    energy_j: float
    """Energy that a move up costs, or a move down saves, including the next step, J."""
    switches: int
    """Number of times the moved server falls asleep or wakes at the step or after it."""
    row: int
    """Index of the new state among those of its kind: computing states first, then sleep."""
    pstate: int
    """New state."""
    situation: int
    """Situation of the server after the move."""


_worth = operator.attrgetter("worth")


class MoveTables:
    """Numbers the situations of a platform's servers, and holds the moves of each."""

    def __init__(self, cells: CellEnergies, step_s: float) -> None:
        """Tabulate energy and flops of steps of ``step_s`` seconds by situation."""
        platform = cells.power.platform
        self._sleep_of = platform.sleep_of_kind.tolist()
        self._choices = [kind.plannable for kind in platform.kinds]
        self.no_state = count = cells.awake_w.shape[2]
        """Number that represents a missing state."""
        self._slept_counts = count * (count + 1)
        """Number of situations of the servers of a kind that are on in the previous step."""
        self._first_of = platform.kind_of * (2 * self._slept_counts)
        """First situation of each server's kind, [N]."""
        energy_j, flops = _outcomes(cells, step_s)
        for kind, choices in enumerate(self._choices):
            energy_j[kind, ..., np.delete(np.arange(count), choices)] = np.nan  # never a source or target
        more_j, self._gained = _differences(energy_j), _differences(flops)
        rises = (more_j > TOLERANCE_J) & (self._gained > 0.0)
        falls = -more_j > TOLERANCE_J
        self._spent_j = {True: np.where(rises, more_j, np.inf), False: np.where(falls, -more_j, np.inf)}
        """Energy of a move up (True) or down, J: [situation, new state]; infinite if there is none."""
        self.least_j = np.stack([self._spent_j[up].min(axis=1) for up in (False, True)])
        """Least energy of any move down or up (second row) by situation; infinite if there is none."""
        self._moves: dict[bool, dict[int, list[Move]]] = {True: {}, False: {}}

    def situations(self, slept: BoolArray, now: StateArray, after: StateArray) -> Situations:
        """Situation of each server (last axis: N).

        ``slept``: whether it is asleep in the previous step; ``now`` and ``after``: its states in this step
        and the next one, ``no_state`` at the end of the plan.
        """
        numbers: Situations = np.multiply(slept, self._slept_counts, dtype=np.int64)
        numbers += self._first_of
        numbers += np.multiply(now, self.no_state + 1, dtype=np.int64)
        numbers += after
        return numbers

    def moves(self, situation: int, up: bool) -> list[Move]:
        """Moves up (or down) of a server in this situation, those of most worth first."""
        moves = self._moves[up].get(situation)
        if moves is None:
            moves = self._moves[up][situation] = self._sorted_moves(situation, up)
        return moves

    def _sorted_moves(self, situation: int, up: bool) -> list[Move]:
        none, moves = self.no_state, []
        places = np.unravel_index(situation, (len(self._choices), 2, none, none + 1))
        kind, slept, here, after = (int(place) for place in places)
        sleep = self._sleep_of[kind]
        spent_j, gained = self._spent_j[up][situation].tolist(), self._gained[situation].tolist()
        for row, there in enumerate(self._choices[kind]):
            if (used_j := spent_j[there]) < np.inf:
                asleep = there == sleep
                switches = (asleep != slept) + (after != none and asleep != (after == sleep))
                moved = situation + (there - here) * (none + 1)
                moves.append(Move(gained[there] / used_j, used_j, switches, row, there, moved))
        return sorted(moves, key=lambda move: (-move.worth, move.row))


def _differences(values: FloatArray) -> FloatArray:
    """Return each state's difference from the current one: [situation, state]; ``values`` by `_outcomes`."""
    more = values[:, :, None] - values.swapaxes(2, 3)[..., None]
    return more.reshape(-1, more.shape[-1])


def _outcomes(cells: CellEnergies, step_s: float) -> tuple[FloatArray, FloatArray]:
    """Energy (J) and flops of a step and the next one: [kind, asleep before, state after, state]."""
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


class _Rival(NamedTuple):
    """Move of a group of servers, one of several of equal worth: the least is made first."""

    switches: int
    row: int
    first_host: int
    """Lowest id of the group."""
    situation: int
    """Situation of the group."""
    move: Move

    def is_equal_to(self, other: _Rival) -> bool:
        """Whether only the ids of the servers decide between the two moves."""
        return (self.switches, self.row) == (other.switches, other.row)


class _Choice(NamedTuple):
    """Move that is made next, by one server after the other of a group."""

    situation: int
    """Situation of the group."""
    move: Move
    while_j: float
    """Energy that must remain for it to stay the best move, J."""
    most_servers: int
    """Number of servers after which another move may be next."""


WORTH_TOLERANCE = 1e-9
"""Relative difference of worth up to which moves count as equal."""


class GreedyMoves:
    """Servers of one step, in groups of the same situation, which have the same moves."""

    def __init__(self, tables: MoveTables, states: StateArray, situations: Situations, up: bool) -> None:
        """Begin with the step's planned ``states`` (N) and ``situations`` (N); moves go up or down."""
        self.states = states.copy()
        """Planned states (N), with the moves made."""
        self._tables, self._situations, self._up = tables, situations, up
        self._groups: defaultdict[int, list[int]] = defaultdict(list)
        """Ids by situation, in order; may become empty."""
        self._tops: dict[int, Move] = {}
        """The best affordable move, by the situation of non-empty groups that have one."""

    def spend(self, hosts: HostIds, energy_j: float) -> float:
        """Move ``hosts`` (ids in order) as far as ``energy_j`` suffices; return the remaining energy.

        Order: most worth, then fewest switches, then the earlier state of its kind, then the lower id.
        """
        groups, tops = self._groups, self._tops
        groups.clear()
        for host, situation in zip(hosts.tolist(), self._situations[hosts].tolist(), strict=True):
            groups[situation].append(host)
        for situation in groups:
            self._find_top(situation, energy_j)
        reached: dict[int, int] = {}
        while tops:
            choice = self._choose(energy_j)
            move, group, goal = choice.move, groups[choice.situation], groups[choice.move.situation]
            count = 0
            while count < choice.most_servers and choice.while_j <= energy_j:
                energy_j -= move.energy_j
                count += 1
            goal += group[:count]
            goal.sort()
            reached[move.situation] = move.pstate
            del group[:count]
            if not group:
                del tops[choice.situation]
            if move.situation not in tops:
                self._find_top(move.situation, energy_j)
            for passed in [passed for passed, top in tops.items() if top.energy_j > energy_j]:
                self._find_top(passed, energy_j)
        for situation, pstate in reached.items():
            self.states[groups[situation]] = pstate
        return energy_j

    def _find_top(self, situation: int, energy_j: float) -> None:
        """Find the best move that a group can afford with ``energy_j``, which only decreases."""
        top = self._top(situation, energy_j)
        if top is not None:
            self._tops[situation] = top
        else:
            self._tops.pop(situation, None)

    def _choose(self, energy_j: float) -> _Choice:
        """Choose the next move among those of most worth that cost or save at most ``energy_j``."""
        best = max(self._tops.values(), key=_worth)
        least_worth = best.worth - WORTH_TOLERANCE * abs(best.worth)
        rivals = sorted(self._rivals(least_worth, energy_j))
        chosen = rivals[0]
        group = self._groups[chosen.situation]
        most_servers = len(group)
        if len(rivals) > 1 and rivals[1].is_equal_to(chosen):
            most_servers = bisect_left(group, rivals[1].first_host)  # from there on, the rival is next
        ahead = self._top(chosen.move.situation, energy_j)
        if ahead is not None and ahead.worth >= least_worth:
            most_servers = 1  # the moved server may be the next to move
        while_j = max(chosen.move.energy_j, best.energy_j)
        return _Choice(chosen.situation, chosen.move, while_j, most_servers)

    def _rivals(self, least_worth: float, energy_j: float) -> Iterator[_Rival]:
        """Yield the moves of all groups that are worth ``least_worth`` and take at most ``energy_j``."""
        for situation, top in self._tops.items():
            if top.worth < least_worth:
                continue
            first_host = self._groups[situation][0]
            for move in self._tables.moves(situation, self._up):
                if move.worth < least_worth:
                    break
                if move.energy_j <= energy_j:
                    yield _Rival(move.switches, move.row, first_host, situation, move)

    def _top(self, situation: int, energy_j: float) -> Move | None:
        """Return the best move in a situation that costs or saves at most ``energy_j``."""
        for move in self._tables.moves(situation, self._up):
            if move.energy_j <= energy_j:
                return move
        return None


_IDLE, _BUSY = True, False
"""Groups of servers from which a shortage is saved."""


_STEPS_A_PIECE: Final = 64
"""Number of steps examined together, so that arrays stay small."""


class EnvelopeRefit:
    """Moves single servers in single steps to faster or slower states, or to sleep and back.

    While it is in use, no other code may change the plan's states.
    """

    def __init__(self, plan: WorkingPlan) -> None:
        """Find the moves of every server in every step."""
        self.plan = plan
        self._tables = MoveTables(plan.cells, plan.step_s)
        self._window = range(0)
        self.enter(0)

    def enter(self, step: int) -> None:
        """Find the moves of every server from ``step`` to the end of its window, unless already found."""
        if step in self._window:
            return
        self._window = window = range(step, self.plan.window_end(step))
        self._situations = np.zeros((len(window), self.plan.states.shape[1]), dtype=np.int64)
        self._least_j = np.full((2, len(window)), np.inf)
        """Least energy of any move down or up (second row) in each step of the window."""
        for first_step in range(window.start, window.stop, _STEPS_A_PIECE):
            self._look_at(first_step, min(first_step + _STEPS_A_PIECE, window.stop))

    def forget(self) -> None:
        """Recompute at the next step, because the plan was replaced."""
        self._window = range(0)

    def can_change(self, steps: IntArray, energy_j: float) -> BoolArray:
        """Return for each of ``steps`` whether some server has a move that takes at most ``energy_j``.

        The energy is that of the site: of servers and their cooling.
        """
        least_j = self._least_j[int(energy_j > 0)][steps - self._window.start]
        return np.asarray(least_j * self.plan.pue[steps] <= abs(energy_j))

    def keep_on(self, hosts: HostIds, step: int, pstates: StateArray) -> None:
        """Plan ``hosts`` in ``pstates``, one each, in ``step`` of the window."""
        self.plan.set_states(hosts, step, step + 1, pstates)
        self._look_around(step)

    def spread(
        self, steps: IntArray, energy_j: float, busy_until_s: FloatArray, *, idle_first: bool = True
    ) -> tuple[float, int]:
        """Spend ``energy_j``, cooling included, in ``steps`` in this order, in each as far as possible.

        If it is negative, save it: from the idle servers of all steps before any busy one (``idle_first``),
        or from each step's idle and then busy servers before the next step. Only then is ``busy_until_s``
        (N), the latest time at which each server becomes idle, used. Returns the remaining energy, and the
        number of changed steps.
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
        """Change servers of these groups in ``steps``; mark ``changed`` ones, return the remaining energy."""
        left_j, place = energy_j, 0
        while abs(left_j) > TOLERANCE_J and place < len(steps):
            can_change = self.can_change(steps[place:], left_j)
            first = int(can_change.argmax())
            if not can_change[first]:
                break
            place += first
            step = int(steps[place])
            idle = busy_until_s <= self.plan.start_of(step)
            weight = self.plan.pue.item(step)
            used_j = self.change(step, left_j / weight, idle, groups)
            changed[step] |= used_j != 0.0
            left_j -= used_j * weight
            place += 1
        return left_j

    def change(
        self, step: int, energy_j: float, idle: BoolArray, groups: tuple[bool, ...] = (_IDLE, _BUSY)
    ) -> float:
        """Let the servers draw up to ``energy_j`` more in ``step``, or less if it is negative.

        More: the most speed per energy first. Less: ``idle`` (N) servers first, the least speed per energy
        first; ``groups`` may be only the idle or only the busy ones. Among equals: the fewest switches, then
        the lower id. Never exceeds ``energy_j``; returns the change of planned energy, including
        transitions of the next step.
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
        """Find the moves of servers in ``step`` and its neighbours, as currently planned."""
        self._look_at(max(step - 1, self._window.start), min(step + 2, self._window.stop))

    def _look_at(self, first_step: int, end_step: int) -> None:
        """Find the moves of servers in these steps, as currently planned."""
        plan, rows = self.plan, slice(first_step, end_step)
        if first_step:
            slept = ~plan.on[first_step - 1 : end_step - 1]
        else:
            slept = shifted(plan.states[rows], plan.before(0)) == plan.sleep
        after = plan.states[first_step + 1 : end_step + 1]
        if end_step == plan.steps:
            after = np.concatenate([after, np.full((1, after.shape[1]), self._tables.no_state)])
        situations = self._tables.situations(slept, plan.states[rows], after)
        places = slice(first_step - self._window.start, end_step - self._window.start)
        self._situations[places] = situations
        least_j = self._tables.least_j.take(situations, axis=1)
        np.minimum.reduce(least_j, axis=2, initial=np.inf, out=self._least_j[:, places])


def _by_peak(plan: WorkingPlan, steps: IntArray, surplus: bool) -> IntArray:
    """Order the steps by envelope, the largest first; among equals, the earlier first."""
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
"""Name instead of an order if nothing is changed, so that the difference stays in the battery."""


class EndOfWindow(NamedTuple):
    """Expected end of a window, estimated in one of its steps."""

    step: int
    """Current step of the working plan."""
    end_step: int
    """Step after the window's last one."""
    diff_j: float
    """Battery level projected for the end minus its target, or the lower edge of its band, J."""
    comp_j: float
    """E_comp: energy to be spent on the servers or, if negative, saved, J."""


class EnvelopeOptions(Options, frozen=True):
    """Options of the policies that adapt a plan."""

    keep: Literal["always", "surplus", "never"] = "always"
    """Whether the server of a running job stays on although the plan has it asleep: always, only while E_comp
    is above 0, or never, so that its job is killed."""
    shortage: Literal["idle-first", "by-step"] = "idle-first"
    """Servers from which a shortage is saved: the idle servers of all remaining steps before any busy one,
    or the idle and then the busy servers of one step after the other."""


class EnvelopePolicy(FollowPlan):
    """Follows a plan and adapts it at each step, so that the window ends at the target level.

    Servers of running jobs stay on against the plan, unless an option forbids it (thesis, Section 3.1.3: the
    online module may decide to use "more energy now", "maintaining the job running"). E_comp is spent or
    saved in the steps in the policy's order, in each as far as its servers allow. The envelope of a step is
    the planned power of its servers. See docs/decisions/other-policies.md#envelope-policies.
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
        """Recompute the feasible moves of every server."""
        self._refit.forget()

    def place(self, view: View, ending: EndOfWindow) -> tuple[str, FactDict]:
        """Return the order for E_comp, one of `ORDERS` or `NOWHERE`, and facts with the reason."""
        return self.name, {}

    def compensate(self, view: View, step: int, renew_w: float) -> Sequence[Action]:
        """Spend or save E_comp (Eq. 3.31) in the rest of the window, from ``step`` on, and log it."""
        plan, keep = self.plan, self.options.keep
        know_step(view, plan, step)
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
            **plan.battery.band_facts(),
            **reasons,
        }
        return [Compensate(SURPLUS if comp_j > 0 else SHORTAGE, why)]

    def _ending(self, view: View, step: int) -> EndOfWindow:
        """Return the expected end of the window of ``step``, following the plan from the current level."""
        plan = self.plan
        end_step = plan.window_end(step)
        levels_j = plan.project_soc(step, end_step, battery_j(view))
        diff_j = float(levels_j[-1]) - plan.battery.least_end_j
        return EndOfWindow(step, end_step, diff_j, compensation_j(plan.battery, diff_j))

    def _keep_busy(self, view: View, step: int) -> int:
        """Plan busy servers that would sleep in ``step`` on, in their P-states; return their number."""
        hosts = ((view.host_state == BUSY) & view.available & ~self.plan.on[step]).nonzero()[0]
        if len(hosts):
            self._refit.keep_on(hosts, step, view.pstate[hosts])
        return len(hosts)


class Peak(EnvelopePolicy):
    """The steps of the largest envelope first."""

    name = "peak"
    summary = "follows the plan; compensates battery deviations in the steps with the highest planned power"


class Next(EnvelopePolicy):
    """The next step onward."""

    name = "next"
    summary = "follows the plan; compensates battery deviations in the next steps"


class Last(EnvelopePolicy):
    """The last step backward."""

    name = "last"
    summary = "follows the plan; compensates battery deviations in the window's last steps"


class WorkloadEnvelope(EnvelopePolicy):
    """The steps where demand exceeds the envelope most; in a shortage, those where it exceeds it least."""

    name = "workload"
    summary = "follows the plan; compensates battery deviations where demand and plan differ most"
