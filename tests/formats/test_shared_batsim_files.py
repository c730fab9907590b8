"""Batsim's own example files: each one is read rightly, or refused with a reason to act on."""

from pathlib import Path

import pytest

from beasy_sched.errors import InputError
from beasy_sched.formats.batsim_events import read_external_events
from beasy_sched.formats.batsim_workload import read_workload
from beasy_sched.formats.simgrid_xml import read_simgrid_platform

FOLDER = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "batsim"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared example files are not here")

NETWORK = "the network is not simulated"
SMPI = "needs the replay of MPI traces"
PFS = "parallel file system"
OLD = "the name before Batsim 3"

WORKLOADS = {
    "batsched_mixed.json": NETWORK,
    "g5k_workload_delay_seed0_size32.json": 800,
    "energybudget/curie_1w_46054648.json": OLD,
    "energybudget/metacentrum_1w_1367276567.json": OLD,
    "energybudget/sdscblue_1w_22874448.json": OLD,
    "energybudget/sdscblue_1w_61845732.json": OLD,
    "workloads/example_workload_hpc_seed1_jobs250.json": 250,
    "workloads/example_workload_hpc_seed2_jobs250.json": 250,
    "workloads/example_workload_hpc_seed4_jobs250.json": 250,
    "workloads/example_workload_hpc_seed5_jobs250.json": 250,
    "workloads/test_batsim_paper_workload_seed1.json": 800,
    "workloads/test_case_study1.json": 3,
    "workloads/test_delays.json": 10,
    "workloads/test_energy_minimal_load0.json": 2,
    "workloads/test_energy_minimal_load100.json": 2,
    "workloads/test_energy_minimal_load50.json": NETWORK,
    "workloads/test_long_workload.json": "'subtime' is 1e+16, expected a number from 0 to 1e+15",
    "workloads/test_one_computation_job.json": 1,
    "workloads/test_one_computation_job_tot.json": 1,
    "workloads/test_one_delay_job.json": 1,
    "workloads/test_same_submit_time.json": 18,
    "workloads/test_smpi_collectives.json": SMPI,
    "workloads/test_smpi_compute_only.json": SMPI,
    "workloads/test_smpi_compute_only_2_jobs.json": SMPI,
    "workloads/test_smpi_mapping.json": SMPI,
    "workloads/test_smpi_mixed_comp_comm.json": SMPI,
    "workloads/test_tuto_stencil.json": PFS,
    "workloads/test_various_profile_types.json": NETWORK,
    "workloads/test_walltime_smpi.json": SMPI,
    "workloads/untested/test_composed_bda.json": NETWORK,
    "workloads/untested/test_one_spark_job_bda.json": NETWORK,
    "workloads/untested/test_workload_pfs0.json": NETWORK,
}
"""Number of jobs, or why it is refused."""

NO_MASTER = "name it with -m/--master-host"
PLATFORMS = {
    "batsched_energy128.xml": (128, {}),
    "platforms/cluster512.xml": (512, {}),
    "platforms/cluster512_pfs.xml": (512, {}),
    "platforms/cluster_energy_128.xml": (128, {}),
    "platforms/cluster_locality_32x16.xml": (512, {"master": "master_host0"}),
    "platforms/cluster_locality_4x128.xml": (512, {"master": "master_host0"}),
    "platforms/cluster_locality_8x16.xml": (128, {"master": "master_host0"}),
    "platforms/cluster_locality_8x64.xml": (512, {"master": "master_host0"}),
    "platforms/energy_platform.xml": ("9 speeds but 6 entries in wattage_per_state", {}),
    "platforms/energy_platform_homogeneous.xml": (4, {}),
    "platforms/energy_platform_homogeneous_no_net_1.xml": (1, {}),
    "platforms/energy_platform_homogeneous_no_net_128.xml": (128, {}),
    "platforms/energy_platform_homogeneous_no_net_256.xml": (256, {}),
    "platforms/energy_platform_homogeneous_no_net_512.xml": (512, {}),
    "platforms/graphene.xml": (NO_MASTER, {}),
    "platforms/properties_example.xml": (7, {}),
    "platforms/small_platform.xml": (4, {}),
    "platforms/small_platform_pfs0.xml": (5, {}),
    "platforms/small_platform_usage_replay.xml": (4, {}),
}
"""Number of compute hosts (with which options), or why it is refused."""


def test_no_file_is_left_out():
    assert {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.json")} == set(WORKLOADS)
    assert {str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*.xml")} == set(PLATFORMS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(name):
    fate = WORKLOADS[name]
    if isinstance(fate, int):
        assert len(read_workload(FOLDER / name).jobs) == fate
        return
    with pytest.raises(InputError) as caught:
        read_workload(FOLDER / name)
    assert fate in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("name", PLATFORMS)
def test_platforms(name):
    fate, options = PLATFORMS[name]
    if isinstance(fate, int):
        assert read_simgrid_platform(FOLDER / name, **options).platform.size == fate
        return
    with pytest.raises(InputError) as caught:
        read_simgrid_platform(FOLDER / name, **options)
    assert fate in str(caught.value)


def test_a_platform_with_too_few_powers_loads_without_energy():
    assert read_simgrid_platform(FOLDER / "platforms/energy_platform.xml", energy=False).platform.size == 4


def test_storage_hosts_are_kept_apart():
    found = read_simgrid_platform(FOLDER / "platforms/cluster512_pfs.xml")
    assert found.storage.size == 1
    assert found.latency.master_s > 0


def test_properties():
    found = read_simgrid_platform(FOLDER / "platforms/properties_example.xml").platform
    assert found.names[:3] == ("host1", "host2", "node-0.simgrid.org")
    assert found.properties[0] == {"role": "", "Hdd": "180", "mem": "4"}
    assert found.zone_properties[0] == {"bla": "bli", "Foo": "bar"}
    assert found.zone_properties[2] == {"zone_name": "acme cluster", "Foo": "bar"}


def test_events():
    machine, generic = (FOLDER / "events" / f"test_{name}.txt" for name in ("events_4hosts", "generic_event"))
    assert [x.timestamp for x in read_external_events(machine)] == [0, 10, 20, 250, 300]
    assert [x.kind for x in read_external_events(generic, forward_unknown=True)] == ["some_generic_event"]
    with pytest.raises(InputError, match="--forward-unknown-events"):
        read_external_events(generic)
