"use strict";
// The section of ablations: panels of lines that build on each other, or that differ in one setting.

/** A chain has the return and the norms of its lines. A setting that was varied alone has the return over both axes. */
function ablations() {
  const titles = [...new Set(data.tasks.flatMap((task) => task.panels.map((panel) => panel.title)))];
  return titles.flatMap((title) => {
    const found = data.tasks.flatMap((task) => task.panels.filter((panel) => panel.title === title).map((panel) => [task, panel]));
    const [, first] = found[0];
    const key = `ablation ${title}`;
    const entries = found.flatMap(([, panel]) => panel.lines);
    const shared = { part: title, labels: Object.fromEntries(entries), styles: stylesOf(entries) };
    const figures = found.map(([task, panel]) => ({ title: data.tasks.length > 1 ? task.task : "", figures: panel.chain ? chainFigures(task, panel, shared) : axisFigures(task, panel, shared) }));
    return [heading(key, title), ...(first.steps.length ? [stepsNode(key, first.steps)] : []), ...smallFigures(key, figures, first.chain ? "small" : "small two")];
  });
}

/** What each line of a chain changes, in addition to those before it. */
function stepsNode(key, steps) {
  return node(`steps ${key} ${JSON.stringify(steps)}`, () => {
    const items = steps.map(([name, ...settings]) => make("li", {}, `${name}: `, ...settings.flatMap((text) => [make("code", { textContent: text }), " "])));
    return make("ul", { className: "steps", "aria-label": "Settings that each step changes" }, ...items);
  });
}

/** The lines of a panel in its order; those that a figure lacks are left out. */
function ofPanel(figure, panel, shared) {
  const lines = panel.lines.map(([name]) => figure.lines.find((line) => line.name === name)).filter(Boolean);
  return { ...figure, ...shared, lines, end: lines.some((line) => line.published) ? figure.end : undefined };
}

/** The looks of the page, or where two lines of a panel would have one colour, the first looks that there are.
 *  A published line has the colour of the line that it belongs to. */
function stylesOf(entries) {
  const names = [...new Set(entries.filter(([, , of]) => !of).map(([name]) => name))];
  const colours = new Set(names.map((name) => view.styles[name].colour));
  const looks = Object.values(view.styles);
  const styles = Object.fromEntries(names.map((name, i) => [name, colours.size < names.length ? looks[i] : view.styles[name]]));
  for (const [name, , of] of entries) if (of) styles[name] = styles[of];
  return styles;
}

function chainFigures(task, panel, shared) {
  const inside = Object.entries(panel.columns).flatMap(([column, title]) => {
    const figure = task.diagnostics.find((each) => each.title === column);
    return figure ? [{ ...ofPanel(figure, panel, shared), title, y: title, log: isPositive(figure) }] : [];
  });
  return [{ ...ofPanel(task.figure, panel, shared), title: task.figure.y }, ...inside];
}

function axisFigures(task, panel, shared) {
  const figure = ofPanel(task.figure, panel, shared);
  return ["step", "seconds"].map((axis) => {
    const title = `${figure.y} over ${figure.x[axis]}`;
    return { ...figure, axis, title, y: title };
  });
}

function isPositive(figure) {
  const values = figure.lines.flatMap((line) => [...Object.values(line.mean).flatMap((mean) => mean.mean), ...line.runs.flatMap((run) => run.value)]);
  return values.every((value) => value === null || value > 0);
}
