// One setting in full: knobs, metrics, curves, neighbours, and the command that runs it.

const STATISTICS = ["mean", "p50", "p90", "p95", "p99", "max"];

function drawSetting(row) {
  const body = document.getElementById("setting-body");
  document.getElementById("setting-title").textContent = `Point ${text(value(row, "point"))}`;
  const opened = body.querySelector(".everything")?.open ?? false; // as the reader left it
  const curves = data.curves[row] ? curvePlaces(row) : [element("p", { class: "card note", id: "no-curves" }, noCurves())];
  body.replaceChildren(
    element("p", { class: "lead" }, verdict(row)),
    facts("Knobs", data.knobs.map((name) => [label(name), levelText(value(row, name))])),
    blockedBar(row),
    ...curves,
    ...neighbourTable(row),
    element("h3", {}, "Latency and slowdown"),
    latencyTable(row),
    element("details", { class: "everything", open: opened }, [element("summary", {}, "All other metrics and knobs"), others(row)]),
    ...commandOf(row),
  );
  if (data.curves[row]) {
    drawLatencies(row, peers(row));
    drawTimes(row);
  }
}

function verdict(row) {
  const metrics = data.shown.map((name) => `${named(name)} ${quantity(row, name)}`).join(", ");
  const poor = markOf(row) === "poor" ? ` Fewer than ${percent(data.poor)} of the requests met the objectives.` : "";
  return `${metrics}.${poor}`;
}

// A metric with its unit: shares in percent.
function quantity(row, name) {
  const here = value(row, name);
  if (name.startsWith("slo_attainment") && here !== null) return percent(here);
  const unit = /\(([^)]+)\)$/.exec(label(name))?.[1] ?? "";
  return `${text(here)} ${unit.startsWith("times") ? "" : unit}`.trim();
}

function noCurves() {
  const reasons = Object.keys(data.missing);
  const why = reasons.length ? ` (${reasons.join("; ")})` : "";
  return Object.keys(data.curves).length
    ? "No curves: only some settings of the frontier were simulated again for them; ask for more with --curves, or run the command below."
    : `No curves: nothing was simulated again for them${why}.`;
}

function facts(title, pairs) {
  return element("div", {}, [
    element("h3", {}, title),
    element("dl", { class: "facts" }, pairs.map(([name, here]) => element("div", {}, [element("dt", {}, name), element("dd", {}, here)]))),
  ]);
}

// How the queue's head spent the run, as one bar and in numbers.
function blockedBar(row) {
  const shares = BLOCKERS.map(([reason, title], place) => [`blocked by ${title}`, value(row, `blocked_${reason}_share`) ?? 0, blockerColour(place)]);
  shares.push(["nobody blocked", value(row, "empty_queue_share") ?? 0, ink("faint")]);
  const strip = element("div", { class: "strip", "aria-hidden": "true" }, shares.map(([, share, colour]) => {
    const part = element("span");
    part.style.width = `${100 * share}%`;
    part.style.background = colour;
    return part;
  }));
  const list = element("ul", { class: "legend" }, shares.map(([title, share, colour]) => {
    const glyph = element("span", { class: "glyph", "aria-hidden": "true" }, "■");
    glyph.style.color = colour;
    return element("li", {}, [glyph, ` ${title} ${percent(share)} of the time`]);
  }));
  return element("div", {}, [element("h3", {}, "Time blocked"), strip, list]);
}

// Settings with curves on the same trace, at the same load.
function peers(row) {
  const same = ["trace", "load", "seed", "cost"];
  return Object.keys(data.curves).map(Number).filter((other) => other !== row && same.every((name) => value(other, name) === value(row, name)));
}

function neighbourTable(row) {
  const near = data.neighbours[row];
  if (!near || !near.length) return [];
  const columns = [...new Set(data.objectives)];
  const rows = near.map((each) => {
    const button = element("button", { type: "button", class: "choose" }, text(value(each.row, "point")));
    button.addEventListener("click", () => select(each.row, true));
    const changes = each.changes.map(([knob, from, to]) => `${label(knob)} ${levelText(from)} → ${levelText(to)}`).join(", ");
    return element("tr", {}, [
      element("td", { class: "number" }, button),
      element("td", { class: "wide" }, changes || "no knob"),
      ...columns.map((name) => element("td", { class: "number" }, [text(value(each.row, name)), " ", change(row, each.row, name)])),
    ]);
  });
  return [
    element("h3", {}, "Nearest on the frontier"),
    scrolling("Nearest settings on the frontier", element("table", {}, [
      element("thead", {}, element("tr", {}, [
        element("th", { scope: "col", class: "number" }, "point"),
        element("th", { scope: "col" }, "what changes"),
        ...columns.map((name) => element("th", { scope: "col", class: "number" }, brief(name))),
      ])),
      element("tbody", {}, rows),
    ])),
  ];
}

