// What is chosen, and what happens when it changes.

const state = {
  x: data.objectives[0],
  y: data.objectives[1],
  by: data.by,
  selected: data.first,
  whole: false, // whether the figure shows all settings, or the part around the frontier
  // The axes, and the further objectives of the command, which count but are not drawn.
  get objectives() {
    return [...new Set([this.x, this.y, ...data.objectives.slice(2)])];
  },
};

function fill(select, names, chosen, none) {
  const options = names.map((name) => element("option", { value: name, selected: name === chosen }, label(name)));
  if (none) options.unshift(element("option", { value: "", selected: !chosen }, none));
  select.replaceChildren(...options);
}

function buildControls() {
  const objectives = [...new Set([...data.objectives, ...Object.keys(data.better)])].filter(
    (name) => name in data.columns || data.objectives.includes(name),
  );
  for (const axis of ["x", "y"]) {
    const select = document.getElementById(axis);
    fill(select, objectives, state[axis]);
    select.addEventListener("change", () => {
      state[axis] = select.value;
      render();
    });
  }
  const by = document.getElementById("by");
  fill(by, data.knobs.filter((name) => levelsOf(name).length <= FEW), state.by, "nothing");
  by.addEventListener("change", () => {
    state.by = by.value || null;
    render();
  });
  document.getElementById("whole").addEventListener("change", (event) => {
    state.whole = event.target.checked;
    render();
  });
  const metric = document.getElementById("effect-metric");
  fill(metric, data.shown, data.shown[0]);
  metric.addEventListener("change", () => drawLevels(shownRows(), metric.value));
  document.getElementById("table-choice").addEventListener("change", (event) => {
    Object.assign(sorting, { rows: event.target.value, limit: PAGE });
    drawTable(current, state);
  });
  document.getElementById("more").addEventListener("click", () => {
    sorting.limit += PAGE;
    drawTable(current, state);
  });
  buildFilters(document.getElementById("filter-form"), render);
  for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
}

let current = []; // the groups that are shown, with their frontiers

function render() {
  const rows = shownRows();
  const groups = (current = frontsOf(rows, state));
  const front = groups.flatMap((group) => group.front);
  const poor = front.filter((row) => markOf(row) === "poor").length;
  document.getElementById("count").textContent =
    `${text(rows.length)} of ${counted(data.rows, "setting")} shown; ${text(front.length)} on the frontier`;
  document.getElementById("frontier-caption").textContent =
    `${text(front.length)} of ${counted(rows.length, "setting")} are on the frontier of ` +
    `${state.objectives.map((name) => `${data.better[name] > 0 ? "most" : "least"} ${named(name)}`).join(", ")}` +
    `${state.by ? ` at equal ${label(state.by)}` : ""}` +
    `${poor ? `; ${text(poor)} of them hollow` : ""}. A thin ring marks a knee, a thick one the setting below. ` +
    "Choose a mark to look at its setting; drag to zoom, double-click to undo it. The table below tells the same.";
  document.getElementById("parallel-caption").textContent =
    `Each line is one of the ${counted(rows.length, "setting")} shown; those on the frontier are coloured, the chosen one is dark. ` +
    "Objectives point up: the better end is on top (on narrow screens to the right).";
  drawFrontier(groups, state);
  const hidden = outside(rows, state);
  document.getElementById("whole-text").textContent = hidden ? `show also the ${text(hidden)} far away` : "show all";
  drawTable(groups, state);
  drawParallel(groups, state);
  drawLevels(rows, document.getElementById("effect-metric").value);
}

// Choose a setting; `moves` takes the reader to it.
function select(row, moves = false) {
  state.selected = row;
  const front = current.flatMap((group) => group.front);
  moveRings(front, state);
  const shapes = parallelShapes(parallelAxes(current, state), isNarrow("parallel-plot"), state);
  Plotly.relayout("parallel-plot", { shapes });
  drawTable(current, state);
  drawSetting(row);
  document.getElementById("announcement").textContent = `Point ${text(value(row, "point"))} is shown.`;
  if (moves) document.getElementById("setting").focus();
}

function drawAll() {
  render();
  drawSetting(state.selected);
}

function print_(starts) {
  printing = starts;
  document.documentElement.classList.toggle("printing", starts);
  for (const details of document.querySelectorAll("details:not(.everything)")) {
    if (starts) details.dataset.before = String(details.open);
    details.open = starts || details.dataset.before === "true";
  }
  drawAll();
}

buildControls();
drawShares();
drawAll();
// The figure is its own element only once plotly has drawn in it.
document.getElementById("frontier-plot").on("plotly_click", (event) => {
  const row = event.points[0].customdata;
  if (row !== undefined) select(row);
});
if (window.matchMedia("(max-width: 999px)").matches) document.getElementById("filters").open = false;
darkScheme.addEventListener("change", drawAll);
window.addEventListener("beforeprint", () => print_(true));
window.addEventListener("afterprint", () => print_(false));
let waiting = 0;
let lastWidth = window.innerWidth;
window.addEventListener("resize", () => {
  // Phones resize when their bars come and go; only the width matters.
  if (window.innerWidth === lastWidth) return;
  lastWidth = window.innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(drawAll, 150);
});
