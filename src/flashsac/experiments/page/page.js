"use strict";
// The sections of the page, built from its data, and rebuilt in place when new data comes.

const kept = { cards: new Map(), sections: new Map(), tables: new Map(), nodes: new Map() };
const main = document.getElementById("content");
let data = null;

// --- nodes that are kept while they are needed --------------------------------------------------------------------------

/** Make these nodes the children. Those that are in place stay untouched: a moved video would stop. */
function place(parent, nodes) {
  nodes.forEach((node, i) => { if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] || null); });
  while (parent.children.length > nodes.length) parent.lastElementChild.remove();
}

function node(key, build) {
  if (!kept.nodes.has(key)) kept.nodes.set(key, build());
  return kept.nodes.get(key);
}

function cardNode(key, figure, shared = null) {
  if (!kept.cards.has(key)) kept.cards.set(key, makeCard(shared));
  const card = kept.cards.get(key);
  card.used = true;
  const text = JSON.stringify([figure, view.styles]);
  if (card.text !== text) {
    card.text = text;
    setFigure(card, figure);
  }
  return card.node;
}

function tableNode(key, table) {
  const text = JSON.stringify(table);
  const before = kept.tables.get(key);
  if (!before || before.text !== text) kept.tables.set(key, { text, node: makeTable(table) });
  return kept.tables.get(key).node;
}

/** Small figures of the same lines, under one legend. */
function smallFigures(key, figures) {
  const shared = node(`hidden ${key}`, () => ({ hidden: new Set(), box: make("div", { className: "legend", role: "group", "aria-label": "Lines" }) }));
  const keys = figures.map((figure) => `${key} ${figure.task} ${figure.title}`);
  const cards = figures.map((figure, i) => cardNode(keys[i], figure, shared.hidden));
  const names = new Map(figures.flatMap((figure) => figure.lines.map((line) => [line.name, line])));
  const all = { ...figures[0], lines: [...names.values()] };
  shared.fill = () => fillLegend(shared.box, all, shared.hidden, () => {
    shared.fill();
    keys.forEach((each) => refresh(kept.cards.get(each)));
  });
  shared.fill();
  return [shared.box, grid(key, cards, true)];
}

function grid(key, children, small = false) {
  const box = node(`grid ${key}`, () => make("div", { className: small ? "grid small" : "grid" }));
  children.forEach((child) => child.classList.toggle("alone", children.length === 1 && !small));
  place(box, children);
  return box;
}

function fold(key, title, children) {
  const box = node(`fold ${key}`, () => make("details", { className: "fold" }, make("summary"), make("div")));
  box.firstElementChild.textContent = title;
  place(box.lastElementChild, children);
  return box;
}

function heading(key, text) {
  const title = node(`heading ${key}`, () => make("h3", { style: "margin-top:1.4rem" }));
  title.textContent = text;
  return title;
}

// --- sections -------------------------------------------------------------------------------------------------------------

const SECTIONS = [
  ["overview", "Overview", "", () => [...(data.overview.figures.length ? [grid("overview", data.overview.figures.map((figure, i) => cardNode(`overview ${i}`, figure)))] : []), ...data.overview.tables.map((table, i) => tableNode(`overview ${i}`, table))]],
  ["curves", "Curves", "Evaluations during training: mean over seeds with 95% bootstrap interval. With fewer than three seeds, each run.", () => [grid("curves", data.tasks.map((task) => cardNode(`curves ${task.task}`, task.figure)))]],
  ["ablations", "Ablations", "One setting at a time, against the line that all others differ from.", ablations],
  ["diagnostics", "Diagnostics", "Inside the networks: mean over runs, from the lowest to the highest of them.", () => [...ofTasks("diagnostics"), ...folded("layers", "of single layers")]],
  ["coverage", "Coverage", "What the replay holds, beside what the final policy visits. Colour is the logarithm of the density.", () => [grid("coverage", data.coverage.map(coverageNode))]],
  ["metrics", "Metrics", "The other columns of metrics.csv: mean over runs, from the lowest to the highest of them.", () => folded("metrics", "of losses, entropy, speed and the rest")],
  ["clock", "Wall clock", "", () => tableIfAny("clock", data.wall_clock)],
  ["videos", "Videos", "The newest video of each run.", () => [grid("videos", data.videos.map(videoNode), true)]],
  ["settings", "Settings", "", () => tableIfAny("settings", data.settings)],
  ["origins", "Versions", "", () => data.origins.map((table, i) => tableNode(`origins ${i}`, table))],
];

function tableIfAny(key, table) {
  return table.rows.length ? [tableNode(key, table)] : [];
}

