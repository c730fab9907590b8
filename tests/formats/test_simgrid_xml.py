"""Reading SimGrid platform files."""

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.simgrid_xml import parse_speed, read_simgrid_platform

MASTER = '<host id="master_host" speed="1Gf"/>'


def read(tmp_path, body, **options):
    path = tmp_path / "platform.xml"
    path.write_text(
        f'<?xml version="1.0"?><platform version="4.1"><zone id="z" routing="Full">{body}</zone></platform>'
    )
    return read_simgrid_platform(path, **options)


@pytest.mark.parametrize(
    ("text", "flops"),
    [
        ("100Mf", 1e8),
        ("1e-9Mf", 1e-3),
        ("0.5f", 0.5),
        ("16.673E9flops", 16.673e9),
        ("2kf", 2e3),
        (" 3Tf ", 3e12),
        ("42", 42),
    ],
)
def test_speeds(text, flops):
    assert parse_speed(text) == pytest.approx(flops)


@pytest.mark.parametrize("text", ["", "fast", "-1f", "1Xf", "nanf", "1e999f", "1..2f"])
def test_bad_speeds(text):
    with pytest.raises(ValueError, match="expected flops/s"):
        parse_speed(text)


def test_hosts_are_sorted_as_text_and_kinds_shared(tmp_path):
    names = ["host10", "host2", "host1"]
    body = MASTER + "".join(f'<host id="{name}" speed="1Gf"/>' for name in names)
    found = read(tmp_path, body)
    assert found.platform.names == ("host1", "host10", "host2")
    assert len(found.platform.kinds) == 1
    assert found.master == "master_host"
    assert found.latency.master_s == 1e-10


def test_a_cluster_with_powers_and_zone_properties(tmp_path):
    body = (
        MASTER + '<prop id="site" value="north"/>'
        '<cluster id="c" prefix="n-" suffix=".org" radical="0-1,5" speed="10f, 1f, 0.5f, 0.2f" core="2"'
        ' bw="1GBps" lat="1us">'
        '<prop id="wattage_per_state" value="1:2:3, 1:1:1, 2:2:2, 3:3:3"/>'
        '<prop id="sleep_pstates" value="1:2:3"/></cluster>'
    )
    found = read(tmp_path, body)
    kind = found.platform.kinds[0]
    assert found.platform.names == ("n-0.org", "n-1.org", "n-5.org")
    assert (kind.cores, kind.computing, kind.full_w[0]) == (2, (0,), 3)
    assert (kind.off_duration_s(), kind.on_duration_s()) == (2, 5)
    assert found.platform.zone_properties[0]["site"] == "north"
    assert list(found.platform.properties[0]) == ["role", "wattage_per_state", "sleep_pstates"]
    assert "both hosts and zones" in found.unknown_latency


def test_roles_and_limits(tmp_path):
    body = '<host id="boss" speed="1f"><prop id="role" value="master"/></host>' + "".join(
        f'<host id="n{i}" speed="1f"/>' for i in range(4)
    )
    found = read(tmp_path, body, roles={"n3": "storage"}, limit=2)
    assert found.master == "boss"
    assert found.platform.names == ("n0", "n1")
    assert found.storage.names == ("n3",)


def master_with(role):
    return (
        f'<host id="master_host" speed="1Gf"><prop id="role" value="{role}"/></host><host id="n" speed="1f"/>'
    )


@pytest.mark.parametrize(
    ("role", "options", "message"),
    [
        ("master", {}, "property role='master', and is given the role 'master' as well .*or give -m none"),
        ("compute_node", {}, "cannot read 'compute_node,master'; remove the property from the file"),
        ("storage", {"roles": {"master_host": "storage"}}, r"\(-r\): Batsim cannot read 'storage,storage'"),
        ("compute_node,storage", {"master": "none"}, "has the role 'compute_node,storage': expected one of"),
        (" master", {"master": "none"}, "has the role ' master': expected one of"),
        ("", {"master": "none"}, "no master host: expected a host named 'none'"),
    ],
)
def test_roles_that_batsim_cannot_read(tmp_path, role, options, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, master_with(role), strict=True, **options)
    assert "'master_host'" in str(caught.value) or "no master host" in str(caught.value)


