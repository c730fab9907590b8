"use strict";
// Export of every chart as PNG or SVG with title and legend, and of its numbers as CSV.
const exporting = (() => {
  const TITLE = 44, LEGEND = 34;
  let tools = null;

  function buttons(chart) {
    const box = document.createElement("span");
    box.className = "save";
    for (const [name, act] of [["PNG", png], ["SVG", svg], ["CSV", csv]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.title = `save this chart as ${name}`;
      button.addEventListener("click", async () => download(chart, name.toLowerCase(), await act(chart)));
      box.append(button);
    }
    chart.element.parentElement.querySelector("figcaption").append(box);
  }

  function download({ element }, ending, content) {
    const link = document.createElement("a"), types = { csv: "text/csv", svg: "image/svg+xml" };
    const blob = content instanceof Blob ? content : new Blob([content], { type: types[ending] });
    link.href = URL.createObjectURL(blob);
    link.download = `${element.id}.${ending}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const title = ({ element }) => element.getAttribute("aria-label");
  const escaped = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
  const size = ({ element }) => [element.clientWidth, element.clientHeight + TITLE + LEGEND];

  /** The chart as the text of an SVG file. */
  async function svg(chart) {
    const { element, spec } = chart, [width, height] = size(chart), layout = element.layout;
    const data = element.data.map((trace) => (trace.name === "" ? { ...trace, showlegend: false } : trace));
    const figure = {
      data,
      layout: {
        ...layout, width, height, autosize: false, paper_bgcolor: tools.css("--card"),
        title: { text: escaped(title(chart)), x: 0, xref: "container", xanchor: "left", pad: { l: 12, t: 12 }, y: 1, yanchor: "top", yref: "container", font: { size: 15 } },
        margin: { ...layout.margin, t: layout.margin.t + TITLE, b: layout.margin.b + LEGEND },
        showlegend: spec.kind !== "gantt" && spec.kind !== "heat", legend: { orientation: "h", traceorder: "normal", x: 0, y: 0, yref: "container", yanchor: "bottom" },
      },
    };
    const text = await Plotly.toImage(figure, { format: "svg", width, height, imageDataOnly: true });
    return spec.kind === "gantt" ? withRectangles(chart, text, height) : text;
  }

  /** The Gantt chart's rectangles below its axes, and its legend. */
  function withRectangles({ element, gantt: { canvas } }, text, height) {
    const { left, top, width: w, height: h } = canvas.style, px = (value) => parseFloat(value);
    const image = `<image href="${canvas.toDataURL("image/png")}" x="${px(left)}" y="${px(top) + TITLE}" width="${px(w)}" height="${px(h)}" preserveAspectRatio="none"/>`;
    let x = px(left), key = "";
    for (const item of element.parentElement.querySelectorAll(".legend > span")) {
      const name = item.textContent, paint = getComputedStyle(item.querySelector("i")).backgroundColor;
      key += `<rect x="${x}" y="${height - 20}" width="11" height="11" fill="${paint}"/><text x="${x + 16}" y="${height - 10}" font-size="12" font-family="sans-serif" fill="${tools.css("--ink")}">${escaped(name)}</text>`;
      x += 34 + 6.6 * name.length;
    }
    return text.replace(/<g class="layer-below"/, `${image}${key}$&`);
  }

  /** The same as pixels, two per CSS pixel. */
  async function png(chart) {
    const [width, height] = size(chart), picture = new Image(), canvas = document.createElement("canvas");
    const address = URL.createObjectURL(new Blob([await svg(chart)], { type: "image/svg+xml" }));
    picture.src = address;
    await picture.decode();
    Object.assign(canvas, { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }

  /** A cell; a string that a spreadsheet would read as a formula gets an apostrophe. */
  function cell(value) {
    if (value === undefined || value === null || Number.isNaN(value)) return "";
    if (typeof value === "number") return String(value);
    const text = /^[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value)) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  const lines = (rows) => rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";

  function plainText(html) {
    const box = document.createElement("textarea");
    box.innerHTML = html; // names are escaped in the page
    return box.value;
  }

  /** Times get a column with the date, if it is known. */
  const date = (time, { start }) => (start === undefined ? [] : [new Date(Math.round(1000 * (start + time))).toISOString().slice(0, 19)]);

  /** A value; 32-bit numbers with seven digits. */
  const digits = (values, i) => (values instanceof Float32Array ? Number(values[i].toPrecision(7)) : values?.[i]);

  /** The numbers of a chart, one row each. */
  function csv(chart) {
    const { spec, element } = chart;
    if (spec.kind === "gantt") return jobs(spec);
    const dated = spec.kind === "plot" || spec.start === undefined ? [] : ["date"];
    const unit = (axis) => plainText(spec.layout?.[axis]?.title?.text || axis.slice(0, 1));
    const over = spec.kind === "plot" ? unit("xaxis") : "time_s";
    const traces = spec.traces || [], first = traces[0] || {};
    if (first.type === "sankey") return flow(first);
    if (first.type === "heatmap" || first.type === "contour") return map(first, spec, dated, over);
    const across = first.orientation === "h";
    const rows = [["series", ...(across ? ["name", unit("xaxis")] : [over, ...dated, unit("yaxis")])]];
    for (const { name, x, y, text } of traces) {
      for (let i = 0; i < x.length; i++) {
        if (across) rows.push([plainText(name), plainText(String(y[i])), x[i]]);
        else rows.push([plainText(name), x[i], ...(dated.length ? date(x[i], spec) : []), digits(y, i), ...(text && typeof text[i] === "string" ? [plainText(text[i])] : [])]);
      }
    }
    return lines(rows);
  }

  function flow({ node, link }) {
    const name = (place) => plainText(node.label[place]);
    return lines([["from", "to", "kWh"], ...link.value.map((kwh, n) => [name(link.source[n]), name(link.target[n]), kwh])]);
  }

  function map({ x, y, z }, spec, dated, over) {
    const rows = [["row", over, ...dated, "value"]];
    z.forEach((row, n) => row.forEach((value, i) => rows.push([typeof y[n] === "string" ? plainText(y[n]) : y[n], x[i], ...(dated.length ? date(x[i], spec) : []), value])));
    return lines(rows);
  }

  function jobs({ jobs: own, outcomes, bars }) {
    const hosts = own.id.map(() => []);
    bars.job.forEach((job, i) => hosts[job].push(bars.low[i] === bars.high[i] ? `${bars.low[i]}` : `${bars.low[i]}-${bars.high[i]}`));
    const rule = (places, j) => (places[j] >= 0 ? own.rules[places[j]] : undefined);
    const rows = own.id.map((id, j) => [id, digits(own.submit, j), digits(own.start, j), digits(own.end, j), own.servers[j], hosts[j].join(" "), outcomes[own.outcome[j]],
      digits(own.walltime, j), digits(own.energy, j), rule(own.start_rule, j), rule(own.rule, j)]);
    return lines([["job", "submitted_s", "started_s", "ended_s", "servers", "hosts", "outcome", "walltime_s", "energy_j", "started_by", "killed_by"], ...rows]);
  }

  return { buttons, svg, png, csv, use: (given) => { tools = given; } };
})();
