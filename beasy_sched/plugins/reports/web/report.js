"use strict";
// Draws the page's charts when they come into view, in the colours of the style sheet, and keeps the time
// axes of a group together.
const report = (() => {
  const HOUR = 3600, DAY = 86400;
  const SPACINGS = [1, 5, 15, 30, 60, 300, 900, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 364 * DAY];
  const ARRAYS = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array };
  const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const charts = new Map(); // id -> { element, spec, range }
  let busy = false;

  const two = (n) => String(n).padStart(2, "0");

  /** Format a time: days and hours since the start of the run. */
  function timeText(seconds, spacing = 60) {
    const s = Math.round(Math.abs(seconds)), sign = seconds < 0 ? "-" : "";
    const day = Math.floor(s / DAY), hour = Math.floor((s % DAY) / HOUR);
    if (spacing >= DAY) return `${sign}${day} d`;
    const clock = spacing >= HOUR && s % HOUR === 0 ? `${hour} h` : `${two(hour)}:${two(Math.floor((s % HOUR) / 60))}`;
    const exact = spacing < 60 ? `${clock}:${two(s % 60)}` : clock;
    if (spacing >= HOUR && hour === 0) return `${sign}${day} d`;
    return day || spacing < HOUR ? `${sign}${day ? day + " d " : ""}${exact}` : sign + exact;
  }

  /** The same by the site's clock, which shows `start` (s since 1970) at time 0: days begin at midnight. */
  function clockText(seconds, start, spacing = 60) {
    const at = new Date(Math.round(start + seconds) * 1000), iso = at.toISOString();
    const day = `${DAYS[at.getUTCDay()]} ${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
    const time = iso.slice(11, spacing < 60 ? 19 : 16);
    if (spacing >= DAY) return spacing > 90 * DAY ? iso.slice(0, 10) : day;
    return time.startsWith("00:00") && spacing >= HOUR ? day : time;
  }

  /** Format a time by the site's clock, if known, with the time since the start of the run. */
  function momentText(seconds, start, spacing = 60) {
    if (start === undefined) return timeText(seconds, spacing);
    const day = clockText(seconds, start, DAY), time = clockText(seconds, start, Math.min(spacing, 60 * 59));
    return `${day} ${time} (${timeText(seconds, spacing)})`;
  }

  function timeTicks([from, to], width, start) {
    const most = Math.max(3, width / 90), span = to - from, shift = start || 0;
    const spacing = SPACINGS.find((s) => span / s <= most) || Math.ceil(span / most / DAY) * DAY;
    const tickvals = [], ticktext = [];
    for (let t = Math.ceil((from - span + shift) / spacing) * spacing - shift; t <= to + span; t += spacing) {
      tickvals.push(t);
      ticktext.push(start === undefined ? timeText(t, spacing) : clockText(t, start, spacing));
    }
    return { tickvals, ticktext };
  }

  /** Base64 of byte planes (all first bytes, then all second ones, ...) to typed arrays, anywhere in a chart. */
  function decode(value) {
    if (Array.isArray(value)) return value.map(decode);
    if (value === null || typeof value !== "object") return value;
    const keys = Object.keys(value);
    if (keys.length === 1 && ARRAYS[keys[0]] && typeof value[keys[0]] === "string") {
      const planes = atob(value[keys[0]]), bytes = new Uint8Array(planes.length);
      const size = ARRAYS[keys[0]].BYTES_PER_ELEMENT, count = planes.length / size;
      for (let at = 0; at < planes.length; at++) bytes[(at % count) * size + Math.floor(at / count)] = planes.charCodeAt(at);
      return new ARRAYS[keys[0]](bytes.buffer);
    }
    return Object.fromEntries(keys.map((key) => [key, decode(value[key])]));
  }

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** A translucent version of a colour of six hexadecimal digits. */
  function faded(hex, opacity) {
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${red}, ${green}, ${blue}, ${opacity})`;
  }

  /** The same with the style sheet's colours instead of their names. */
  function painted(value) {
    if (typeof value === "string") {
      const [, name, opacity] = /^var\((--[\w-]+)\)(?:\/([\d.]+))?$/.exec(value) || [];
      return name === undefined ? value : opacity === undefined ? css(name) : faded(css(name), opacity);
    }
    if (Array.isArray(value)) return value.map(painted);
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, painted(each)]));
  }

  function layoutOf(spec, width) {
    const timed = spec.kind !== "plot", own = painted(spec.layout || {});
    const axis = { gridcolor: css("--grid"), zerolinecolor: css("--grid"), linecolor: css("--edge"), tickcolor: css("--edge") };
    const layout = {
      autosize: true, height: spec.height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") },
      spikedistance: -1, hovermode: timed && spec.kind !== "heat" ? "x unified" : "closest", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      hoverlabel: { bgcolor: css("--card"), bordercolor: css("--ink-soft"), font: { color: css("--ink"), size: 12 }, namelength: -1 },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--ink-soft"), activecolor: css("--ink") },
      showlegend: false, uirevision: "keep",
      ...own, margin: { l: width < 600 ? 48 : 64, r: 12, t: 8, b: timed ? 30 : 46, ...own.margin },
      xaxis: { ...axis, ...own.xaxis }, yaxis: { ...axis, ...own.yaxis },
    };
    if (own.yaxis2) {
      layout.yaxis2 = { ...axis, showgrid: false, overlaying: "y", side: "right", zeroline: false, tickmode: "auto", nticks: 5,
        ...own.yaxis2 };
    }
    if (spec.aside) layout.margin.r = layout.margin.l; // room for a right axis, even if only another chart has one
    if (timed) {
      const range = spec.range || [0, spec.end || 1];
      Object.assign(layout.xaxis, { range, tickmode: "array", ...timeTicks(range, width, spec.start),
        unifiedhovertitle: { text: "%{x:,.0f} s" } });
    }
    return layout;
  }

  function tracesOf({ spec, hidden, element }) {
    const traces = painted(spec.traces || []);
    for (const { type, node } of traces) { // with their energies if there is room
      if (type === "sankey" && element.clientWidth >= 600) node.label = node.label.map((name, n) => `${name}, ${node.customdata[n]}`);
    }
    if (spec.kind === "heat") traces.forEach((trace) => { Object.assign(trace, { hovertext: cells(trace, spec.start), hoverinfo: "text" }); });
    if (spec.kind !== "time" || !traces.length) return traces;
    for (const [number, trace] of traces.entries()) {
      trace.visible = !(hidden && hidden.has(number));
      trace.customdata = Array.from(trace.y, trace.yaxis ? undefined : Math.abs); // both ways from zero
    }
    return [clock(traces[0].x, spec.start), ...traces];
  }

  /** Tooltips of the cells of a map over time. */
  function cells({ x, y, z }, start) {
    const moments = Array.from(x, (t) => momentText(t, start));
    return z.map((row, n) => Array.from(row, (count, i) => `${y[n]}: ${count.toLocaleString("en", { maximumFractionDigits: 1 })} servers<br>${moments[i]}`));
  }

  /** An invisible curve that shows the time under the mouse. */
  function clock(times, start) {
    return { type: "scatter", mode: "lines", name: "", x: times, y: times.map(() => 0), line: { width: 0, color: "rgba(0,0,0,0)" },
      hovertext: Array.from(times, (t) => momentText(t, start)), hovertemplate: "%{hovertext}" };
  }

  /** Only buttons that work on the page itself: nothing is uploaded anywhere. */
  function configOf({ kind }) {
    const buttons = ["zoom2d", "pan2d", "resetScale2d"];
    return { responsive: true, displaylogo: false, showTips: false, displayModeBar: kind === "plot" ? false : "hover", plotlyServerURL: "", modeBarButtons: [buttons] };
  }

  /** Names and colours of the curves below the chart; a click hides one or shows it again. */
  function legend(chart) {
    const { element, spec } = chart, box = document.createElement("div"), old = element.parentElement.querySelector(".legend");
    box.className = "legend";
    const hidden = chart.hidden || (chart.hidden = new Set());
    (spec.traces || []).forEach((trace, number) => {
      if (trace.type === "sankey" || trace.type === "heatmap") return; // they are labelled
      const item = document.createElement("button"), swatch = document.createElement("i");
      const look = trace.line || {}, paint = painted(trace.fillcolor || (trace.marker || look).color);
      if (trace.mode === "markers") {
        swatch.className = "mark";
        swatch.textContent = { diamond: "\u25c6", "triangle-down": "\u25bc", "line-ns": "|" }[trace.marker.symbol] || "\u2715";
        swatch.style.color = paint;
      } else if (trace.type === "scatter" && !trace.fillcolor) {
        swatch.className = "line";
        swatch.style.borderTop = `2px ${{ dash: "dashed", dashdot: "dashed", dot: "dotted" }[look.dash] || "solid"} ${paint}`;
      } else swatch.style.background = paint;
      item.type = "button";
      item.setAttribute("aria-pressed", String(!hidden.has(number)));
      const name = document.createElement("span");
      name.innerHTML = trace.name; // escaped when the page was written
      item.append(swatch, name);
      item.addEventListener("click", () => {
        if (!hidden.delete(number)) hidden.add(number);
        item.setAttribute("aria-pressed", String(!hidden.has(number)));
        Plotly.restyle(element, { visible: !hidden.has(number) }, [spec.kind === "time" ? number + 1 : number]) /* the clock comes first */;
      });
      box.append(item);
    });
    if (old) old.replaceWith(box); else if (box.children.length) element.after(box);
  }

  function draw(chart) {
    const { element, spec } = chart, width = element.clientWidth;
    const drawn = Plotly.react(element, tracesOf(chart), layoutOf(spec, width), configOf(spec));
    if (!chart.drawn) {
      chart.drawn = true;
      exporting.buttons(chart);
      if ((spec.kind === "time" || spec.kind === "heat") && why.has(spec.group)) why.onClick(element, (event) => explain(chart, event));
      if (spec.kind !== "plot") element.on("plotly_relayout", (change) => moved(chart, change));
    }
    if (spec.kind !== "gantt") legend(chart);
    return drawn.then(() => { if (spec.kind === "gantt") gantt.attach(chart, { css, timeText, momentText }); });
  }

  /** Set all charts of a group to the range of the zoomed one. */
  function moved(chart, change) {
    if (busy) return;
    let range = change["xaxis.range"] || (change["xaxis.range[0]"] !== undefined && [change["xaxis.range[0]"], change["xaxis.range[1]"]]);
    if (change["xaxis.autorange"]) range = [0, chart.spec.end || 1];
    if (!range) return;
    busy = true;
    const work = [];
    for (const other of charts.values()) {
      if (other.spec.kind === "plot" || other.spec.group !== chart.spec.group) continue;
      other.spec.range = [...range];
      if (!other.drawn) continue;
      const ticks = timeTicks(range, other.element.clientWidth, other.spec.start);
      work.push(Plotly.relayout(other.element, { "xaxis.range": [...range], "xaxis.tickvals": ticks.tickvals, "xaxis.ticktext": ticks.ticktext }));
    }
    Promise.all(work).finally(() => { busy = false; });
  }

  /** The step that contains the time of a click. */
  function explain({ element, spec }, event) {
    const { xaxis: x, yaxis: y } = element._fullLayout, box = element.getBoundingClientRect();
    const px = event.clientX - box.left - x._offset, py = event.clientY - box.top - y._offset;
    const time = x.p2l(px);
    if (px >= 0 && px <= x._length && py >= 0 && py <= y._length && time >= 0 && time <= spec.end) why.moment(spec.group, time);
  }

  const texts = new Map(), specs = new Map();

  /** Specification of a chart; undefined if there is no such chart. */
  function specOf(id) {
    if (!specs.has(id)) specs.set(id, texts.has(id) ? decode(JSON.parse(texts.get(id))) : undefined);
    return specs.get(id);
  }

  /** Unpack plotly and the charts' data. */
  async function unpack() {
    const sources = [...document.querySelectorAll("script[data-for]")];
    const unpacked = sources.map(async (source) => texts.set(source.dataset.for, await packed.text(source.textContent)));
    await Promise.all([packed.script(document.querySelector("script[data-plotly]")), ...unpacked]);
  }

  /** Show that the charts cannot be drawn. */
  function complain(error) {
    const warning = document.createElement("p");
    warning.className = "warning";
    warning.textContent = `The charts cannot be drawn: ${error.message}. A browser of 2023 or later is required.`;
    document.querySelector("main").prepend(warning);
  }

  /** Outline a job in its run's Gantt chart, and no other one anywhere. */
  function mark(group, job) {
    for (const chart of charts.values()) {
      if (chart.gantt) gantt.mark(chart, chart.spec.group === group ? job : undefined);
    }
  }

  function load(element) {
    const chart = { element, spec: specOf(element.id), drawn: false };
    for (const other of charts.values()) {
      if (other.spec.group && other.spec.group === chart.spec.group) chart.spec.range = other.spec.range;
    }
    charts.set(element.id, chart);
    return draw(chart);
  }

  function start() {
    const waiting = new Set(document.querySelectorAll(".drawing"));
    const show = (element) => { if (waiting.delete(element)) load(element); };
    const seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); show(entry.target); }
    }, { rootMargin: "300px" });
    waiting.forEach((element) => seen.observe(element));
    addEventListener("beforeprint", () => waiting.forEach((element) => { if (element.clientWidth) show(element); }));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(draw));
    addEventListener("hashchange", openTarget);
    openTarget();
  }

  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }

  why.use({ decode, specOf, momentText, mark });
  exporting.use({ css });
  unpack().then(start, complain);
  return { charts, timeText, clockText, timeTicks };
})();