@pytest.mark.parametrize(
    ("role", "options"),
    [("", {}), ("master", {"master": "none"}), ("", {"master": "none", "roles": {"master_host": "master"}})],
)
def test_a_role_is_told_once(tmp_path, role, options):
    found = read(tmp_path, master_with(role), strict=True, **options)
    assert (found.master, found.platform.names, found.notes) == ("master_host", ("n",), ())


def test_older_platforms_of_ours_are_read_with_a_note(tmp_path):
    found = read(tmp_path, master_with("master"))
    assert (found.master, found.platform.names) == ("master_host", ("n",))
    assert len(found.notes) == 1
    assert "Batsim 4.2 aborts on such a file; remove the property, or give Batsim -m none" in found.notes[0]


POWERS = '<prop id="wattage_per_state" value="1:2"/>'
HOSTS_WITHOUT_POWERS = {
    "a compute host": f'<host id="n" speed="1f">{POWERS}</host><host id="m" speed="1f"/>',
    "a storage host": (
        f'<host id="n" speed="1f">{POWERS}</host>'
        '<host id="m" speed="1f"><prop id="role" value="storage"/></host>'
    ),
    "the old name": '<host id="m" speed="1f"><prop id="watt_per_state" value="1:2"/></host>',
    "several P-states": '<host id="m" speed="3f,2f,1f,1f,1f"><prop id="sleep_pstates" value="2:3:4"/></host>',
}


@pytest.mark.parametrize("body", HOSTS_WITHOUT_POWERS.values(), ids=HOSTS_WITHOUT_POWERS)
def test_hosts_without_powers_are_refused_only_where_batsim_meters_them(tmp_path, body):
    """With -E Batsim 4.2.1 aborts at the first submission, with the text in quotes; without, it runs."""
    with pytest.raises(
        InputError, match=r"platform\.xml:1: .*'No power range properties specified for host m'.*without -E"
    ):
        read(tmp_path, MASTER + body, strict=True, needs_powers=True)
    for options in ({"strict": True, "needs_powers": True, "energy": False}, {}):
        assert read(tmp_path, MASTER + body, **options).platform.size >= 1


def test_powers_are_needed_only_of_hosts_that_are_used(tmp_path):
    """The master and the hosts above the limit are not metered."""
    body = f'{MASTER}<host id="a" speed="1f">{POWERS}</host><host id="b" speed="1f"/>'
    assert read(tmp_path, body, strict=True, needs_powers=True, limit=1).platform.names == ("a",)


@pytest.mark.parametrize(("speeds", "start"), [("1f,0f", 0), ("0f,1f", 1)])
def test_without_energy_only_the_speed_of_the_first_pstate_counts(tmp_path, speeds, start):
    """As Batsim 4.2.1 has it; with -E all speeds but those of sleep must be above 0."""
    body = f'{MASTER}<host id="n" speed="{speeds}" pstate="{start}"/>'
    assert read(tmp_path, body, strict=True, energy=False).platform.initial_pstates.tolist() == [start]
    for options in ({"strict": True}, {"energy": False}):
        with pytest.raises(InputError, match="must be above 0"):
            read(tmp_path, body, **options)
    other = body.replace(f'pstate="{start}"', f'pstate="{1 - start}"')
    with pytest.raises(InputError, match=f"the speed of its P-state {1 - start} must be above 0"):
        read(tmp_path, other, strict=True, energy=False)


def test_storage_hosts_are_sorted_by_name_and_follow_the_compute_hosts(tmp_path):
    store = '<host id="{}" speed="1f" pstate="{}"><prop id="role" value="storage"/></host>'
    body = store.format("s9", 0) + '<host id="z" speed="2f,1f"/>' + store.format("s10", 0)
    found = read(tmp_path, MASTER + body)
    assert (found.storage.names, found.machines.names) == (("s10", "s9"), ("z", "s10", "s9"))
    assert [found.machines.kind(host).speeds_flops for host in range(3)] == [(2.0, 1.0), (1.0,), (1.0,)]
    assert read(tmp_path, MASTER + body, natural_order=True).storage.names == ("s9", "s10")


