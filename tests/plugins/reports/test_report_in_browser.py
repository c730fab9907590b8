"""Reports in a real browser: they draw, answer the mouse, complain of nothing and fetch nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_line import exit_code
from plugins.reports.by_hand import JOBS, row, summary, write_run
from plugins.reports.chromium import PROGRAM, Page
from plugins.reports.test_grid_charts import BATTERY, on_a_grid
from real_batsim.restart_runs import SITE, RestartRun
from small_site import small_site

from beasy_sched.plugins.reports.comparison import FIGURES, GRID_FIGURES
from beasy_sched.plugins.reports.explain_job import explain_job
from beasy_sched.plugins.reports.explain_time import explain_time

pandas = pytest.importorskip("pandas", reason="reports need pandas")
pytest.importorskip("plotly", reason="reports need plotly")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    site = small_site(folder)
    common = ["-p", site.platform, "-w", site.workload, "--events", site.events, "--site", site.site, "-q"]
    for policy in ("easy", "workload-reactive"):
        assert (
            exit_code("simulate", *map(str, common), "--policy", policy, "-e", str(folder / "out" / policy))
            == 0
        )
    out = folder / "report.html"
    assert exit_code("report", str(folder / "out"), "-o", str(out), "-q") == 0
    return out


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with Page() as page:
        yield page


def show(page: Page, key: str) -> tuple[float, float, float, float]:
    """Scroll a chart into view, wait until it is drawn; return its place."""
    page.run(f"document.getElementById('{key}').scrollIntoView({{block: 'center'}})")
    page.run(
        "new Promise((done, fail) => { const end = Date.now() + 20000; const look = () => {"
        f" const chart = report.charts.get('{key}');"
        " if (chart?.element._fullLayout && (chart.spec.kind !== 'gantt' || chart.gantt?.drawnMs)) done();"
        " else if (Date.now() > end) fail(new Error('not drawn')); else setTimeout(look, 20); }; look(); })"
    )
    left, top, width, height = page.run(
        f"(b => [b.left, b.top, b.width, b.height])(document.getElementById('{key}').getBoundingClientRect())"
    )
    return left, top, width, height


def test_everything_is_drawn(page: Page, report: Path) -> None:
    page.look(1280, 900)
    page.open(report)
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    keys = page.run("[...document.querySelectorAll('.drawing')].map(each => each.id)")
    assert len(keys) == 5 + 2 * 10
    for key in keys:
        show(page, key)
    assert page.run("document.querySelectorAll('.drawing svg.main-svg').length") >= len(keys)
    assert page.run("document.querySelectorAll('.gantt canvas').length") == 2
    page.settle()
    assert page.complaints() == []
    fetched = [address for address in page.requests() if not address.startswith("data:")]
    assert fetched == [report.resolve().as_uri()]


def test_the_first_screen_sorts_and_cuts_nothing_off(page: Page, tmp_path: Path) -> None:
    names = [f"a-policy-with-a-long-name-{n}" for n in range(9)]
    for n, name in enumerate(names):
        told = summary()
        told["settings"]["policy"] = name
        told["jobs"] |= {"finished": n % 3, "killed": 2 - n % 3}
        write_run(tmp_path / "out" / name, summary=json.dumps(told))
    out = tmp_path / "report.html"
    assert exit_code("report", str(tmp_path / "out"), "-o", str(out), "-q") == 0
    page.look(1400, 900)
    page.open(out)
    assert page.run("document.documentElement.scrollWidth") == 1400
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    cut = (
        "[...document.querySelectorAll('.table')].filter(each => each.scrollWidth > each.clientWidth).length"
    )
    assert page.run(cut) == 0
    shares = "[...document.querySelectorAll('.compared tbody tr')].map(row => row.cells[1].dataset.value)"
    head = "document.querySelectorAll('.compared thead button')[{}].click()"
    assert page.run(shares) == ["0.0", "25.0", "50.0"]
    page.run(head.format(1))
    assert page.run(shares) == ["50.0", "25.0", "0.0"]
    assert page.run("document.querySelectorAll('.compared thead th')[1].ariaSort") == "descending"
    page.run(head.format(1))
    assert page.run(shares) == ["0.0", "25.0", "50.0"]
    page.run(head.format(2))  # killed: fewer are better, and come first
    assert page.run(shares) == ["50.0", "25.0", "0.0"]
    assert page.run("document.querySelectorAll('.compared thead th')[2].ariaSort") == "ascending"
    page.run(head.format(0))
    assert page.run("document.querySelector('.compared tbody th').firstChild.textContent") == names[0]
    page.settle()
    assert page.complaints() == []


def test_on_a_site_with_a_grid_a_price_on_the_right_and_dates_below(page: Page, tmp_path: Path) -> None:
    on_a_grid(tmp_path / "out/a")
    on_a_grid(tmp_path / "out/b", BATTERY)
    out = tmp_path / "report.html"
    assert exit_code("report", str(tmp_path / "out"), "-o", str(out), "-q") == 0
    page.look(1280, 900)
    page.open(out)
    for key in page.run("[...document.querySelectorAll('#overview .drawing')].map(each => each.id)"):
        show(page, key)
    show(page, "run-1-green")
    layout = "report.charts.get('run-1-green').element._fullLayout"
    assert page.run(f"{layout}.yaxis2.side") == "right"
    assert page.run(f"{layout}.xaxis.ticktext")[:1] != ["0 d"]
    gantt = show(page, "run-1-gantt")
    left, width = page.run(f"(l => [l.margin.l, l.xaxis._length])({layout})")
    own = "report.charts.get('run-1-gantt').element._fullLayout"
    assert page.run(f"(l => [l.margin.l, l.xaxis._length])({own})") == [left, width]
    page.mouse(gantt[0] + left + 0.5 * width, gantt[1] + 60)
    page.run("new Promise(done => setTimeout(done, 200))")
    assert "Mon 12 Jul 09:0" in page.run("document.querySelector('.tip').textContent")
    page.settle()
    assert page.complaints() == []


def test_the_clock_of_a_site(page: Page, tmp_path: Path) -> None:
    on_a_grid(tmp_path / "out/a")
    out = tmp_path / "report.html"
    assert exit_code("report", str(tmp_path / "out"), "-o", str(out), "-q") == 0
    page.open(out)
    nine = 14_802 * 86_400 + 9 * 3600  # Monday 12 July 2010
    ticks = page.run(f"report.timeTicks([0, 374400], 900, {nine})")
    at_12 = ticks["tickvals"].index(3 * 3600)
    assert ticks["ticktext"][at_12 : at_12 + 3] == ["12:00", "Tue 13 Jul", "12:00"]
    assert page.run(f"report.clockText(54000 + 59, {nine}, 60)") == "00:00"
    assert page.run(f"report.clockText(54000, {nine}, 86400)") == "Tue 13 Jul"
    assert page.run("report.timeTicks([0, 374400], 900).ticktext").count("1 d") == 1


def test_the_gantt_chart_has_colours_and_tells_the_job(page: Page, report: Path) -> None:
    page.open(report)
    left, top, width, _ = show(page, "run-1-gantt")
    kinds = page.run(
        "(c => { const image = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        " return new Set(new Uint32Array(image.data.buffer)).size; })"
        "(document.querySelector('#run-1-gantt canvas'))"
    )
    assert kinds >= 4
    place = page.run(
        "(({ spec, element }) => { const { xaxis: x, yaxis: y } = element._fullLayout, j = spec.bars.job[0];"
        " return [x._offset + x.l2p((spec.jobs.start[j] + spec.jobs.end[j]) / 2),"
        " y._offset + y.l2p(spec.bars.low[0]), spec.jobs.id[j]]; })(report.charts.get('run-1-gantt'))"
    )
    page.mouse(left + place[0], top + place[1])
    tip = page.run(
        "new Promise(done => setTimeout(() => done(document.querySelector('.tip')?.textContent), 200))"
    )
    assert tip.splitlines()[0] == f"job {place[2]}"
    assert {line.partition(" ")[0].rstrip(":") for line in tip.splitlines()} >= {
        "walltime",
        "used",
        "started",
    }
    page.mouse(left + width / 2, top - 5)
    assert page.run("document.querySelector('.tip')") is None


def test_kills_of_jobs_that_came_back_and_forecasts_have_their_marks_in_the_legend(
    page: Page, tmp_path: Path
) -> None:
    RestartRun(205).write(tmp_path)
    (tmp_path / "site.toml").write_text(SITE.format(interval_s=400, dump_s=7.5, notice_s=0))
    given = {"-p": "platform.xml", "-w": "workload.json", "--events": "power.txt", "--site": "site.toml"}
    arguments = [text for option, name in given.items() for text in (option, str(tmp_path / name))]
    arguments += ["--on-kill", "requeue", "--foresee", "2h", "-n", "2", "-q"]
    assert exit_code("simulate", *arguments, "-o", str(tmp_path / "run")) == 0
    out = tmp_path / "report.html"
    assert exit_code("report", str(tmp_path / "run"), "-o", str(out), "-q") == 0
    page.open(out)
    show(page, "run-1-gantt")
    legend = "[...document.getElementById('{}').parentElement.querySelectorAll('.legend > *')]"
    legend += ".map(item => item.textContent)"
    assert "killed" not in page.run(
        "(({ outcomes, jobs }) => Array.from(jobs.outcome, code => outcomes[code]))"
        "(report.charts.get('run-1-gantt').spec)"
    )
    assert "killed here" in page.run(legend.format("run-1-gantt"))
    show(page, "run-1-foreseen-starts")
    assert page.run(legend.format("run-1-foreseen-starts")) == ["80 % interval", "|actual start"]


PANEL = "document.querySelector('.why:not([hidden])')"


def panel(page: Page, title: str) -> list[str]:
    """Wait for the panel with this title; return its lines."""
    return page.run(
        "new Promise((done, fail) => { const end = Date.now() + 5000; const look = () => {"
        f" const found = {PANEL}, title = {json.dumps(title)};"
        " if (found?.querySelector('h2').textContent.startsWith(title)) done([...found.querySelectorAll("
        "'h2, h3, p, code')].map(each => each.textContent)); else if (Date.now() > end)"
        " fail(new Error(`${title}: found ${found?.textContent}`)); else setTimeout(look, 20); }; look(); })"
    )


def first_job(page: Page) -> tuple[float, float, str]:
    """Where the first rectangle of the Gantt chart is, and the job's id."""
    x, y, job = page.run(
        "(({ spec, element }) => { const { xaxis: x, yaxis: y } = element._fullLayout, j = spec.bars.job[0];"
        " return [x._offset + x.l2p((spec.jobs.start[j] + spec.jobs.end[j]) / 2),"
        " y._offset + y.l2p(spec.bars.low[0]), spec.jobs.id[j]]; })(report.charts.get('run-1-gantt'))"
    )
    return x, y, job


