"""Bad inputs of green sites: each gives one message with the place, what was found and what was expected."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import exit_code

SITE = """\
[time]
step_s = 300
window_h = 24
start = "2019-06-20T00:00:00+00:00"
[grid]
{grid}
"""
TARIFF = "tariff = [{ hours = [9, 23], per_kwh = 0.13 }, { hours = [23, 9], per_kwh = 0.08 }]"
PREDICTOR = "predictor:training.csv"


def job(number: int, **members: object) -> dict[str, object]:
    return {"id": str(number), "subtime": 600, "res": 1, "walltime": 900, "profile": "run", **members}


@dataclass
class Folder:
    """A run that is fine, to spoil one of its files."""

    path: Path

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    def grid(self, text: str, *changes: tuple[str, str]) -> None:
        site = SITE.format(grid=text)
        for old, new in changes:
            assert old in site
            site = site.replace(old, new)
        self.write("site.toml", site)

    def rates(self, name: str, column: str, values: list[float | str], first: str = "2019-06-20") -> None:
        rows = [f"{first} {hour % 24:02}:00,{value}" for hour, value in enumerate(values)]
        self.write(name, f"time,{column}\n" + "\n".join(rows) + "\n")

    def jobs(self, *jobs: dict[str, object]) -> None:
        profile = {"type": "parallel_homogeneous", "cpu": 35.2e9 * 600, "com": 0}
        self.write("workload.json", json.dumps({"nb_res": 2, "jobs": [*jobs], "profiles": {"run": profile}}))

    def training(self, days: int, condition: str = "Sunny") -> None:
        rows = [
            f"2019-{5 + (at // 24) // 31:02}-{1 + (at // 24) % 31:02} {at % 24:02}:00,"
            f"{max(0, 12 - abs(at % 24 - 12)) * 100},{condition}"
            for at in range(24 * days)
        ]
        self.write("training.csv", "time,production_w,condition\n" + "\n".join(rows) + "\n")

    def run(self, *more: str) -> int:
        files = ("-p", "platform.xml", "-w", "workload.json", "--events", "power.txt", "--site", "site.toml")
        return exit_code("simulate", *files, "-q", *more)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.chdir(tmp_path)
    assert exit_code("generate", "platform", "-n", "gros:2", "-o", "platform.xml", "-q") == 0
    made = Folder(tmp_path)
    made.grid(TARIFF)
    made.jobs(job(1, deadline_s=7200, workflow="w", phase=0), job(2, workflow="w", phase=1))
    made.training(40)
    lines = (
        json.dumps({"type": "power", "timestamp": 3600 * hour, "power_available": 50.0 * hour})
        for hour in range(24)
    )
    made.write("power.txt", "\n".join(lines) + "\n")
    return made


GREENSLOT = ("--policy", "greenslot", "--forecast")


@pytest.mark.parametrize("forecast", ["perfect", "none", PREDICTOR])
def test_the_run_itself_is_fine(folder: Folder, forecast: str) -> None:
    assert folder.run(*GREENSLOT, forecast) == 0


def slots(text: str) -> tuple[str, ...]:
    return (*GREENSLOT, "perfect", "--options", text)


Case = tuple[str, Callable[[Folder], None], tuple[str, ...], tuple[str, ...]]

CASES: list[Case] = [
    (
        "a tariff with a gap",
        lambda f: f.grid("tariff = [{ hours = [9, 23], per_kwh = 0.13 }]"),
        (),
        ("site.toml", "grid.tariff: month 1 has no price from 0:00 on"),
    ),
    (
        "a tariff with an overlap",
        lambda f: f.grid("tariff = [{ hours = [0, 24], per_kwh = 0.1 }, { hours = [9, 10], per_kwh = 0.2 }]"),
        (),
        ("site.toml", "grid.tariff: month 1 has two prices from 9:00 on"),
    ),
    (
        "a tariff without the moment of time 0",
        lambda f: f.grid(TARIFF, ('start = "2019-06-20T00:00:00+00:00"\n', "")),
        (),
        ("site.toml", "grid.tariff", "requires [time] start"),
    ),
    (
        "prices that end inside the window",
        lambda f: (f.grid('price = "p.csv"'), f.rates("p.csv", "price_per_kwh", [0.1] * 20)),
        (),
        (
            "site.toml",
            "grid.price",
            "covers 2019-06-20 00:00 to 2019-06-20 20:00, the run 2019-06-20 00:00 to 2019-06-21 00:00",
            "provide a longer file",
        ),
    ),
    (
        "prices without times and start",
        lambda f: (f.grid('price = "p.csv"'), f.write("p.csv", "price_per_kwh\n" + "0.1\n" * 24)),
        (),
        ("p.csv", "has no time column: give the time of the first value", "start ="),
    ),
    (
        "prices per MWh read as per kWh",
        lambda f: (f.grid('price = "p.csv"'), f.rates("p.csv", "price_per_kwh", [41.5] * 24)),
        (),
        ("p.csv:2", "price_per_kwh: 41.5 USD per kWh is not a credible price (at most 10): is it in another"),
    ),
    (
        "a negative import limit",
        lambda f: f.grid("import_limit_kw = -1"),
        (),
        ("site.toml", "grid.import_limit_kw: found -1, expected >= 0"),
    ),
    (
        "net metering without a price",
        lambda f: f.grid('export = "net"'),
        (),
        ("site.toml", 'grid.export: "net" requires a price: add a tariff, or price = FILE'),
    ),
    (
        "carbon of two columns",
        lambda f: (
            f.grid('carbon = "c.csv"'),
            f.write(
                "c.csv",
                "time,Carbon Intensity gCO2eq/kWh (direct),Carbon Intensity gCO2eq/kWh (LCA)\n"
                + "\n".join(f"2019-06-20 {hour:02}:00,300,400" for hour in range(24)),
            ),
        ),
        (),
        ("c.csv", "2 columns seem to hold the carbon: choose one with", "(direct)", "(LCA)"),
    ),
    (
        "a slot that is no multiple of the step",
        lambda f: None,
        slots('{"slot_s": 700}'),
        ("slot_s", "700", "300"),
    ),
    (
        "a window shorter than a slot",
        lambda f: None,
        slots('{"window_h": 0.1}'),
        ("window_h", "0.1"),
    ),
    (
        "a deadline before the submission",
        lambda f: f.jobs(job(1, deadline_s=300)),
        (),
        ("workload.json", "'w0!1'", "deadline_s", "300", "600"),
    ),
    (
        "a deadline that is a text",
        lambda f: f.jobs(job(1, deadline_s="soon")),
        (),
        ("workload.json", "'w0!1'", "deadline_s", "'soon'"),
    ),
    (
        "a predecessor that is not there",
        lambda f: f.jobs(job(1, after=["7"])),
        (),
        ("workload.json", "'w0!1'", "after", "'7'"),
    ),
    ("a job after itself", lambda f: f.jobs(job(1, after=["1"])), (), ("workload.json", "'w0!1'", "after")),
    (
        "a cycle",
        lambda f: f.jobs(job(1, after=["2"]), job(2, after=["1"])),
        (),
        ("workload.json", "after: the job waits for itself, by way of others"),
    ),
    (
        "a phase without a workflow",
        lambda f: f.jobs(job(1, phase=1)),
        (),
        ("workload.json", "'w0!1'", "phase", "workflow"),
    ),
    (
        "a negative phase",
        lambda f: f.jobs(job(1, workflow="w", phase=-1)),
        (),
        ("workload.json", "'w0!1'", "phase", "-1"),
    ),
    (
        "a condition that is not known",
        lambda f: f.training(40, "Frogs"),
        (*GREENSLOT, PREDICTOR),
        ("training.csv:2", "Frogs", "sunny"),
    ),
    (
        "training data of under a month",
        lambda f: f.training(20),
        (*GREENSLOT, PREDICTOR),
        ("training.csv", "found 20 days of production, expected at least a month"),
    ),
    (
        "a forecast for a time before it was issued",
        lambda f: f.write("f.csv", "issued,valid,W\n0,0,1\n7200,3600,1\n"),
        (*GREENSLOT, "f.csv"),
        ("f.csv:3", "is valid before it was issued"),
    ),
    (
        "a price of an event that is a text",
        lambda f: f.write(
            "power.txt",
            '{"type": "power", "timestamp": 0, "power_available": 1, "import_price_per_kwh": "cheap"}\n',
        ),
        (),
        ("power.txt:1", "import_price_per_kwh: found 'cheap', expected a number"),
    ),
    (
        "a predictor without the moment of time 0",
        lambda f: f.write("site.toml", "[grid]\n"),
        (*GREENSLOT, PREDICTOR),
        ("a predictor requires [time] start",),
    ),
]


@pytest.mark.parametrize(
    ("spoil", "more", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_is_wrong_is_told_at_once(
    folder: Folder,
    spoil: Callable[[Folder], None],
    more: tuple[str, ...],
    expected: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil(folder)
    capsys.readouterr()
    assert folder.run(*more) == 2
    told = capsys.readouterr().err
    assert told.startswith("beasy-sched: ")
    assert len(told.strip().splitlines()) == 1
    missing = [text for text in expected if text not in told]
    assert not missing, told