function change(row, other, name) {
  const [here, there] = [value(row, name), value(other, name)];
  if (!here || !Number.isFinite(there / here)) return "";
  const ratio = there / here;
  const shown = ratio > 2 || ratio < 0.5 ? `×${text(ratio, 2)}` : `${ratio >= 1 ? "+" : "−"}${Math.abs(100 * (ratio - 1)).toFixed(Math.abs(ratio - 1) < 0.1 ? 1 : 0)} %`;
  const good = (there - here) * data.better[name];
  return element("span", { class: good > 0 ? "better" : good < 0 ? "worse" : "same" }, shown);
}

function scrolling(name, content) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, content);
}

// Metrics that come as mean, p50 and so on, by row.
function latencyNames() {
  const found = new Map();
  for (const metric of data.metrics) {
    const match = /^(.+)_(mean|p50|p90|p95|p99|max)(_s|)$/.exec(metric);
    if (match && data.metrics.includes(`${match[1]}_max${match[3]}`)) {
      const base = match[1] + match[3];
      found.set(base, { ...found.get(base), [match[2]]: metric });
    }
  }
  return found;
}

function latencyTable(row) {
  const known = [...latencyNames()].filter(([, metrics]) => Object.values(metrics).some((name) => value(row, name) !== null));
  const rows = known.map(([base, metrics]) =>
    element("tr", {}, [
      element("th", { scope: "row" }, label(metrics.mean ?? metrics.max).replace(/ (mean|max)/, "")),
      ...STATISTICS.map((each) => element("td", { class: "number" }, metrics[each] ? text(value(row, metrics[each])) : "")),
    ]),
  );
  const head = ["", ...STATISTICS].map((each) => element("th", { scope: "col", class: each ? "number" : null }, each));
  return scrolling("Latency and slowdown", element("table", {}, [element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)]));
}

function others(row) {
  const told = new Set([...latencyNames().values()].flatMap((each) => Object.values(each)));
  const metrics = data.metrics.filter((name) => !told.has(name));
  const fixed = Object.keys(data.command.defaults).filter((name) => !data.knobs.includes(name));
  return element("div", {}, [
    facts("Metrics", metrics.map((name) => [label(name), quantity(row, name)])),
    facts("Knobs that are the same everywhere", fixed.map((name) => [label(name), levelText(value(row, name))])),
  ]);
}

// The command that simulates this setting, or where no command can, the sweep file of it alone.
function commandOf(row) {
  const { defaults, traces, costs, objectives, file } = data.command;
  const trace = traces[value(row, "trace")], cost = costs[value(row, "cost")];
  const changed = Object.keys(defaults).filter((name) => value(row, name) !== defaults[name]);
  if (trace && cost) {
    const seed = value(row, "seed");
    const words = [
      "vecsched", "simulate", ...trace, ...(seed === null ? [] : ["--seed", seed]),
      "--load", value(row, "load"), ...cost, ...objectives,
      ...changed.flatMap((name) => option(name, value(row, name))),
    ];
    return [element("h3", {}, "Run this setting"), codeBlock(words.map(shell).join(" "))];
  }
  const seed = value(row, "seed");
  const { traces: sections, costs: models, ...rest } = file;
  const alone = {
    trace: { ...sections[value(row, "trace")], ...(seed === null ? {} : { seed }) },
    cost: models[value(row, "cost")],
    base: Object.fromEntries(changed.map((name) => [name, value(row, name)])),
    axes: { load: [value(row, "load")] },
    ...rest,
  };
  return [
    element("h3", {}, "Run this setting"),
    element("p", {}, "Its trace or cost model has no short name, so it takes a sweep file: save this as one.yaml and run vecsched sweep one.yaml -o one.parquet."),
    codeBlock(JSON.stringify(alone, null, 1)),
  ];
}

function option(name, given) {
  const flag = `--${name.replaceAll("_", "-")}`;
  if (given === true) return [flag];
  if (given === false) return [`--no-${flag.slice(2)}`];
  return [flag, given];
}

function shell(word) {
  const plainWord = String(word);
  return /^[\w@%+=:,./-]+$/.test(plainWord) ? plainWord : `'${plainWord.replaceAll("'", "'\"'\"'")}'`;
}

function codeBlock(content) {
  return element("pre", { tabindex: "0", id: "setting-command" }, element("code", {}, content));
}