def with_properties(cores=1, **properties):
    lines = "".join(f'<prop id="{name}" value="{value}"/>' for name, value in properties.items())
    return f'{MASTER}<host id="n" speed="2f, 1f" core="{cores}">{lines}</host>'


@pytest.mark.parametrize(
    ("properties", "powers", "notes"),
    [
        ({"wattage_per_state": "1:3, 1:2"}, ((1, 1), (1, 1), (3, 2)), 0),
        ({"watt_per_state": "1:3, 1:2"}, ((1, 1), (3, 2), (3, 2)), 1),
        ({"watt_per_state": "1:3, 1:2", "cores": 4}, ((1, 1), (1, 1), (3, 2)), 1),
        ({"watt_per_state": "1:3:6, 1:1:1", "cores": 4}, ((1, 1), (2, 1), (6, 1)), 1),
        ({"wattage_per_state": "1:3, 1:2", "watt_per_state": "1:3,1.0:2"}, ((1, 1), (1, 1), (3, 2)), 0),
        ({"wattage_per_state": "1:2:3, 1:1:2", "watt_per_state": "1:3, 1:2"}, ((1, 1), (2, 1), (3, 2)), 0),
        ({"wattage_off": "5", "watt_off": "5.0"}, ((), (), ()), 0),
        ({"watt_off": "5"}, ((), (), ()), 0),
    ],
)
def test_both_names_of_the_powers(tmp_path, properties, powers, notes):
    found = read(tmp_path, with_properties(**properties), strict=True)
    kind = found.platform.kinds[0]
    assert (kind.idle_w, kind.epsilon_w, kind.full_w) == powers
    assert [
        "Batsim 4.2 does not find them and aborts with -E; add wattage_per_state" in note
        for note in found.notes
    ] == [True] * notes


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"wattage_per_state": "1:3, 1:2", "watt_per_state": "1:3, 1:1"},
            "wattage_per_state '1:3, 1:2' and watt_per_state '1:3, 1:1' give different powers",
        ),
        ({"wattage_off": "5", "watt_off": "6"}, "wattage_off '5' and watt_off '6' differ"),
        ({"wattage_off": "much"}, "wattage_off: 'much' is not a power"),
        ({"wattage_off": "1_0"}, "wattage_off: '1_0' is not a power"),
        ({"watt_per_state": "1, 1"}, "watt_per_state: '1' is not 'idle:full' or 'idle:one_core:full'"),
        ({"wattage_per_state": "1, 1"}, "wattage_per_state: '1' is not 'idle:full'"),
        ({"wattage_per_state": "1:2, 1:2,"}, "wattage_per_state: '' is not 'idle:full'"),
    ],
)
def test_powers_that_cannot_be_read(tmp_path, properties, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, with_properties(**properties))
    assert "host 'n'" in str(caught.value)
    assert read(tmp_path, with_properties(**properties), energy=False).notes == ()


def test_hosts_that_no_job_runs_on_are_checked_as_well(tmp_path):
    bad = '<prop id="wattage_per_state" value="1:2, 3:4"/></host>'
    host = '<host id="n" speed="1f"/>'
    with pytest.raises(InputError, match="host 'master_host': 1 speeds but 2 entries"):
        read(tmp_path, f'<host id="master_host" speed="1f">{bad}{host}')
    with pytest.raises(InputError, match="host 'o': 1 speeds but 2 entries"):
        read(tmp_path, f'{MASTER}{host}<host id="o" speed="1f">{bad}', limit=1)
    with pytest.raises(InputError, match="two hosts have the name 'master_host'"):
        read(tmp_path, f'{MASTER}{host}<host id="master_host" speed="1f"/>')


