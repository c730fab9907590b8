"""Workflows: who waits for whom, and until when."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beasy_sched.model.events import JobRequest
from beasy_sched.model.jobs import Job, JobState, Outcomes, Terms, read_terms
from beasy_sched.model.workflow import (
    PREDECESSOR_LOST,
    SETTLED_S,
    Workflows,
    due_times,
    in_order,
    predecessors_of,
    whole_slots,
)


def job(name, subtime=0.0, **members):
    made = Job(JobRequest(f"w0!{name}", subtime, 1, "p", 100.0, members or None))
    made.terms = read_terms(made.id, members, subtime)
    return made


def test_predecessors_are_those_named_or_those_of_the_phase_before():
    terms = [("a", Terms(workflow="x", phase=0)), ("b", Terms(workflow="x", phase=0)),
             ("c", Terms(workflow="x", phase=2)), ("d", Terms(workflow="x", phase=2, after=("a",))),
             ("e", Terms(workflow="y", phase=2)), ("f", Terms())]  # fmt: skip
    assert predecessors_of(terms) == {"a": (), "b": (), "c": ("a", "b"), "d": ("a",), "e": (), "f": ()}


graphs = st.integers(1, 7).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3, unique=True), min_size=n, max_size=n)
)


@given(graphs)
def test_an_order_with_every_predecessor_first_and_without_circles(graph):
    predecessors = {str(at): [str(each) for each in some] for at, some in enumerate(graph)}
    order = in_order(predecessors)
    places = {name: at for at, name in enumerate(order)}
    assert len(places) == len(order)
    assert all(places[before] < at for name, at in places.items() for before in predecessors[name])
    left_out = set(predecessors) - set(places)
    assert all(any(before in left_out for before in predecessors[name]) for name in left_out)


# --- internal deadlines ------------------------------------------------------------------------------------

H, MIN = 3600.0, 60.0
SLOT_S = 900.0


def test_whole_slots():
    assert [whole_slots(d, 900) for d in (0, 1, 900, 900.0000001, 900.1, 1800)] == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("slot_s", "first", "second"),
    [(0.0, 13 * H + 36 * MIN, 14 * H + 48 * MIN), (SLOT_S, 13 * H + 30 * MIN, 14 * H + 45 * MIN)],
)
def test_the_papers_example(slot_s, first, second):
    """Three phases of 72 minutes that must end at 16:00 (GreenSlot, Section 4.1)."""
    phases = [(name, Terms(workflow="x", phase=at), 16 * H, 72 * MIN) for at, name in enumerate("abc")]
    assert due_times(phases, slot_s) == {"a": first, "b": second, "c": 16 * H}
    chain = [("a", Terms(), 16 * H, 72 * MIN), ("b", Terms(after=("a",)), 16 * H, 72 * MIN)]
    chain.append(("c", Terms(after=("b",)), 16 * H, 72 * MIN))
    assert due_times(chain, slot_s) == {"a": first, "b": second, "c": 16 * H}


def phased(rows, slot_s=0.0):
    jobs = [
        (str(at), Terms(workflow="x", phase=phase), due, run) for at, (phase, due, run) in enumerate(rows)
    ]
    return list(due_times(jobs, slot_s).values())


def test_internal_deadlines_of_phases():
    assert phased([(7, 1e4, 500), (2, 1e4, 100), (7, 1e4, 1000), (2, 1e4, 9000)]) == [1e4, 9000, 1e4, 9000]
    rows = [(0, 5000, 100), (0, math.inf, 100), (1, math.inf, 100), (1, 9000, 100)]
    assert phased(rows) == [5000, 8900, math.inf, 9000]
    assert phased([(0, 1000, 100), (1, 1000, 2000)]) == [-1000, 1000]
    assert phased([(0, math.inf, 100), (1, math.inf, math.inf)]) == [math.inf, math.inf]
    assert phased([(0, 1000, 100), (1, 1000, math.inf)]) == [-math.inf, 1000]
    assert phased([]) == []


def test_a_circle_keeps_its_own_deadlines():
    jobs = [("a", Terms(after=("b",)), 50.0, 10.0), ("b", Terms(after=("a",)), 40.0, 10.0)]
    assert due_times([*jobs, ("c", Terms(after=("none",)), 30.0, 10.0)], 0.0) == {"a": 50, "b": 40, "c": 30}


@given(graphs, st.data(), st.sampled_from([0.0, SLOT_S]))
def test_every_path_of_a_graph(graph, data, slot_s):
    """The least over all paths of their last deadline less the durations on the way; in thirds of slots."""
    third_s = SLOT_S / 3
    graph = [[before for before in some if before < at] for at, some in enumerate(graph)]
    own = [data.draw(st.one_of(st.just(math.inf), st.integers(1, 50))) for _ in graph]
    run = [data.draw(st.integers(1, 9)) for _ in graph]
    needed_s = [-(-thirds // 3) * SLOT_S if slot_s else thirds * third_s for thirds in run]

    def latest(at):
        after = [each for each in range(len(graph)) if at in graph[each]]
        return min([own[at] * third_s, *(latest(each) - needed_s[each] for each in after)])

    jobs = [
        (str(at), Terms(after=tuple(map(str, some))), own[at] * third_s, run[at] * third_s)
        for at, some in enumerate(graph)
    ]
    expected = [latest(at) for at in range(len(graph))]
    assert list(due_times(jobs, slot_s).values()) == pytest.approx(expected)


def test_a_long_chain_and_a_wide_fan():
    """Neither recursion nor more than one look at each edge."""
    size = 20_000
    chain = [(str(at), Terms(after=(str(at - 1),) if at else ()), 1e9, 900.0) for at in range(size)]
    assert due_times(chain, SLOT_S)["0"] == 1e9 - 900.0 * (size - 1)
    fan = [(str(at), Terms(after=("0",) if at else ()), 1e9, 900.0) for at in range(size)]
    assert set(due_times(fan, SLOT_S).values()) == {1e9, 1e9 - 900.0}


# --- who waits ----------------------------------------------------------------------------------------------


class World:
    """Workflows with the jobs of a run around them."""

    def __init__(self):
        self.outcomes = Outcomes()
        self.workflows = Workflows(self.outcomes)
        self.free, self.lost = [], []

    def submit(self, *jobs):
        for each in jobs:
            if self.workflows.submit(each, each.subtime_s):
                self.free.append(each.id)

    def end(self, each, at_s, state=JobState.FINISHED):
        each.state, each.end_s = state, at_s
        self.outcomes.add(each)
        self.workflows.end(each, at_s, finished=state is JobState.FINISHED)

    def at(self, now):
        """What is released at ``now``: names of jobs, those that are lost with an exclamation mark."""
        found = []
        for each, why in self.workflows.release(now):
            found.append(each.id.removeprefix("w0!") + ("!" if why == PREDECESSOR_LOST else ""))
            if why:
                self.end(each, now, JobState.REJECTED)
        return found


def test_phases():
    world = World()
    a, b, c = (job(name, workflow="x", phase=phase) for name, phase in (("a", 0), ("b", 0), ("c", 1)))
    d, other = job("d", workflow="x", phase=3), job("other", workflow="y", phase=1)
    world.submit(d, c, a, b, other, job("alone"))
    assert world.free == ["w0!alone"]
    assert world.at(0) == ["a", "b"]
    assert world.at(SETTLED_S) == ["other"]
    world.end(a, 10)
    assert world.at(10) == []
    world.end(b, 20)
    assert world.at(20) == ["c"]
    world.end(c, 30)
    assert world.at(30) == ["d"]
    assert not world.workflows.held


def test_named_predecessors_may_have_ended_before_or_come_later():
    world = World()
    early = job("early")
    world.submit(early)
    world.end(early, 5)
    late = job("late", 10.0)
    world.submit(job("b", 10.0, after=["early"]), job("c", 10.0, after=["early", "late"]))
    assert world.at(10) == ["b"]
    world.submit(late)
    assert world.at(10) == []
    world.end(late, 12)
    assert world.at(12) == ["c"]


@pytest.mark.parametrize(
    "state", [JobState.KILLED, JobState.FAILED, JobState.WALLTIME_REACHED, JobState.REJECTED]
)
def test_the_successors_of_a_job_that_did_not_finish_are_lost(state):
    world = World()
    a, b, c = job("a"), job("b", after=["a"]), job("c", after=["b"])
    p, q = job("p", workflow="x", phase=0), job("q", workflow="x", phase=1)
    world.submit(a, b, c, p, q)
    assert world.at(0) == ["p"]
    world.end(a, 5, state)
    world.end(p, 5, state)
    assert world.at(5) == ["b!", "q!", "c!"]
    assert not world.workflows.held
    world.submit(job("d", after=["c"]))
    assert world.at(6) == ["d!"]


def test_think_time():
    world = World()
    a, b = job("a"), job("b", after=["a"], think_time_s=30)
    world.submit(a, b)
    world.end(a, 5)
    assert world.at(5) == []
    assert world.workflows.next_s == 35
    assert world.at(34.9) == []
    assert world.at(35) == ["b"]
    assert world.workflows.next_s == math.inf
    p, q = job("p", workflow="x", phase=0), job("q", workflow="x", phase=1, think_time_s=10)
    world.submit(p, q)
    assert world.at(40) == ["p"]
    world.end(p, 50)
    assert world.at(55) == []
    assert world.at(60) == ["q"]


def test_jobs_that_can_never_start():
    world = World()
    world.submit(job("a", after=["none"]), job("b", after=["c"]), job("c", after=["b"]))
    assert world.at(0) == []
    known = {"w0!a", "w0!b", "w0!c"}
    assert [each.id for each in world.workflows.hopeless(known, nothing_else=False)] == ["w0!a"]
    assert [each.id for each in world.workflows.hopeless(known, nothing_else=True)] == [
        "w0!a",
        "w0!b",
        "w0!c",
    ]


@given(graphs, st.permutations(range(7)), st.integers(0, 6), st.data())
def test_a_job_is_released_exactly_when_all_before_it_have_finished(graph, order, lost, data):
    """The brute force looks at all predecessors after every event, in any order of arrival."""
    graph = [[before for before in some if before < at] for at, some in enumerate(graph)]
    world = World()
    jobs = [job(str(at), after=some) if some else job(str(at)) for at, some in enumerate(graph)]
    to_come = [at for at in order if at < len(jobs)]
    come, free, ended, finished, gone = set(), set(), set(), set(), set()
    now = 0.0
    while to_come or free - ended:
        now += 1.0
        if to_come and (not free - ended or data.draw(st.booleans())):
            at = to_come.pop()
            come.add(at)
            world.submit(jobs[at])
        else:
            at = data.draw(st.sampled_from(sorted(free - ended)))
            ended.add(at)
            if at != lost:
                finished.add(at)
            world.end(jobs[at], now, JobState.KILLED if at == lost else JobState.FINISHED)
        for text in world.at(now):
            (gone if text.endswith("!") else free).add(int(text.rstrip("!")))
        free |= {int(text.removeprefix("w0!")) for text in world.free}
        expected = set()
        changed = True
        while changed:  # losses pass on
            changed = False
            for each in sorted(come - expected):
                if any(b in expected or (b in ended and b not in finished) for b in graph[each]):
                    expected.add(each)
                    changed = True
        assert gone == expected
        assert free == {each for each in come - expected if finished.issuperset(graph[each])}


def test_jobs_with_a_deadline_are_kept():
    world = World()
    first, second = job("a", deadline_s=50), job("b")
    world.submit(first, second)
    assert world.workflows.with_deadline == [first]


def test_the_think_time_of_a_refused_job_is_waited_for_no_longer():
    workflows = Workflows(Outcomes())
    a, b = job("a"), job("b", after=["a"], think_time_s=30)
    assert workflows.submit(a, 0.0)
    assert not workflows.submit(b, 0.0)
    workflows.end(a, 10.0, finished=True)
    assert not [*workflows.release(10.0)]
    assert workflows.next_s == 40.0
    workflows.end(b, 20.0, finished=False)
    assert workflows.next_s == math.inf


def test_the_think_time_of_a_phase_counts_from_lower_phases_only():
    """Another job of the same phase ends while it runs; a first phase has nothing to think about."""
    world = World()
    first = job("first", workflow="x", phase=0, think_time_s=10)
    brother = job("brother", workflow="x", phase=1)
    world.submit(first, brother)
    assert world.at(0) == ["first"]
    world.end(first, 10)
    assert world.at(10) == ["brother"]
    world.end(brother, 35)
    world.submit(job("late", 36, workflow="x", phase=1, think_time_s=30))
    assert world.at(39.9) == []
    assert world.at(40) == ["late"]


def test_the_number_of_a_phase_may_be_large():
    world = World()
    a, b = job("a", workflow="x", phase=0), job("b", workflow="x", phase=10**9)
    world.submit(a, b)
    assert world.at(0) == ["a"]
    world.end(a, 5, JobState.KILLED)
    assert world.at(5) == ["b!"]


def start(each, at_s):
    each.state, each.start_s = JobState.RUNNING, at_s


def test_a_lower_phase_of_the_same_instant_may_come_in_a_later_message():
    world = World()
    high, low = job("high", 5.0, workflow="x", phase=1), job("low", 5.0, workflow="x", phase=0)
    world.submit(high)
    assert world.at(5.0) == []
    assert world.workflows.next_s == 5.0 + SETTLED_S
    world.submit(low)
    assert world.at(5.0) == ["low"]
    assert world.at(5.0 + SETTLED_S) == []
    world.end(low, 20.0)
    assert world.at(20.0) == ["high"]
    assert not world.workflows.early
    assert not world.workflows.warnings


def test_a_lower_phase_that_comes_within_the_think_time_is_waited_for():
    world = World()
    first, second = job("first", workflow="x", phase=0), job("second", 8.0, workflow="x", phase=1)
    high = job("high", workflow="x", phase=2, think_time_s=10.0)
    world.submit(first, high)
    assert world.at(0.0) == ["first"]
    world.end(first, 5.0)
    assert world.at(5.0) == []
    world.submit(second)
    assert world.at(8.0 + SETTLED_S) == ["second"]
    assert world.at(15.0) == []
    world.end(second, 20.0)
    assert world.at(29.0) == []
    assert world.at(30.0) == ["high"]


def test_jobs_that_could_not_wait_for_a_lower_phase_are_named():
    """Those that were in the queue or had started before it came: not one that was refused or is held."""
    world = World()
    ran, queued, refused = (job(name, workflow="x", phase=2) for name in ("ran", "queued", "refused"))
    apart = job("apart", workflow="y", phase=2)
    world.submit(ran, queued, refused, apart)
    assert world.at(SETTLED_S) == ["ran", "queued", "refused", "apart"]
    world.end(refused, 0.5, JobState.REJECTED)
    start(ran, 1.0)
    world.end(ran, 4.0)
    queued.place = 0
    same = job("same", 5.0, workflow="x", phase=2)
    world.submit(same)
    assert not world.workflows.warnings
    first = job("first", 5.0, workflow="x", phase=1)
    world.submit(first)
    assert world.at(5.0 + SETTLED_S) == ["first"]
    assert [*world.workflows.early] == ["w0!ran", "w0!queued"]
    assert world.workflows.warnings == [
        "2 jobs were queued before jobs of lower phases of the workflow were submitted, and did not wait for"
        " those: w0!ran, w0!queued; submit the phases of a workflow at one time, or use 'after'"
    ]
    world.submit(job("zero", 6.0, workflow="x", phase=0))
    assert [*world.workflows.early] == ["w0!ran", "w0!queued"]


def test_a_warning_names_the_first_jobs_only():
    world = World()
    jobs = [job(str(number), workflow="x", phase=1) for number in range(7)]
    world.submit(*jobs)
    world.at(SETTLED_S)
    for each in jobs:
        start(each, 1.0)
    world.submit(job("late", 2.0, workflow="x", phase=0))
    (warning,) = world.workflows.warnings
    assert warning.startswith("7 jobs were queued before")
    assert "w0!3, w0!4 and so on;" in warning
