"use strict";
// A figure of the page: its lines by plotly, its legend of buttons, its numbers as a table and as CSV.
// Names of runs and tasks come from files. They reach the page as text only (textContent, plain).

const view = { axis: "step", published: true, styles: {} };
const waiting = new IntersectionObserver(drawWhatIsSeen, { rootMargin: "300px" });

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

/** Text for plotly, which reads some HTML tags and %{...} in texts. */
function plain(text) {
  return String(text).replace(/[&<>%]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function faint(hex, alpha) {
  const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return `rgba(${parts.join(",")},${alpha})`;
}

function short(value) {
  return value === null || value === undefined ? "" : Number(value.toPrecision(5)).toLocaleString("en", { maximumSignificantDigits: 5 });
}

function lookOf(figure, name) {
  return (figure.styles || view.styles)[name] || { colour: "#7F7F7F", dash: "solid", marker: "circle" };
}

/** The axis of a figure: its own, or the one that is chosen for the page. */
function axisOf(figure) {
  return figure.axis || view.axis;
}

function linesIn(figure) {
  return figure.lines.filter((line) => !line.published || (view.published && line.mean[axisOf(figure)]));
}

function labelOf(figure, line) {
  const name = (figure.labels || {})[line.name] || line.name;
  return line.seeds ? `${name}, ${line.seeds} seed${line.seeds > 1 ? "s" : ""}` : name;
}

// --- what plotly draws ------------------------------------------------------------------------------------------------

function tracesOf(figure, hidden) {
  return linesIn(figure).filter((line) => !hidden.has(line.name)).flatMap((line) => [...bandTraces(figure, line), ...runTraces(figure, line), ...meanTraces(figure, line)]);
}

function bandTraces(figure, line) {
  const mean = line.mean[axisOf(figure)];
  if (!mean || mean.low.every((low, i) => low === mean.high[i])) return [];
  const kept = mean.x.map((x, i) => i).filter((i) => mean.low[i] !== null && mean.high[i] !== null);
  const back = [...kept].reverse();
  return [{
    type: "scatter", mode: "lines", fill: "toself", hoverinfo: "skip", line: { width: 0 },
    fillcolor: faint(lookOf(figure, line.name).colour, line.published ? 0.08 : 0.17),
    x: [...kept, ...back].map((i) => mean.x[i]),
    y: [...kept.map((i) => mean.high[i]), ...back.map((i) => mean.low[i])],
  }];
}

function runTraces(figure, line) {
  const look = lookOf(figure, line.name);
  const averaged = Boolean(line.mean[axisOf(figure)]);
  return line.runs.map((run) => ({
    type: "scatter", mode: run.value.length > 1 ? "lines" : "markers", x: run[axisOf(figure)], y: run.value,
    opacity: averaged ? 0.3 : 1, line: { color: look.colour, width: averaged ? 1 : 2, dash: averaged ? "solid" : look.dash },
    marker: { color: look.colour, size: 7 },
    ...(averaged ? { hoverinfo: "skip" } : { hovertemplate: `${plain((figure.labels || {})[line.name] || line.name)}, seed ${run.seed}: %{y:.5g}<extra></extra>` }),
  }));
}

function meanTraces(figure, line) {
  const mean = line.mean[axisOf(figure)];
  if (!mean) return [];
  const look = lookOf(figure, line.name);
  return [{
    type: "scatter", mode: line.published ? "lines+markers" : "lines", x: mean.x, y: mean.mean,
    line: { color: look.colour, width: line.published ? 1.5 : 2.5, dash: line.published ? "dash" : look.dash },
    marker: { symbol: look.marker, size: 7, color: look.colour },
    customdata: mean.low.map((low, i) => [low, mean.high[i]]),
    hovertemplate: `${plain((figure.labels || {})[line.name] || line.name)}: %{y:.5g} [%{customdata[0]:.5g}, %{customdata[1]:.5g}]<extra></extra>`,
  }];
}

function layoutOf(figure, small) {
  const axis = { gridcolor: colour("--grid"), zerolinecolor: colour("--line"), linecolor: colour("--line"), automargin: true, fixedrange: coarse() };
  const narrow = window.innerWidth < 640;
  const published = view.published && figure.end && figure.end[axisOf(figure)];
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, uirevision: axisOf(figure) + view.published,
    font: { family: "system-ui, sans-serif", size: narrow || small ? 11 : 12, color: colour("--quiet") },
    margin: { l: 48, r: 10, t: 8, b: 40 }, hovermode: narrow ? "closest" : "x unified", dragmode: coarse() ? false : "zoom",
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line"), font: { color: colour("--ink"), size: 12 }, namelength: -1 },
    xaxis: { ...axis, title: { text: plain(figure.x[axisOf(figure)]), standoff: 8 }, hoverformat: ".6~s", ...(published ? { range: [-0.02 * published, published] } : {}) },
    yaxis: { ...axis, type: figure.log ? "log" : "linear", ...(figure.log ? logTicks(figure) : {}), ...(small || figure.y === figure.title ? {} : { title: { text: plain(figure.y), standoff: 8 } }) },
  };
}

/** Ticks of a logarithmic axis: 1, 2 and 5 over one or two decades, powers of ten over some more. Left alone, plotly
 *  writes digits over each other there. */
function logTicks(figure) {
  const values = figure.lines.flatMap((line) => [...Object.values(line.mean).flatMap((mean) => [...mean.low, ...mean.high]), ...line.runs.flatMap((run) => run.value)]).filter((value) => value > 0);
  const decades = Math.log10(values.reduce((a, b) => Math.max(a, b), 0) / values.reduce((a, b) => Math.min(a, b), Infinity));
  return { exponentformat: "power", ...(decades > 1 && decades < 6 ? { dtick: decades < 2.5 ? "D2" : 1 } : { nticks: 6 }) };
}

function coarse() {
  return window.matchMedia("(pointer: coarse)").matches;
}

// --- a card: figure, legend, tools --------------------------------------------------------------------------------------

/** A card keeps its node while its figure changes, so that focus, zoom and an open table survive an update.
 *  With `shared` hidden lines it is a small one, whose legend is elsewhere. */
function makeCard(shared = null) {
  const card = { hidden: shared || new Set(), small: Boolean(shared), dirty: true, seen: false, drawn: false };
  card.title = make("h3");
  card.sub = make("p", { className: "sub" });
  card.plot = make("div", { className: "plot", role: "img" });
  card.legend = make("div", { className: "legend", role: "group", "aria-label": "Lines" });
  card.numbers = make("details", {}, make("summary", { textContent: "Numbers" }));
  card.numbers.addEventListener("toggle", () => fillNumbers(card));
  const csv = make("button", { type: "button", textContent: "CSV" });
  csv.addEventListener("click", () => download(`${fileName(card.figure)}.csv`, csvOf(card.figure)));
  const png = make("button", { type: "button", textContent: "PNG" });
  png.addEventListener("click", () => savePicture(card));
  card.tools = [csv, png];
  const tools = make("div", { className: "tools" }, csv, png, card.numbers);
  card.node = make("figure", { className: "card" }, make("figcaption", {}, card.title, card.sub), card.plot, ...(shared ? [] : [card.legend]), tools);
  card.plot.card = card;
  waiting.observe(card.plot);
  return card;
}

function setFigure(card, figure) {
  card.figure = figure;
  card.title.textContent = figure.title;
  card.sub.textContent = card.small && figure.y !== figure.title ? figure.y : "";
  const about = [figure.title, figure.part, figure.task].filter((text, i, all) => text && all.indexOf(text) === i).join(", ");
  for (const [i, kind] of ["CSV", "PNG"].entries()) card.tools[i].setAttribute("aria-label", `${kind} of ${about}`);
  refresh(card);
}

function refresh(card) {
  card.dirty = true;
  if (!card.small) fillLegend(card.legend, card.figure, card.hidden, () => refresh(card));
  if (card.numbers.open) fillNumbers(card);
  card.plot.setAttribute("aria-label", summaryOf(card.figure));
  if (card.seen) draw(card);
}

function draw(card) {
  card.dirty = false;
  const traces = tracesOf(card.figure, card.hidden);
  const config = { displayModeBar: false, responsive: true, displaylogo: false, doubleClick: "reset" };
  Plotly.react(card.plot, traces, layoutOf(card.figure, card.small), config);
  card.drawn = true;
}

function drawWhatIsSeen(entries) {
  for (const { target, isIntersecting } of entries) {
    const card = target.card;
    card.seen = isIntersecting;
    if (card.seen && card.dirty) (card.draw || draw)(card);
  }
}

function forget(card) {
  waiting.unobserve(card.plot);
  if (card.drawn) Plotly.purge(card.plot);
}

/** A box of buttons, one for each line. A grid of small figures shares one legend, and what is hidden by it. */
function fillLegend(box, figure, hidden, changed) {
  const lines = linesIn(figure);
  const key = JSON.stringify([lines.map((line) => [labelOf(figure, line), lookOf(figure, line.name)]), [...hidden]]);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  const focused = [...box.children].indexOf(document.activeElement);
  box.replaceChildren(...lines.map((line) => legendButton(figure, line, hidden, changed)));
  if (focused >= 0 && box.children[focused]) box.children[focused].focus();
}

const DASHES = { solid: "", dash: "6 4", dashdot: "6 3 2 3", dot: "2 3", longdash: "10 4", longdashdot: "10 3 2 3" };
const MARKERS = { circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", x: "✖", star: "★" };

function svgNode(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function legendButton(figure, line, hidden, changed) {
  const look = lookOf(figure, line.name);
  const svg = svgNode("svg", { width: 30, height: 12, "aria-hidden": "true" });
  svg.append(svgNode("line", { x1: 1, x2: 29, y1: 6, y2: 6, stroke: look.colour, "stroke-width": line.published ? 2 : 3, "stroke-dasharray": line.published ? "6 4" : DASHES[look.dash] }));
  if (line.published) {
    const sign = svgNode("text", { x: 15, y: 10, fill: look.colour, "text-anchor": "middle", "font-size": 11 });
    sign.textContent = MARKERS[look.marker];
    svg.append(sign);
  }
  const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(line.name)) }, svg, make("span", { textContent: labelOf(figure, line) }));
  button.addEventListener("click", () => {
    if (!hidden.delete(line.name)) hidden.add(line.name);
    changed();
  });
  return button;
}

