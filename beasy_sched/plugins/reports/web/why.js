"use strict";
// Explanations on a click: the output of `beasy-sched explain` for a job or a step, next to the charts. The texts of
// a run are in the page in compressed chunks; only the requested chunk is unpacked.
const why = (() => {
  const packs = new Map(); // group -> { data, places, chunks }
  let panel = null, opener = null, tools = null, asked = 0;

  /** The explanations of a run; null if it has none. */
  function packOf(group) {
    if (!packs.has(group)) {
      const source = document.querySelector(`script[data-why="${group}"]`), data = source && tools.decode(JSON.parse(source.textContent));
      const spec = data && tools.specOf(`${group}-gantt`), known = spec ? spec.jobs.id : [];
      const explained = data && new Map((data.ids || known).map((id, n) => [id, n]));
      packs.set(group, data && { data, explained, known: new Map(known.map((id, n) => [id, n])), spec, chunks: new Map() });
    }
    return packs.get(group);
  }

  /** A word quoted for a shell. */
  const quoted = (text) => (/^[\w./=:@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

  const has = (group) => document.querySelector(`script[data-why="${group}"]`) !== null;

  async function entry(pack, kind, place) {
    const key = `${kind} ${Math.floor(place / pack.data.chunk)}`;
    if (!pack.chunks.has(key)) pack.chunks.set(key, packed.json(pack.data[kind][Math.floor(place / pack.data.chunk)]));
    return (await pack.chunks.get(key))[place % pack.data.chunk];
  }

  async function job(group, id) {
    const pack = packOf(group), turn = ++asked;
    if (!pack) return;
    const place = pack.explained.get(id), ask = `--job ${quoted(id)}`;
    tools.mark(group, pack.known.get(id));
    if (place === undefined) show(group, `Job ${id}`, null, ask);
    else {
      const chapters = await entry(pack, "jobs", place);
      if (turn === asked) show(group, `Job ${id}`, chapters, ask);
    }
  }

  /** The step that contains a time; `edges` has start and end of each. */
  function stepAt(edges, time) {
    let low = 0, high = edges.length / 2;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (edges[2 * middle] <= time + 1e-6) low = middle + 1; else high = middle;
    }
    return low > 0 && time < edges[2 * low - 1] ? low - 1 : -1;
  }

  async function moment(group, time) {
    const pack = packOf(group), turn = ++asked;
    if (!pack) return;
    const place = stepAt(pack.data.edges, time), ask = `--at ${Math.round(time)}`;
    tools.mark(group, undefined);
    if (place < 0) { show(group, `At ${tools.momentText(time, pack.spec?.start)}`, pack.data.steps.length ? [["Decisions", ["None are recorded for this time."]]] : null, ask); return; }
    const [title, chapters] = await entry(pack, "steps", place);
    if (turn === asked) show(group, title, chapters, ask);
  }

  /** A job by its id, with or without the workload's; a problem if there is none or more than one. */
  function find(group, text) {
    const pack = packOf(group);
    if (!pack) return { problem: "the run has no decision log" };
    const names = pack.spec ? pack.spec.jobs.id : [...pack.explained.keys()];
    if (pack.known.has(text) || pack.explained.has(text)) return { id: text };
    const like = names.filter((id) => id.slice(id.indexOf("!") + 1) === text);
    if (like.length === 1) return { id: like[0] };
    return { problem: like.length ? `found ${like.slice(0, 3).join(", ")}: give the full id of one of them` : `no such job; the run has ${names.length}, ${names[0]} to ${names[names.length - 1]}` };
  }

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  function button(text, act, kind) {
    const made = element("button", text, kind);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  }

  /** A text in which jobs are buttons. */
  function prose(group, text) {
    const line = element("p"), pack = packOf(group);
    let plain = "";
    for (const part of text.split(/(\s+)/)) {
      const id = part.replace(/[,.;:)]+$/, "").replace(/^\(/, "");
      if (!id.includes("!") || !pack.explained.has(id)) { plain += part; continue; }
      const at = part.indexOf(id);
      line.append(plain + part.slice(0, at), button(id, () => job(group, id), "link"));
      plain = part.slice(at + id.length);
    }
    line.append(plain);
    return line;
  }

  function show(group, title, chapters, ask) {
    const pack = packOf(group);
    if (!panel) build();
    const body = panel.querySelector("div");
    panel.querySelector("h2").textContent = title;
    body.replaceChildren();
    if (!chapters) body.append(element("p", "This page does not contain this explanation. Use:"));
    for (const [heading, entries] of chapters || []) {
      body.append(element("h3", heading));
      for (const item of entries) {
        if (typeof item === "string") { body.append(prose(group, item)); continue; }
        const line = prose(group, item[1]);
        line.prepend(button(tools.momentText(item[0], pack.spec?.start, 1), () => moment(group, item[0]), "link moment"), " ");
        body.append(line);
      }
    }
    body.append(element("p", "In the terminal:", "note"), element("code", `beasy-sched explain ${quoted(pack.data.prefix)} ${ask}`));
    panel.hidden = false;
    body.scrollTop = 0;
    panel.querySelector("h2").focus({ preventScroll: true });
  }

  function build() {
    panel = element("aside", undefined, "why");
    panel.setAttribute("aria-label", "Why");
    const heading = element("h2");
    heading.tabIndex = -1;
    const closing = button("\u00d7", close, "close");
    closing.setAttribute("aria-label", "Close");
    panel.append(heading, closing, element("div"));
    document.body.append(panel);
    addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  }

  function close() {
    if (!panel || panel.hidden) return;
    panel.hidden = true;
    tools.mark();
    if (opener && opener.isConnected) opener.focus({ preventScroll: true });
  }

  /** Call `act` on a click that is neither a drag nor the first half of a double click. */
  function onClick(target, act) {
    let waiting = 0, pressed = null;
    target.addEventListener("pointerdown", (event) => { pressed = event; }, { capture: true });
    target.addEventListener("click", (event) => {
      clearTimeout(waiting);
      const { clientX, clientY } = event;
      if (event.detail > 1 || (pressed && Math.hypot(pressed.clientX - clientX, pressed.clientY - clientY) > 4)) return;
      waiting = setTimeout(() => { opener = document.activeElement; act({ clientX, clientY }); }, 220);
    });
    target.addEventListener("dblclick", () => clearTimeout(waiting));
  }

  return { job, moment, find, has, onClick, close, stepAt, use: (given) => { tools = given; } };
})();
