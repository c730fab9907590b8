"use strict";
// The Gantt chart: plotly draws the axes and handles the zoom, a canvas below them draws the rectangles, so
// that tens of thousands of jobs on thousands of servers appear quickly.
const gantt = (() => {
  const ON = 0, STATES = ["idle", "sleeping", "switching-on", "switching-off", "lost"];
  const STATE_NAMES = ["on, idle", "sleeping", "switching on", "switching off", "lost or out of service"];
  const KILLED = "killed", JOB_TINTS = 4;
  const PSTATES = ["#31688e", "#2b758e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b"];
  const FINEST_ROW_PX = 2; // thinner rows are drawn one pixel each and scaled

  /** Put the canvas under a drawn chart, and redraw it when the axes move. */
  function attach(chart, tools) {
    const state = chart.gantt || (chart.gantt = prepare(chart, tools));
    state.paint = palette(chart.spec, tools.css);
    legend(chart, state);
    schedule(chart);
  }

  function prepare(chart, tools) {
    const { element } = chart, canvas = document.createElement("canvas");
    element.insertBefore(canvas, element.firstChild);
    const state = { canvas, tools, mode: "job", tip: null, frame: 0 };
    for (const event of ["plotly_relayout", "plotly_relayouting", "plotly_afterplot"]) element.on(event, () => schedule(chart));
    element.on("plotly_relayout", () => wholeServers(element));
    wholeServers(element);
    element.addEventListener("mousemove", (event) => hover(chart, event));
    element.addEventListener("mouseleave", () => hide(state));
    chooser(chart, state);
    if (why.has(chart.spec.group)) { why.onClick(element, (event) => explain(chart, event)); finder(chart); }
    return state;
  }

  /** No ticks between adjacent servers at any zoom. */
  function wholeServers(element) {
    const { range, tickmode } = element._fullLayout.yaxis, few = Math.abs(range[1] - range[0]) < 12;
    if (few === (tickmode === "linear")) return;
    Plotly.relayout(element, few ? { "yaxis.tickmode": "linear", "yaxis.tick0": 0, "yaxis.dtick": 1 } : { "yaxis.tickmode": "auto", "yaxis.dtick": null });
  }

  function chooser(chart, state) {
    const label = document.createElement("label"), select = document.createElement("select");
    label.className = "choice";
    label.append("colours: ", select);
    for (const [value, text] of [["job", "jobs"], ["outcome", "outcomes"], ["pstate", "P-states"]]) select.append(new Option(text, value));
    select.addEventListener("change", () => { state.mode = select.value; legend(chart, state); schedule(chart); });
    chart.element.parentElement.querySelector("figcaption").append(label);
  }

  /** A field that finds a job by its id, shows it in the chart, and explains it. */
  function finder(chart) {
    const { spec, element } = chart, form = document.createElement("form"), field = document.createElement("input"), said = document.createElement("output");
    form.className = "find";
    Object.assign(field, { type: "search", placeholder: "find a job", ariaLabel: "find a job by its id", autocomplete: "off", spellcheck: false });
    form.append(field, said);
    field.addEventListener("input", () => { said.textContent = ""; });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { id, problem } = why.find(spec.group, field.value.trim());
      said.textContent = problem || "";
      if (problem) return;
      const job = spec.jobs.id.indexOf(id);
      if (job >= 0) bringIntoView(chart, job);
      why.job(spec.group, id);
    });
    element.parentElement.querySelector("figcaption").append(form);
  }

  /** Zoom to a job that is out of view, or too short to be visible. */
  function bringIntoView({ element, spec }, job) {
    const start = spec.jobs.start[job], end = spec.jobs.end[job], { from, to, width } = view(element);
    if (Number.isNaN(start) || (start >= from && end <= to && (end - start) / (to - from) * width >= 6)) return;
    const around = Math.max(8 * (end - start), 60);
    Plotly.relayout(element, { "xaxis.range": [Math.max(0, start - around), Math.min(spec.end, end + around)] });
  }

  function mark(chart, job) {
    if (chart.gantt.marked === job) return;
    chart.gantt.marked = job;
    schedule(chart);
  }

  /** The target of a click: a job or a time. */
  function explain(chart, event) {
    const { spec } = chart, at = whereOf(chart, event);
    if (!at) return;
    const found = jobAt(spec, at.server, at.time, at.slack);
    hide(chart.gantt);
    if (found >= 0) why.job(spec.group, spec.jobs.id[found]); else why.moment(spec.group, at.time);
  }

  function palette(spec, css) {
    return {
      card: css("--card"), ink: css("--ink"), killed: css("--killed"),
      states: STATES.map((name) => css(`--${name}`)),
      jobs: Array.from({ length: JOB_TINTS }, (_, i) => css(`--job-${i}`)),
      outcomes: spec.outcomes.map((name) => css(`--${name.replaceAll(" ", "-")}`)),
    };
  }

  function schedule(chart) {
    cancelAnimationFrame(chart.gantt.frame);
    chart.gantt.frame = requestAnimationFrame(() => draw(chart));
  }

  /** Position of the plot's area, in CSS pixels, and its ranges. */
  function view(element) {
    const { xaxis: x, yaxis: y } = element._fullLayout;
    const [from, to] = x.range, [low, high] = y.range;
    return { left: x._offset, top: y._offset, width: x._length, height: y._length, from, to, low, high };
  }

  function draw(chart) {
    const { element, spec, gantt: state } = chart, v = view(element), began = performance.now();
    const ratio = window.devicePixelRatio || 1, canvas = state.canvas;
    Object.assign(canvas.style, { left: `${v.left}px`, top: `${v.top}px`, width: `${v.width}px`, height: `${v.height}px` });
    const width = canvas.width = Math.max(1, Math.round(v.width * ratio)), height = canvas.height = Math.max(1, Math.round(v.height * ratio));
    const rows = v.high - v.low, fine = height / rows >= FINEST_ROW_PX;
    const first = Math.max(0, Math.floor(v.low + 0.5)), last = Math.min(spec.servers - 1, Math.ceil(v.high - 0.5));
    const to = canvas.getContext("2d");
    if (last < first) return;
    // Rows at their height, or one pixel each and scaled afterwards: means of rows that are too thin.
    const place = {
      width, height: fine ? height : last - first + 1, first, last, fine,
      x: (time) => (time - v.from) / (v.to - v.from) * width,
      y: fine ? (server) => Math.round((v.high - server) / rows * height) : (server) => last + 0.5 - server,
    };
    const target = fine ? to : new OffscreenCanvas(width, place.height).getContext("2d");
    paint(target, chart, place);
    if (!fine) {
      const top = (v.high - last - 0.5) / rows * height, bottom = (v.high - first + 0.5) / rows * height;
      to.imageSmoothingQuality = "high";
      to.drawImage(target.canvas, 0, top, width, bottom - top);
    }
    state.drawnMs = performance.now() - began;
  }

  function paint(on, chart, place) {
    const { spec, gantt: state } = chart, { paint: colors, mode } = state;
    const { x, y, width, first, last } = place, jobs = spec.jobs, bars = spec.bars;
    const thick = y(first) - y(first + 1), left = Math.max(0, x(0)), right = Math.min(width, x(spec.end));
    const ground = () => {
      on.fillStyle = colors.states[ON];
      on.fillRect(left, y(last + 0.5), right - left, y(first - 0.5) - y(last + 0.5));
    };
    /** One rectangle of servers low to high, at least a pixel wide. */
    const box = (start, end, low, high) => {
      if (high < first || low > last) return;
      const a = x(start), b = x(end);
      if (b < 0 || a > width || Number.isNaN(b)) return;
      const l = Math.max(-2, Math.round(a)), r = Math.min(width + 2, Math.round(b));
      const top = y(Math.min(high, last + 1) + 0.5), bottom = y(Math.max(low, first - 1) - 0.5);
      on.fillRect(l, top, Math.max(1, r - l), bottom - top);
    };
    if (mode === "pstate") {
      for (let i = 0; i < bars.job.length; i++) { const j = bars.job[i]; box(jobs.start[j], jobs.end[j], bars.low[i], bars.high[i]); }
      on.globalCompositeOperation = "source-atop";
      pstates(spec, (pstate) => { on.fillStyle = pstateColor(spec, pstate); }, box);
      on.globalCompositeOperation = "destination-over";
    } else {
      ground();
    }
    const s = spec.states, count = s.start ? s.start.length : 0;
    for (let k = 0; k < count; k++) {
      const i = mode === "pstate" ? k : count - 1 - k; // the first one is on top
      if (s.state[i] === ON) continue;
      on.fillStyle = colors.states[s.state[i]];
      box(s.start[i], s.end[i], s.low[i], s.high[i]);
    }
    if (mode === "pstate") {
      ground();
      on.globalCompositeOperation = "source-over";
    } else {
      for (let i = 0; i < bars.job.length; i++) {
        const j = bars.job[i];
        on.fillStyle = mode === "outcome" ? colors.outcomes[jobs.outcome[j]] : colors.jobs[j % JOB_TINTS];
        box(jobs.start[j], jobs.end[j], bars.low[i], bars.high[i]);
      }
    }
    finish(on, chart, place, thick);
  }

  /** Marks of kills and, if there is room, edges and names of the jobs. */
  function finish(on, chart, { x, y, width, first, last, fine }, thick) {
    const { spec, gantt: state } = chart, { jobs, bars } = spec, colors = state.paint;
    const marked = [];
    on.font = "11px sans-serif";
    on.textBaseline = "middle";
    for (let i = 0; i < bars.job.length; i++) {
      const j = bars.job[i], low = Math.max(bars.low[i], first), high = Math.min(bars.high[i], last);
      if (high < low) continue;
      const a = Math.max(0, x(jobs.start[j])), b = Math.min(width, x(jobs.end[j]));
      if (b < 0 || a > width) continue;
      const top = y(high + 0.5), bottom = y(low - 0.5);
      if (thick >= 5 && b - a >= 3) {
        on.strokeStyle = colors.card;
        on.lineWidth = 1;
        on.strokeRect(Math.round(a) + 0.5, top + 0.5, Math.round(b) - Math.round(a), bottom - top);
      }
      if (isKilled(spec, j) && x(jobs.end[j]) <= width) {
        on.fillStyle = colors.killed;
        on.fillRect(Math.round(b) - 2, top, 3, Math.max(1, bottom - top));
      }
      if (j === state.marked) marked.push([Math.round(a) - 1.5, top - 0.5, Math.max(1, b - a) + 3, bottom - top + 1]);
      if (fine && bottom - top >= 14 && b - a >= 30) label(on, jobs.id[j], a, b, (top + bottom) / 2);
    }
    if (jobs.next) lives(on, spec, x, y, colors);
    on.strokeStyle = colors.ink;
    on.lineWidth = 3;
    for (const box of marked) on.strokeRect(...box);
  }

  /** Dashed lines from the end of each life to the start of the next one of the same job. */
  function lives(on, { jobs, bars }, x, y, colors) {
    const middle = new Map();
    for (let i = 0; i < bars.job.length; i++) if (!middle.has(bars.job[i])) middle.set(bars.job[i], (y(bars.low[i]) + y(bars.high[i])) / 2);
    on.strokeStyle = colors.ink;
    on.lineWidth = 1;
    on.setLineDash([4, 3]);
    on.globalAlpha = jobs.next.filter(after => after >= 0).length > 100 ? 0.4 : 1;
    on.beginPath();
    jobs.next.forEach((after, j) => {
      if (after < 0 || !middle.has(j) || !middle.has(after)) return;
      on.moveTo(x(jobs.end[j]), middle.get(j));
      on.lineTo(x(jobs.start[after]), middle.get(after));
    });
    on.stroke();
    on.setLineDash([]);
    on.globalAlpha = 1;
  }

  function label(on, text, a, b, middle) {
    const wide = on.measureText(text).width;
    if (wide > b - a - 6) return;
    on.fillStyle = "#ffffff";
    on.shadowColor = "rgba(0,0,0,0.6)";
    on.shadowBlur = 2;
    on.fillText(text, (a + b - wide) / 2, middle);
    on.shadowBlur = 0;
  }

  function pstates(spec, choose, box) {
    const s = spec.states;
    if (!s.start) { choose(0); box(0, spec.end, 0, spec.servers - 1); return; }
    for (let i = 0; i < s.start.length; i++) {
      if (s.state[i] !== ON) continue;
      choose(s.pstate[i]);
      box(s.start[i], s.end[i], s.low[i], s.high[i]);
    }
  }

  function highestPstate(spec) {
    if (spec.highest === undefined) spec.highest = spec.states.pstate ? spec.states.pstate.reduce((a, b) => Math.max(a, b), 0) : 0;
    return spec.highest;
  }

  function pstateColor(spec, pstate) {
    const place = highestPstate(spec) ? (pstate / highestPstate(spec)) * (PSTATES.length - 1) : 5;
    return PSTATES[Math.round(place)];
  }

  function legend(chart, state) {
    const figure = chart.element.parentElement, old = figure.querySelector(".legend"), box = document.createElement("div");
    box.className = "legend";
    const add = (paint, text) => {
      const item = document.createElement("span"), swatch = document.createElement("i");
      swatch.style.background = paint;
      item.append(swatch, text);
      box.append(item);
    };
    const { paint: colors, mode } = state, { spec } = chart;
    if (mode === "job") add(colors.jobs[0], "a job (shades distinguish jobs)");
    if (mode === "outcome") new Set(spec.jobs.outcome).forEach((code) => { if (hasBars(spec, code)) add(colors.outcomes[code], spec.outcomes[code]); });
    if (mode === "pstate") usedPstates(spec).forEach((p) => add(pstateColor(spec, p), `P-state ${p}`));
    const named = mode === "outcome" && hasBars(spec, spec.outcomes.indexOf(KILLED));
    if (!named && spec.jobs.outcome.some((_, j) => isKilled(spec, j))) add(colors.killed, "killed here");
    const used = new Set(spec.states.state || []);
    STATE_NAMES.forEach((name, code) => { if (code === ON || used.has(code)) add(colors.states[code], name); });
    if (old) old.replaceWith(box); else chart.element.after(box);
  }

  /** Whether a life of a job ended with a kill. */
  function isKilled({ jobs, outcomes }, j) {
    return jobs.outcome[j] === outcomes.indexOf(KILLED) || jobs.next?.[j] >= 0;
  }

  function hasBars(spec, code) {
    return spec.jobs.outcome.some((each, j) => each === code && !Number.isNaN(spec.jobs.start[j]));
  }

  function usedPstates(spec) {
    if (!spec.states.pstate) return [0];
    return [...new Set(spec.states.pstate)].filter((p) => p >= 0).sort((a, b) => a - b);
  }

  /** Server and time under the mouse, and the time per pixel; null outside the chart. */
  function whereOf({ element, spec }, event) {
    const v = view(element), box = element.getBoundingClientRect();
    const px = event.clientX - box.left - v.left, py = event.clientY - box.top - v.top;
    if (px < 0 || py < 0 || px > v.width || py > v.height) return null;
    const time = v.from + (px / v.width) * (v.to - v.from), server = Math.round(v.high - (py / v.height) * (v.high - v.low));
    return server < 0 || server >= spec.servers || time < 0 || time > spec.end ? null : { server, time, slack: (v.to - v.from) / v.width };
  }

  function hover(chart, event) {
    const { spec, gantt: state } = chart, at = event.buttons ? null : whereOf(chart, event);
    if (at) show(state, words(spec, at.server, at.time, at.slack, state.tools), event); else hide(state);
  }

  function jobAt({ jobs, bars }, server, time, slack) {
    let found = -1, nearest = Infinity;
    for (let i = 0; i < bars.job.length; i++) {
      if (bars.low[i] > server || bars.high[i] < server) continue;
      const j = bars.job[i], away = Math.max(jobs.start[j] - time, time - jobs.end[j], 0);
      if (away <= slack && away < nearest) { nearest = away; found = j; }
    }
    return found;
  }

  function energyText(joules) {
    const kwh = joules / 3.6e6, [size, unit] = kwh >= 1 ? [kwh, "kWh"] : [1000 * kwh, "Wh"];
    return `${size >= 100 ? Math.round(size).toLocaleString("en") : Number(size.toPrecision(3))} ${unit}`;
  }

  /** Description of a position: the job, and the state of the server. */
  function words(spec, server, time, slack, { timeText, momentText }) {
    const { jobs, states } = spec, lines = [`server ${server}, ${momentText(time, spec.start)}`], found = jobAt(spec, server, time, slack);
    if (found >= 0) {
      const exact = (t) => timeText(t, 1), moment = (t) => momentText(t, spec.start, 1);
      lines.unshift(`job ${jobs.id[found]}`);
      lines.push(`${jobs.servers[found]} ${jobs.servers[found] === 1 ? "server" : "servers"}, ${spec.outcomes[jobs.outcome[found]]}`,
        `submitted ${moment(jobs.submit[found])}`, `ran ${moment(jobs.start[found])} to ${moment(jobs.end[found])}`,
        `waited ${exact(jobs.start[found] - jobs.submit[found])}, ran for ${exact(jobs.end[found] - jobs.start[found])}`);
      if (jobs.walltime && jobs.walltime[found] >= 0) lines.push(`walltime ${exact(jobs.walltime[found])}`);
      if (jobs.energy && jobs.energy[found] >= 0) lines.push(`used ${energyText(jobs.energy[found])}`);
      if (jobs.start_rule[found] >= 0) lines.push(`started: ${jobs.rules[jobs.start_rule[found]]}`);
      if (jobs.rule[found] >= 0) lines.push(`killed: ${jobs.rules[jobs.rule[found]]}`);
    }
    for (let i = 0; states.start && i < states.start.length; i++) {
      if (states.low[i] > server || states.high[i] < server || states.start[i] > time || states.end[i] <= time) continue;
      if (states.state[i] !== ON) lines.push(STATE_NAMES[states.state[i]]);
      else lines.push(found >= 0 ? `P-state ${states.pstate[i]}` : `idle, P-state ${states.pstate[i]}`);
      break;
    }
    return lines.join("\n");
  }

  function show(state, text, event) {
    if (!state.tip) { state.tip = document.createElement("div"); state.tip.className = "tip"; document.body.append(state.tip); }
    state.tip.textContent = text;
    const { offsetWidth: w, offsetHeight: h } = state.tip;
    state.tip.style.left = `${Math.min(event.clientX + 14, innerWidth - w - 6)}px`;
    state.tip.style.top = `${event.clientY + h + 20 > innerHeight ? event.clientY - h - 10 : event.clientY + 14}px`;
  }

  function hide(state) {
    if (state.tip) { state.tip.remove(); state.tip = null; }
  }

  return { attach, mark };
})();