// --- the same in words and numbers ----------------------------------------------------------------------------------------

/** The last point of every line that is shown: name, place, value, and its interval if it has one. */
function lastPoints(figure) {
  return linesIn(figure).flatMap((line) => {
    const mean = line.mean[axisOf(figure)];
    if (mean) {
      const i = mean.x.length - 1;
      return [[labelOf(figure, line), mean.x[i], mean.mean[i], mean.low[i], mean.high[i]]];
    }
    return line.runs.map((run) => [`${(figure.labels || {})[line.name] || line.name}, seed ${run.seed}`, run[axisOf(figure)].at(-1), run.value.at(-1), null, null]);
  });
}

function summaryOf(figure) {
  const ends = lastPoints(figure).slice(0, 8).map(([name, x, value]) => `${name} ends at ${short(value)}`);
  return `${figure.title} over ${figure.x[axisOf(figure)]}. ${ends.join("; ") || "No data yet"}.`;
}

function fillNumbers(card) {
  const rows = lastPoints(card.figure).map(([name, ...values]) => [name, ...values.map(short)]);
  const columns = ["Line", card.figure.x[axisOf(card.figure)], "Last value", "Low", "High"];
  const table = makeTable({ caption: `Last points. ${card.figure.spread}`, columns, rows });
  card.numbers.replaceChildren(card.numbers.firstElementChild, table);
}