SLEEPING = '<host id="n" speed="1f,1f,1f,1f"><prop id="sleep_pstates" value="{}"/></host>'


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('<host id="n" speed="1f"/>', "no master host"),
        (MASTER, "no compute host"),
        (MASTER + '<host id="n"/>', "'n' has no attribute 'speed'"),
        (MASTER + '<host id="n" speed="slow"/>', "expected flops/s"),
        (MASTER + '<host id="n" speed="0f"/>', "must be above 0"),
        (MASTER + '<host id="n" speed="1f" core="0"/>', "core: found '0', expected an integer"),
        (MASTER + '<host id="n" speed="1f" pstate="1"/>', "expected 0 to 0"),
        (MASTER + '<host id="n" speed="1f"/><host id="n" speed="1f"/>', "two hosts have the name 'n'"),
        (MASTER + SLEEPING.format("1:2"), "not a triple of P-state numbers"),
        (MASTER + SLEEPING.format("1:2:9"), "names P-state 9"),
        (MASTER + SLEEPING.format("1:1:2"), "three different P-states"),
        (
            MASTER + '<host id="n" speed="1f,2f"><prop id="wattage_per_state" value="1:2"/></host>',
            "1 entries",
        ),
        (MASTER + '<host id="n" speed="1f"><prop id="wattage_per_state" value="a:b"/></host>', "in watts"),
        (MASTER + '<cluster id="c" prefix="n" radical="5-1" speed="1f"/>', "'5-1' is descending"),
        (
            MASTER + f'<cluster id="c" prefix="n" radical="{",".join(["0-9999999"] * 100)}" speed="1f"/>',
            "'0-9999999': more than 1,000,000 hosts",
        ),
        (
            MASTER
            + "".join(
                f'<cluster id="{c}" prefix="{c}" radical="0-599999" speed="1f" bw="1GBps" lat="1us"/>'
                for c in "ab"
            ),
            "more than 1,000,000 hosts",
        ),
        (
            MASTER + '<host id="n" speed="1f,1f,1f"><prop id="sleep_pstates" value="0:1:2"/></host>',
            "host 'n': no P-state remains for computing: sleep_pstates names all of them, 0 to 2",
        ),
        (MASTER + '<cluster id="c" prefix="n" radical="x" speed="1f"/>', "such as '0-127,130'"),
        (MASTER + '<host id="n" speed="1f" availability_file="t"/>', "trace"),
        (
            MASTER + '<host id="n" speed="1f" coordinates="0 0 ("/>',
            "coordinates '0 0 \\(': expected three numbers",
        ),
        (MASTER + '<host id="n" speed="1f" coordinates="0 0"/>', "expected three numbers"),
        (MASTER + '<host id="n" speed="1f" coordinates="nan 0 0"/>', "expected three numbers"),
        (MASTER + '<host id="n" speed="1f"><prop id="role" value="king"/></host>', "role 'king'"),
        (MASTER + "<include file='x'/>", "<include> is not supported"),
        (MASTER + "<host", "not well-formed"),
    ],
)
def test_a_wrong_file_is_told_with_its_path(tmp_path, body, message):
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, body)
    assert str(tmp_path / "platform.xml") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><platform version="4.1">&b;</platform>',
            "entity",
        ),
        ('<platform version="3"/>', "version '3'"),
        ("", "not well-formed"),
        ('{"nb_res": 4}', "is JSON, as workloads are"),
        ("<platform version='4.1'>\x00", "not well-formed"),
    ],
)
def test_hostile_and_damaged_files(tmp_path, text, message):
    path = tmp_path / "p.xml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_simgrid_platform(path)


def test_powers_do_not_matter_without_energy(tmp_path):
    body = MASTER + '<host id="n" speed="1f,2f"><prop id="wattage_per_state" value="1:2"/></host>'
    found = read(tmp_path, body, energy=False)
    assert found.platform.kinds[0].idle_w == ()
    assert found.platform.properties[0]["wattage_per_state"] == "1:2"


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_simgrid_platform(tmp_path / "none.xml")