function ofTasks(kind) {
  const several = data.tasks.length > 1;
  return data.tasks.flatMap((task) => {
    if (!task[kind].length) return [];
    return [...(several ? [heading(`${kind} ${task.task}`, task.task)] : []), ...smallFigures(`${kind} ${task.task}`, task[kind])];
  });
}

function folded(kind, what) {
  const count = data.tasks.reduce((sum, task) => sum + task[kind].length, 0);
  return count ? [fold(kind, `${count} figure${count > 1 ? "s" : ""} ${what}`, ofTasks(kind))] : [];
}

/** A row of figures for each setting that was varied alone, one figure for each task. */
function ablations() {
  const titles = [...new Set(data.tasks.flatMap((task) => task.panels.map((panel) => panel.title)))];
  return titles.flatMap((title) => {
    const figures = data.tasks.flatMap((task) => task.panels.filter((panel) => panel.title === title).map((panel) => {
      const lines = Object.keys(panel.labels).map((name) => task.figure.lines.find((line) => line.name === name));
      return { ...task.figure, lines, labels: panel.labels, end: undefined };
    }));
    return [heading(`ablation ${title}`, title), ...smallFigures(`ablation ${title}`, figures)];
  });
}

function videoNode(video) {
  return node(`video ${JSON.stringify(video)}`, () => {
    const title = `${video.task}, ${video.name}, seed ${video.seed}`;
    // The fragment makes a browser show the first picture before it plays.
    const source = video.src.startsWith("data:") ? video.src : `${video.src}#t=0.001`;
    const film = make("video", { controls: true, preload: "metadata", muted: true, loop: true, "aria-label": title });
    film.playsInline = true;
    film.src = source;
    return make("figure", { className: "card" }, make("figcaption", {}, make("h3", { textContent: video.task }), make("p", { className: "sub", textContent: `${video.name}, seed ${video.seed}` })), film);
  });
}

function coverageNode(run) {
  return node(`coverage ${JSON.stringify(run)}`, () => {
    const title = `${run.task}, ${run.name}, seed ${run.seed}`;
    const choice = make("select", { "aria-label": `Pair of numbers, ${title}` }, ...run.pairs.map((pair, i) => make("option", { value: i, textContent: `${pair.x} and ${pair.y}` })));
    const plots = ["replay", "policy"].map((kind) => make("div", { className: "plot", role: "img", "aria-label": `Density of ${kind}, ${title}` }));
    const numbers = make("div");
    const card = { plot: plots[0], plots, numbers, run, choice, used: true, dirty: true, seen: false, drawn: false, draw: drawCoverage };
    plots[0].card = card;
    choice.addEventListener("change", () => drawCoverage(card));
    kept.cards.set(`coverage ${JSON.stringify(run)}`, card);
    waiting.observe(plots[0]);
    card.node = make("figure", { className: "card" }, make("figcaption", {}, make("h3", { textContent: run.task }), make("p", { className: "sub", textContent: `${run.name}, seed ${run.seed}` })), choice, make("div", { className: "pair" }, ...plots), numbers);
    return card.node;
  });
}

function drawCoverage(card) {
  card.dirty = false;
  const pair = card.run.pairs[Number(card.choice.value)];
  // Rows of plotly's z are y. An empty cell has no logarithm, and stays blank.
  const logs = ["replay", "policy"].map((kind) => pair.y_edges.slice(1).map((_, j) => pair[kind].map((row) => (row[j] > 0 ? Math.log10(row[j]) : null))));
  const values = logs.flat(2).filter((value) => value !== null);
  const [zmin, zmax] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  ["Replay", "Policy"].forEach((title, i) => {
    const trace = { type: "heatmap", x: pair.x_edges, y: pair.y_edges, z: logs[i], zmin, zmax, colorscale: "Cividis", colorbar: { thickness: 10, title: { text: "log10" } }, hovertemplate: "%{x:.3g}, %{y:.3g}: %{z:.3g}<extra></extra>" };
    const layout = layoutOf({ title: "", y: pair.y, x: { [view.axis]: pair.x } }, false);
    layout.title = { text: title, font: { size: 13, color: colour("--ink") }, x: 0.5, y: 0.98 };
    layout.margin = { l: 48, r: 10, t: 28, b: 40 };
    layout.hovermode = "closest";
    delete layout.xaxis.hoverformat;
    Plotly.react(card.plots[i], [trace], layout, { displayModeBar: false, responsive: true });
  });
  const rows = Object.entries(pair.numbers).map(([name, value]) => [name, short(value)]);
  card.numbers.replaceChildren(...(rows.length ? [makeTable({ caption: `${pair.x} and ${pair.y}`, columns: ["Figure of merit", "Value"], rows })] : []));
  card.drawn = true;
}

// --- the whole page -------------------------------------------------------------------------------------------------------

