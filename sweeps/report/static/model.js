// The sweep's rows, its frontier, and numbers as text. Knows nothing of the page.

const data = JSON.parse(document.getElementById("data").textContent);

const everyRow = Array.from({ length: data.rows }, (_, row) => row);

// Columns of texts come as levels and codes.
for (const [name, column] of Object.entries(data.columns)) {
  if (column.levels) {
    data.columns[name] = column.codes.map((code) => (code < 0 ? null : column.levels[code]));
  }
}

function value(row, name) {
  return name in data.columns ? data.columns[name][row] : data.constants[name];
}

function label(name) {
  return data.labels[name] ?? name.replaceAll("_", " ");
}

// With its unit cut short, for the head of a column.
function brief(name) {
  return label(name).replace("times its latency alone", "×");
}

// "TTFT p99 (s)" without its unit.
function named(name) {
  return label(name).replace(/ \(.+\)$/, "");
}

// Remembers what a function of a column returns: rows never change.
function remembered(work) {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, work(name));
    return known.get(name);
  };
}

// The values that a knob takes: numbers ascending, texts in the order of the sweep, null last.
const levelsOf = remembered((name) => {
  const levels = [...new Set(everyRow.map((row) => value(row, name)))];
  const known = levels.filter((level) => level !== null);
  if (known.every((level) => typeof level === "number")) known.sort((a, b) => a - b);
  return levels.includes(null) ? [...known, null] : known;
});

const isNumeric = remembered((name) => everyRow.every((row) => typeof (value(row, name) ?? 0) === "number"));

// The rows that no other row dominates, by ascending first objective; of equal rows the first.
// The same rules as `sweeps.frontier.pareto_front`.
function frontOf(rows, objectives) {
  const losses = (row) => objectives.map((name) => -data.better[name] * value(row, name));
  let left = rows
    .filter((row) => objectives.every((name) => value(row, name) !== null))
    .map((row) => ({ row, losses: losses(row) }));
  left.sort((a, b) => {
    const place = a.losses.findIndex((loss, i) => loss !== b.losses[i]);
    return place < 0 ? a.row - b.row : a.losses[place] - b.losses[place];
  });
  const front = [];
  if (objectives.length === 2) {
    let least = Infinity;
    for (const each of left) {
      if (each.losses[1] < least || front.length === 0) front.push(each.row);
      least = Math.min(least, each.losses[1]);
    }
    return front;
  }
  while (left.length) {
    const first = left[0];
    front.push(first.row);
    left = left.filter((each) => each.losses.some((loss, i) => loss < first.losses[i]));
  }
  return front;
}

// Rows by group, groups in the order of their levels; one group called null without `by`.
function grouped(rows, by) {
  if (!by) return [{ level: null, rows }];
  return levelsOf(by).map((level) => ({
    level,
    rows: rows.filter((row) => value(row, by) === level),
  }));
}

// "poor" if too few requests met the objectives, "unknown" if nobody can tell.
function markOf(row) {
  const share = value(row, "slo_attainment");
  if (share === null || share === undefined) return "unknown";
  return share < data.poor ? "poor" : "";
}

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function text(given, digits = 4) {
  if (given === null || given === undefined) return "–";
  if (typeof given === "boolean") return given ? "yes" : "no";
  if (typeof given !== "number") return String(given) || "none";
  if (Math.abs(given) >= 1e300) return given < 0 ? "-∞" : "∞";
  if (Number.isInteger(given) || Math.abs(given) >= 10 ** (digits - 1)) {
    return WHOLE.format(given);
  }
  const short = Number(given.toPrecision(digits));
  return Math.abs(short) < 1e-4 ? short.toExponential() : String(short);
}

function percent(share) {
  if (share > 0 && share < 0.01) return "<1\u00a0%";
  return `${Math.round(100 * share)}\u00a0%`;
}

function counted(count, one) {
  return `${text(count)} ${one}${count === 1 ? "" : "s"}`;
}

function settingText(row, names = data.knobs) {
  return names.map((name) => `${label(name)} ${levelText(value(row, name))}`).join(", ");
}

// A knob's level: null is a choice, too.
function levelText(level) {
  return level === null ? "none" : text(level);
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

function mean(values) {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}