function makeTable({ caption, columns, rows }) {
  const numeric = columns.map((_, i) => rows.length > 0 && rows.every((row) => /^(-?[\d.,]+(e-?\d+)?)?$/.test(row[i] ?? "")) && rows.some((row) => row[i]));
  const kind = (i, text) => (numeric[i] ? "number" : ["short", "middle", "long"][(text.length > 22) + (text.length > 60)]);
  const head = make("tr", {}, ...columns.map((name, i) => make("th", { scope: "col", textContent: name, className: numeric[i] ? "number" : "" })));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell, i) => make("td", { textContent: cell, className: kind(i, cell) }))));
  const table = make("table", {}, make("caption", { textContent: caption }), make("thead", {}, head), make("tbody", {}, ...body));
  return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, table);
}

function csvOf(figure) {
  const rows = [["task", "figure", "name", "kind", "axis", "x", "value", "low", "high", "seed"]];
  for (const line of figure.lines) {
    for (const [axis, mean] of Object.entries(line.mean)) {
      mean.x.forEach((x, i) => rows.push([figure.task, figure.title, line.name, line.published ? "published" : "mean", axis, x, mean.mean[i], mean.low[i], mean.high[i], ""]));
    }
    for (const run of line.runs) {
      for (const axis of ["step", "seconds"]) run.value.forEach((value, i) => rows.push([figure.task, figure.title, line.name, "run", axis, run[axis][i], value, "", "", run.seed]));
    }
  }
  return csvText(rows);
}

function csvText(rows) {
  const cell = (value) => (/[",\n\r]/.test(value ?? "") ? `"${String(value).replaceAll('"', '""')}"` : (value ?? ""));
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function fileName(figure) {
  return safeName([figure.task, figure.part, figure.title === figure.task ? "curves" : figure.title].filter(Boolean).join("-"));
}

function safeName(text) {
  return text.replace(/[^A-Za-z0-9.]+/g, "-");
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

function savePicture(card) {
  if (!card.drawn) draw(card);
  Plotly.downloadImage(card.plot, { format: "png", scale: 2, width: 900, height: 520, filename: fileName(card.figure) });
}