function show() {
  view.styles = data.styles;
  kept.cards.forEach((card) => { card.used = Boolean(card.run); });
  const filled = SECTIONS.map(([id, title, lead, build]) => [id, title, lead, build()]).filter(([, , , children]) => children.some((child) => child.children.length));
  place(main, data.runs ? filled.map(([id, title, lead, children]) => sectionNode(id, title, lead, children)) : [nothingYet()]);
  kept.cards.forEach((card, key) => {
    if (!card.used || !card.node.isConnected) {
      forget(card);
      kept.cards.delete(key);
      kept.nodes.delete(key);
    }
  });
  place(document.getElementById("sections"), filled.map(([id, title]) => node(`link ${id}`, () => make("a", { href: `#${id}`, textContent: title }))));
  const tasks = data.tasks.length;
  document.getElementById("title").textContent = tasks === 1 ? data.tasks[0].task : "Learning curves";
  document.title = `${tasks === 1 ? data.tasks[0].task : `${tasks} tasks`} · FlashSAC report`;
  document.getElementById("about").textContent = `${data.runs} run${data.runs === 1 ? "" : "s"} of ${tasks} task${tasks === 1 ? "" : "s"}.`;
  document.getElementById("made").textContent = `Made by flashsac ${data.version}${data.made ? `, ${data.made}` : ""}. Steps and values on this page have six digits, and a curve up to 500 points.`;
  document.getElementById("published").hidden = !data.tasks.some((task) => task.figure.lines.some((line) => line.published));
  showNotes();
}

function nothingYet() {
  return node("nothing", () => make("p", { className: "lead", textContent: "No runs yet. They appear here once they have written config.json and metrics.csv." }));
}

function sectionNode(id, title, lead, children) {
  const box = node(`section ${id}`, () => {
    const head = make("h2", { id, textContent: title });
    return make("section", { "aria-labelledby": id }, head, ...(lead ? [make("p", { className: "lead", textContent: lead })] : []), make("div"));
  });
  place(box.lastElementChild, children);
  return box;
}

function showNotes() {
  const header = document.querySelector("header .wide");
  const list = node("notes", () => make("ul", { className: "notes", "aria-label": "Notes" }));
  list.replaceChildren(...data.notes.map((note) => make("li", { textContent: note })));
  if (data.notes.length) header.append(list);
  else list.remove();
}

function redraw() {
  kept.cards.forEach((card) => {
    if (!card.run) return refresh(card);
    card.dirty = true;
    if (card.seen) drawCoverage(card);
  });
}

// --- buttons ---------------------------------------------------------------------------------------------------------------

const axisButtons = [...document.querySelectorAll("[data-axis]")];
axisButtons.forEach((button) => button.addEventListener("click", () => {
  view.axis = button.dataset.axis;
  axisButtons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  redraw();
}));

document.getElementById("published").addEventListener("click", ({ currentTarget }) => {
  view.published = !view.published;
  currentTarget.setAttribute("aria-pressed", String(view.published));
  redraw();
});

const darkWanted = window.matchMedia("(prefers-color-scheme: dark)");
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.getElementById("theme").textContent = dark ? "Light" : "Dark";
  if (data) redraw();
}
document.getElementById("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
darkWanted.addEventListener("change", () => setTheme(darkWanted.matches));
setTheme(darkWanted.matches);

// --- following runs that go on ---------------------------------------------------------------------------------------------

const live = { every: 1000 * Number(document.body.dataset.poll), tag: null, heard: null, lost: false };

async function poll() {
  if (!document.hidden) {
    try {
      const answer = await fetch("data.json", { headers: live.tag ? { "If-None-Match": live.tag } : {} });
      if (answer.status === 200) {
        const next = await answer.json();
        live.tag = answer.headers.get("ETag");
        data = next;
        show();
      } else if (answer.status !== 304) throw new Error(`status ${answer.status}`);
      live.heard = Date.now();
      live.lost = false;
    } catch (error) {
      live.lost = true;
    }
    tick();
  }
  setTimeout(poll, live.every);
}

function tick() {
  const box = document.getElementById("live");
  const age = live.heard === null ? null : Math.round((Date.now() - live.heard) / 1000);
  const updated = age === null ? "no data yet" : `updated ${age} s ago`;
  box.textContent = live.lost ? `flashsac watch does not answer; ${updated}` : updated;
  box.classList.toggle("lost", live.lost);
  box.hidden = false;
  const said = document.getElementById("said");
  const state = live.lost ? "flashsac watch does not answer" : "";
  if (said.textContent !== state) said.textContent = state;
}

data = JSON.parse(document.getElementById("data").textContent);
if (data) show();
if (live.every) {
  poll();
  setInterval(tick, 1000);
}