def test_a_click_on_a_job_tells_why(page: Page, report: Path) -> None:
    page.look(1280, 900)
    page.open(report)
    left, top, _, _ = show(page, "run-1-gantt")
    x, y, job = first_job(page)
    page.click(left + x, top + y)
    told = panel(page, f"Job {job}")
    story = explain_job(str(report.parent / "out" / "easy"), job)
    assert told[1] == story.chapters[0].title
    for chapter in story.chapters:
        for entry in chapter.entries:
            assert any(line.endswith(entry.text) for line in told), entry.text
    assert told[-1].startswith("beasy-sched explain ")
    assert told[-1].endswith(f"--job '{job}'")
    assert page.run("report.charts.get('run-1-gantt').gantt.marked") == 0
    page.run(f"{PANEL}.querySelector('.moment').click()")
    assert panel(page, "Step ")[1] == "Energy"
    page.run("dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    assert page.run(PANEL) is None
    page.settle()
    assert page.complaints() == []


def test_a_click_on_a_moment_tells_its_step(page: Page, report: Path) -> None:
    page.look(1280, 900)
    page.open(report)
    left, top, _, height = show(page, "run-1-soc")
    x, time_s = page.run(
        "(({ element }) => { const x = element._fullLayout.xaxis; return [x._offset + x._length / 3,"
        " x.p2l(x._length / 3)]; })(report.charts.get('run-1-soc'))"
    )
    story = explain_time(str(report.parent / "out" / "easy"), time_s)
    page.click(left + x, top + height / 2)
    told = panel(page, story.title)
    assert [title for title in told if title == "Energy"] == ["Energy"]
    assert story.chapters[0].entries[0].text in told
    page.drag(left + x, left + x + 90, top + height / 2)  # a drag zooms, and asks nothing
    page.run("new Promise(done => setTimeout(done, 600))")
    assert page.run("report.charts.get('run-1-soc').element._fullLayout.xaxis.range[0]") > 0
    panel(page, story.title)


def test_a_job_is_found_by_its_id(page: Page, report: Path) -> None:
    page.look(1280, 900)
    page.open(report)
    show(page, "run-1-gantt")
    search = (
        "(form => { form.querySelector('input').value = '%s'; form.requestSubmit();"
        " return form.querySelector('output').textContent; })(document.querySelector('#run-1 .find'))"
    )
    ids = page.run("report.charts.get('run-1-gantt').spec.jobs.id")
    wanted = ids[len(ids) // 2]
    assert page.run(search % wanted.partition("!")[2]) == ""
    assert panel(page, f"Job {wanted}")[1] == "Arrival"
    page.run("new Promise(done => setTimeout(done, 500))")
    job = page.run(f"report.charts.get('run-1-gantt').spec.jobs.id.indexOf('{wanted}')")
    assert page.run("report.charts.get('run-1-gantt').gantt.marked") == job
    seen = "(({ spec, element }, j) => { const [from, to] = element._fullLayout.xaxis.range;"
    seen += " return from <= spec.jobs.start[j] && spec.jobs.end[j] <= to; })"
    assert page.run(f"{seen}(report.charts.get('run-1-gantt'), {job})")
    assert page.run(search % "nonsense").startswith(f"no such job; the run has {len(ids)}, {ids[0]} to")
    page.settle()
    assert page.complaints() == []


def test_hover_and_linked_zoom(page: Page, report: Path) -> None:
    page.open(report)
    left, top, width, height = show(page, "run-1-soc")
    for step in (0.5, 0.51):
        page.mouse(left + width * step, top + height * 0.5)
    told = page.run(
        "new Promise(done => setTimeout(() => done("
        "[...document.querySelectorAll('#run-1-soc .hoverlayer text')].map(each => each.textContent)), 400))"
    )
    assert any(text.startswith("real : ") and text.endswith(" %") for text in told), told
    page.drag(left + width * 0.4, left + width * 0.6, top + height * 0.5)
    page.run("new Promise(done => setTimeout(done, 500))")
    zoomed = page.run("report.charts.get('run-1-soc').element._fullLayout.xaxis.range.map(Math.round)")
    assert 0 < zoomed[0] < zoomed[1] < page.run("report.charts.get('run-1-soc').spec.end")
    show(page, "run-1-balance")
    assert (
        page.run("report.charts.get('run-1-balance').element._fullLayout.xaxis.range.map(Math.round)")
        == zoomed
    )


def test_dark_and_narrow(page: Page, report: Path) -> None:
    page.look(390, 800, dark=True)
    page.open(report)
    show(page, "outcomes")
    assert page.run("document.documentElement.scrollWidth") <= 390
    ink = page.run("report.charts.get('outcomes').element._fullLayout.font.color")
    page.look(390, 800, dark=False)
    page.run("new Promise(done => setTimeout(done, 300))")
    assert page.run("report.charts.get('outcomes').element._fullLayout.font.color") != ink
    page.settle()
    assert page.complaints() == []


def write_large_run(prefix: Path, *, servers: int = 1000, jobs: int = 20_000, changes: int = 5000) -> str:
    """A run of many jobs on many servers; three days, jobs on up to 16 neighbouring servers."""
    random = np.random.default_rng(1)
    submit = np.sort(random.uniform(0, 250_000, jobs))
    low, size = random.integers(0, servers - 16, jobs), random.integers(1, 17, jobs)
    start, runs = submit + random.exponential(600, jobs), random.lognormal(7.5, 1.3, jobs)
    ends = ["COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"]
    rows = [
        f"{n},w,p,{submit[n]:.6f},{size[n]},9999.0,1,{ends[n % 9 == 0]},{start[n]:.6f},{runs[n]:.6f},"
        f'{start[n] + runs[n]:.6f},0,0,1,{low[n]}-{low[n] + size[n] - 1},1.0,""'
        for n in range(jobs)
    ]
    times = np.sort(random.uniform(0, 250_000, changes))
    hosts = random.integers(0, servers - 40, changes)
    pstates = [
        f"{t:g},{h}-{h + 39},{-2 + n % 2}\n" for n, (t, h) in enumerate(zip(times, hosts, strict=True))
    ]
    return write_run(
        prefix,
        jobs="\n".join([JOBS.splitlines()[0], *rows]) + "\n",
        decisions=None,
        pstate_changes=f"time,machine_id,new_pstate\n0,0-{servers - 1},0\n" + "".join(pstates),
        summary=None,
    )


def test_a_thousand_servers_and_twenty_thousand_jobs(page: Page, tmp_path: Path) -> None:
    out = tmp_path / "large.html"
    assert exit_code("report", write_large_run(tmp_path / "large"), "-o", str(out), "-q") == 0
    assert out.stat().st_size < 15e6
    page.look(1280, 900)
    page.open(out)
    left, top, width, height = show(page, "run-1-gantt")
    spent_ms = page.run("report.charts.get('run-1-gantt').gantt.drawnMs")
    assert spent_ms < 5000
    page.mouse(left + width / 2, top + height / 2)
    page.run("new Promise(done => setTimeout(done, 300))")
    assert "server " in page.run("document.querySelector('.tip').textContent")
    page.settle()
    assert page.complaints() == []


def test_charts_are_saved_as_pictures_and_numbers(page: Page, report: Path) -> None:
    page.look(1280, 900)
    page.open(report)
    for key in ("outcomes", "run-1-flow", "run-1-soc", "run-1-gantt", "run-1-heat", "run-1-wait-shares"):
        show(page, key)
        chart = f"report.charts.get('{key}')"
        rows = page.run(f"exporting.csv({chart})").splitlines()
        assert len(rows) > 1, key
        svg = page.run(f"exporting.svg({chart})")
        title = page.run(f"{chart}.element.ariaLabel")
        assert svg.startswith("<svg")
        assert f">{title}</text>" in svg
        size = page.run(
            f"exporting.png({chart}).then(createImageBitmap).then(each => [each.width, each.height])"
        )
        assert size[0] == 2 * page.run(f"{chart}.element.clientWidth")
    jobs = page.run("exporting.csv(report.charts.get('run-1-gantt'))").splitlines()
    assert jobs[0].startswith("job,submitted_s,started_s,ended_s,servers,hosts,outcome,walltime_s,energy_j")
    assert len(jobs) == 1 + page.run("report.charts.get('run-1-gantt').spec.jobs.id.length")
    levels = page.run("exporting.csv(report.charts.get('run-1-soc'))").splitlines()[1:]
    real = [line.rpartition(",")[2] for line in levels if line.startswith("real,")]
    assert max(len(level.lstrip("0.").replace(".", "")) for level in real) <= 7  # not 0.10000000149
    flows = page.run("exporting.csv(report.charts.get('run-1-flow'))").splitlines()
    assert flows[0] == "from,to,kWh"
    site = [line.rpartition(",") for line in flows[1:]]
    came = sum(float(kwh) for ends, _, kwh in site if ends.endswith(",site"))
    went = sum(float(kwh) for ends, _, kwh in site if ends.startswith("site,"))
    assert came == pytest.approx(went)
    assert page.run("document.querySelectorAll('#run-1-gantt, #run-1-soc').length") == 2
    page.settle()
    assert page.complaints() == []


def test_a_button_saves_a_file(page: Page, report: Path, tmp_path: Path) -> None:
    page.open(report)
    show(page, "run-1-queue")
    page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.run(
        "document.getElementById('run-1-queue').parentElement.querySelectorAll('.save button')[2].click()"
    )
    deadline = time.monotonic() + 10
    while not (tmp_path / "run-1-queue.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "run-1-queue.csv").read_text("utf-8").startswith("series,time_s,waiting")


def test_cells_that_look_like_formulas(page: Page, report: Path) -> None:
    page.open(report)
    spec = {"kind": "plot", "layout": {}, "traces": [{"name": "=1+1", "x": [1, -2.5], "y": ["a,b", "+c"]}]}
    text = page.run(f"exporting.csv({{ spec: {json.dumps(spec)} }})")
    assert text == "series,x,y\r\n'=1+1,1,\"a,b\"\r\n'=1+1,-2.5,'+c\r\n"


@pytest.mark.plugins("campaigns")
def test_a_campaign(page: Page, tmp_path: Path) -> None:
    rows = [row(policy, seed, 4 + seed) for policy in ("easy", "beasy") for seed in range(6)]
    runs = pandas.DataFrame([*rows, *({**each, "scenario": "t"} for each in rows)])
    from beasy_sched.plugins.campaigns.campaign_html import campaign_html

    out = tmp_path / "campaign.html"
    out.write_text("".join(campaign_html("c", runs, len(runs))), "utf-8")
    page.look(1280, 900)
    page.open(out)
    page.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    keys = page.run("[...document.querySelectorAll('.drawing')].map(each => each.id)")
    assert keys == [f"part-{n}-{name}" for n in (1, 2) for name in ("outcomes", "finished_pct")]
    for key in keys:
        show(page, key)
    assert page.run("document.querySelectorAll('#part-2-finished_pct .boxlayer path.box').length") == 2
    figures = {figure.column: 1234.5 for figure in (*FIGURES, *GRID_FIGURES)}
    wide = [row("a-long-name-of-a-policy", seed, 5, **figures) for seed in range(3)]
    out.write_text("".join(campaign_html("c", pandas.DataFrame(wide), len(wide))), "utf-8")
    page.look(1400, 900)
    page.open(out)
    assert page.run("document.querySelectorAll('.compared th').length") >= len(figures)
    cut = (
        "[...document.querySelectorAll('.table')].filter(each => each.scrollWidth > each.clientWidth).length"
    )
    assert page.run(cut) == 0
    page.settle()
    assert page.complaints() == []


def test_hostile_names_do_nothing(page: Page, tmp_path: Path) -> None:
    evil = "<img src=x onerror=window.hurt=1><script>window.hurt=1<!--"
    prefix = write_run(tmp_path / evil.replace("/", "").replace("<script>", ""))
    out = tmp_path / "r.html"
    assert exit_code("report", prefix, "-o", str(out), "--title", evil, "-q") == 0
    page.look(1280, 900)
    page.open(out)
    show(page, "outcomes")
    show(page, "run-1-gantt")
    assert page.run("window.hurt") is None
    page.settle()
    assert page.complaints() == []
