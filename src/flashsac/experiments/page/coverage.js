"use strict";
// The card of a run's coverage: densities of replay and policy, and their downloads.

function coverageNode(run) {
  const key = `coverage ${JSON.stringify(run)}`;
  return node(key, () => {
    const title = `${run.task}, ${run.name}, seed ${run.seed}`;
    const choice = make("select", { "aria-label": `Pair of numbers, ${title}` }, ...run.pairs.map((pair, i) => make("option", { value: i, textContent: `${pair.x} and ${pair.y}` })));
    const plots = ["replay", "policy"].map((kind) => make("div", { className: "plot", role: "img", "aria-label": `Density of ${kind}, ${title}` }));
    const numbers = make("details", { open: true }, make("summary", { textContent: "Numbers" }));
    const card = { plot: plots[0], plots, numbers, run, choice, used: true, dirty: true, seen: false, drawn: false, draw: drawCoverage };
    const csv = make("button", { type: "button", textContent: "CSV", "aria-label": `CSV of coverage, ${title}` });
    csv.addEventListener("click", () => download(`${safeName(`coverage-${title}`)}.csv`, coverageCsv(run)));
    const png = make("button", { type: "button", textContent: "PNG", "aria-label": `PNG of coverage, ${title}` });
    png.addEventListener("click", () => saveCoverage(card, title));
    plots[0].card = card;
    choice.addEventListener("change", () => drawCoverage(card));
    kept.cards.set(key, card);
    waiting.observe(plots[0]);
    const tools = make("div", { className: "tools" }, csv, png, numbers);
    card.node = make("figure", { className: "card" }, make("figcaption", {}, make("h3", { textContent: run.task }), make("p", { className: "sub", textContent: `${run.name}, seed ${run.seed}` })), choice, make("div", { className: "pair" }, ...plots), tools);
    return card.node;
  });
}

/** The two pictures of a pair: traces and layouts, with the same colours for the same density. */
function picturesOf(pair) {
  // Rows of plotly's z are y. An empty cell has no logarithm, and stays blank.
  const logs = ["replay", "policy"].map((kind) => pair.y_edges.slice(1).map((_, j) => pair[kind].map((row) => (row[j] > 0 ? Math.log10(row[j]) : null))));
  const values = logs.flat(2).filter((value) => value !== null);
  const [zmin, zmax] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
  return ["Replay", "Policy"].map((title, i) => {
    const trace = { type: "heatmap", x: pair.x_edges, y: pair.y_edges, z: logs[i], zmin, zmax, colorscale: "Cividis", colorbar: { thickness: 10, title: { text: "log10" } }, hovertemplate: "%{x:.3g}, %{y:.3g}: %{z:.3g}<extra></extra>" };
    const layout = layoutOf({ title: "", y: pair.y, x: { [view.axis]: pair.x } }, false);
    layout.title = { text: title, font: { size: 13, color: colour("--ink") }, x: 0.5, y: 0.98 };
    layout.margin = { l: 48, r: 10, t: 28, b: 40 };
    layout.hovermode = "closest";
    delete layout.xaxis.hoverformat;
    return { trace, layout };
  });
}

function drawCoverage(card) {
  card.dirty = false;
  const pair = card.run.pairs[Number(card.choice.value)];
  picturesOf(pair).forEach(({ trace, layout }, i) => Plotly.react(card.plots[i], [trace], layout, { displayModeBar: false, responsive: true }));
  const rows = Object.entries(pair.numbers).map(([name, value]) => [name, short(value)]);
  card.numbers.replaceChildren(card.numbers.firstElementChild, makeTable({ caption: `${pair.x} and ${pair.y}`, columns: ["Figure of merit", "Value"], rows }));
  card.drawn = true;
}

/** Every bin of every pair, with both densities. */
function coverageCsv(run) {
  const rows = [["task", "name", "seed", "x", "y", "x_low", "x_high", "y_low", "y_high", "replay", "policy"]];
  for (const pair of run.pairs) {
    pair.replay.forEach((row, i) => row.forEach((density, j) => {
      const bin = [pair.x_edges[i], pair.x_edges[i + 1], pair.y_edges[j], pair.y_edges[j + 1]];
      rows.push([run.task, run.name, run.seed, pair.x, pair.y, ...bin, density, pair.policy[i][j]]);
    }));
  }
  return csvText(rows);
}

/** One picture of both densities, side by side. */
function saveCoverage(card, title) {
  const pair = card.run.pairs[Number(card.choice.value)];
  const [replay, policy] = picturesOf(pair);
  const { xaxis, yaxis, ...layout } = replay.layout;
  const headings = ["Replay", "Policy"].map((text, i) => ({ text, showarrow: false, x: [0.21, 0.71][i], xanchor: "center", xref: "paper", y: 1, yanchor: "bottom", yref: "paper" }));
  const sides = { xaxis: { ...xaxis, domain: [0, 0.42] }, yaxis, xaxis2: { ...xaxis, domain: [0.5, 0.92] }, yaxis2: { ...yaxis, anchor: "x2" } };
  const figure = {
    data: [{ ...replay.trace, showscale: false }, { ...policy.trace, xaxis: "x2", yaxis: "y2" }],
    layout: { ...layout, ...sides, annotations: headings, title: { text: plain(title) }, margin: { ...layout.margin, t: 70 }, paper_bgcolor: colour("--card") },
  };
  Plotly.downloadImage(figure, { format: "png", scale: 2, width: 1000, height: 480, filename: safeName(`coverage-${title}`) });
}
