"use strict";
// The sections of the page, built from its data, and rebuilt in place when new data comes.

const kept = { cards: new Map(), sections: new Map(), tables: new Map(), nodes: new Map(), legends: new Map() };
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

/** Small figures of the same lines, in groups with a title each, under one legend. */
function smallFigures(key, groups, kind = "small") {
  const shared = node(`hidden ${key}`, () => ({ hidden: new Set(), box: make("div", { className: "legend", role: "group", "aria-label": "Lines" }) }));
  const keyOf = (figure) => `${key} ${figure.task} ${figure.title}`;
  const figures = groups.flatMap((group) => group.figures);
  const grids = groups.flatMap(({ title, figures: some }) => [...(title ? [heading(`${key} ${title}`, title, "h4")] : []), grid(`${key} ${title}`, some.map((figure) => cardNode(keyOf(figure), figure, shared.hidden)), kind)]);
  const all = { ...figures[0], lines: linesOfAll(figures) };
  shared.fill = () => fillLegend(shared.box, all, shared.hidden, () => {
    shared.fill();
    figures.forEach((figure) => refresh(kept.cards.get(keyOf(figure))));
  });
  shared.fill();
  kept.legends.set(key, shared);
  return [shared.box, ...grids];
}

/** Each line of some figures once. The number of its seeds is left out where it differs. */
function linesOfAll(figures) {
  const lines = new Map();
  for (const line of figures.flatMap((figure) => figure.lines)) {
    const before = lines.get(line.name);
    if (!before) lines.set(line.name, line);
    else if (before.seeds !== line.seeds) lines.set(line.name, { ...before, seeds: 0 });
  }
  return [...lines.values()];
}

function grid(key, children, kind = "") {
  const box = node(`grid ${key}`, () => make("div", { className: `grid ${kind}`.trim() }));
  children.forEach((child) => child.classList.toggle("alone", children.length === 1 && !kind));
  place(box, children);
  return box;
}

function fold(key, title, children) {
  const box = node(`fold ${key}`, () => make("details", { className: "fold" }, make("summary"), make("div")));
  box.firstElementChild.textContent = title;
  place(box.lastElementChild, children);
  return box;
}

function heading(key, text, tag = "h3") {
  const title = node(`heading ${key}`, () => make(tag, { className: "part" }));
  title.textContent = text;
  return title;
}

// --- sections -------------------------------------------------------------------------------------------------------------

const SECTIONS = [
  ["overview", "Overview", "", () => [...(data.overview.figures.length ? [grid("overview", data.overview.figures.map((figure, i) => cardNode(`overview ${i}`, figure)))] : []), ...data.overview.tables.map((table, i) => tableNode(`overview ${i}`, table))]],
  ["curves", "Curves", "Evaluations during training: mean over seeds with 95% bootstrap interval. With fewer than three seeds, each run.", () => [grid("curves", data.tasks.map((task) => cardNode(`curves ${task.task}`, task.figure)))]],
  ["ablations", "Ablations", "Steps that build on each other, with the norms inside the critic, or one setting at a time against the line that all others differ from.", ablations],
  ["diagnostics", "Diagnostics", "Inside the networks: mean over runs, from the lowest to the highest of them.", () => [...ofTasks("diagnostics"), ...folded("layers", "of single layers")]],
  ["coverage", "Coverage", "What the replay holds, beside what the final policy visits. Colour is the logarithm of the density.", () => [grid("coverage", data.coverage.map(coverageNode))]],
  ["metrics", "Metrics", "The other columns of metrics.csv: mean over runs, from the lowest to the highest of them.", () => folded("metrics", "of losses, entropy, speed and the rest")],
  ["clock", "Wall clock", "", () => tableIfAny("clock", data.wall_clock)],
  ["videos", "Videos", "The newest video of each run.", () => [grid("videos", data.videos.map(videoNode), "small")]],
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
    return [...(several ? [heading(`${kind} ${task.task}`, task.task)] : []), ...smallFigures(`${kind} ${task.task}`, [{ title: "", figures: task[kind] }])];
  });
}

function folded(kind, what) {
  const count = data.tasks.reduce((sum, task) => sum + task[kind].length, 0);
  return count ? [fold(kind, `${count} figure${count > 1 ? "s" : ""} ${what}`, ofTasks(kind))] : [];
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
  kept.legends.forEach((legend) => legend.fill());
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

const live = { every: 1000 * Number(document.body.dataset.poll), tag: null, heard: null, lost: false, fault: "" };

async function poll() {
  if (!document.hidden) {
    try {
      const answer = await fetch("data.json", { headers: live.tag ? { "If-None-Match": live.tag } : {} });
      if (answer.status === 200) {
        const next = await answer.json();
        live.tag = answer.headers.get("ETag");
        data = next;
        show();
      } else if (answer.status === 500) live.fault = (await answer.text()).slice(0, 500);
      else if (answer.status !== 304) throw new Error(`status ${answer.status}`);
      if (answer.status !== 500) [live.heard, live.fault] = [Date.now(), ""];
      live.lost = false;
    } catch (error) {
      [live.lost, live.fault] = [true, ""];
    }
    tick();
  }
  setTimeout(poll, live.every);
}

function tick() {
  const box = document.getElementById("live");
  const age = live.heard === null ? null : Math.round((Date.now() - live.heard) / 1000);
  const updated = age === null ? "no data yet" : `updated ${age} s ago`;
  const state = live.lost ? "flashsac watch does not answer" : live.fault;
  box.textContent = state ? `${state}; ${updated}` : updated;
  box.classList.toggle("lost", Boolean(state));
  box.hidden = false;
  const said = document.getElementById("said");
  if (said.textContent !== state) said.textContent = state;
}

data = JSON.parse(document.getElementById("data").textContent);
if (data) show();
if (live.every) {
  poll();
  setInterval(tick, 1000);
}
