// Curves of a setting that was simulated again: latencies, and what went on over time.

const LATENCY_NAMES = { ttft_s: "TTFT", tpot_s: "TPOT", e2e_s: "End to end" };
const BLOCKERS = [
  ["slot", "slots"],
  ["kv_blocks", "KV blocks"],
  ["token_budget", "token budget"],
];

function blockerColour(place) {
  return data.palette[[0, 1, 2][place]];
}

function drawLatencies(row, others) {
  for (const name of data.latencies) {
    const id = `cdf-${name}`;
    const here = data.curves[row].latencies[name];
    if (!here.length) continue;
    const all = [row, ...others].flatMap((each) => data.curves[each].latencies[name]);
    const log = isLog(all.filter((each) => each > 0));
    const line = (each, style) => ({
      type: "scatter", mode: "lines", x: data.curves[each].latencies[name], y: data.shares,
      line: { shape: "hv", ...style }, hoverinfo: "skip",
    });
    const bound = data.slo[name];
    draw(id, [
      ...others.map((each) => line(each, { color: ink("faint"), width: 1.2 })),
      { ...line(row, { color: ink("accent"), width: 2.4 }), hoverinfo: "x+y",
        hovertemplate: "%{y:.1%} of requests within %{x:.4~g} s<extra></extra>" },
    ], {
      margin: { l: 44, r: 14, t: 10, b: 44 },
      xaxis: axisStyle({ type: log ? "log" : "linear", nticks: 5, tickformat: log ? "~g" : undefined,
        dtick: log ? decades(all) : undefined,
        title: { text: `${LATENCY_NAMES[name]} (s)`, font: { size: 12, color: ink("ink") }, standoff: 6 } }),
      yaxis: axisStyle({ range: [0, 1.02], tickformat: ".0%", nticks: 5 }),
      hovermode: "closest",
      shapes: bound === undefined || bound === null ? [] : [{ type: "line", x0: bound, x1: bound, yref: "paper", y0: 0, y1: 1, line: { color: ink("quiet"), width: 1.2, dash: "dot" } }],
      annotations: bound === undefined || bound === null ? [] : [{ x: log ? Math.log10(bound) : bound, y: 0.04, yref: "paper", yanchor: "bottom", xanchor: "left", xshift: 3, showarrow: false, text: `SLO ${text(bound)} s`, font: { size: 11, color: ink("quiet") }, bgcolor: ink("halo") }],
    });
  }
}

// A tick for each power of ten, or more of them where there are few.
function decades(values) {
  const known = values.filter((each) => each > 0);
  return Math.log10(Math.max(...known) / Math.min(...known)) < 2 ? "D2" : 1;
}

function drawTimes(row) {
  const curves = data.curves[row];
  const capacity = { batch_size: curves.slots, kv_blocks: curves.kv_capacity, queue: null };
  for (const name of Object.keys(capacity)) {
    drawSeries(`time-${name}`, curves[name], capacity[name], curves.end_s);
  }
  const times = middles(curves.blocked.slot.length, curves.end_s);
  draw("time-blocked", BLOCKERS.map(([reason, title], place) => ({
    type: "scatter", mode: "lines", stackgroup: "one", x: times, y: curves.blocked[reason],
    line: { width: 0 }, fillcolor: blockerColour(place), name: title,
    hovertemplate: `%{y:.0%} blocked by ${title}<extra></extra>`,
  })), timeLayout(curves.end_s, { range: [0, 1.02], tickformat: ".0%", tickvals: [0, 0.5, 1] }));
}

function drawSeries(id, series, capacity, end) {
  const times = middles(series.mean.length, end);
  const band = (y, more) => ({ type: "scatter", mode: "lines", x: times, y, hoverinfo: "skip", line: { width: 0, shape: "linear" }, ...more });
  const most = Math.max(...series.most, 1);
  // A capacity that is never near would press the curve flat: then it is only told.
  const near = capacity !== null && capacity < 3 * most;
  draw(id, [
    band(series.least, {}),
    band(series.most, { fill: "tonexty", fillcolor: ink("band") }),
    band(series.mean, { line: { color: ink("accent"), width: 1.6 }, hoverinfo: "x+y", hovertemplate: "%{y:,.4~g} at %{x:,.0f} s<extra></extra>" }),
  ], {
    ...timeLayout(end, { range: [0, 1.08 * (near ? Math.max(most, capacity) : most)], nticks: 4, tickformat: "~s" }),
    shapes: near ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: capacity, y1: capacity, line: { color: ink("quiet"), width: 1.2, dash: "dot" } }] : [],
  });
}

function middles(count, end) {
  return Array.from({ length: count }, (_, i) => ((i + 0.5) * end) / count);
}

function timeLayout(end, y) {
  return {
    margin: { l: 44, r: 14, t: 6, b: 24 },
    xaxis: axisStyle({ range: [0, end], nticks: 6, ticksuffix: " s", tickformat: ",~f" }),
    yaxis: axisStyle(y),
    hovermode: "x",
  };
}

// The places for the figures; they are filled once they are in the page.
function curvePlaces(row) {
  const curves = data.curves[row];
  const figure = (id, title, note, size) =>
    element("figure", { class: "panel" }, [
      element("h4", {}, title),
      element("div", { class: `plot ${size}`, id, role: "img", "aria-label": `${title}: ${note}` }),
      element("figcaption", {}, note),
    ]);
  const latencies = data.latencies.filter((name) => curves.latencies[name].length).map((name) =>
    figure(`cdf-${name}`, `${LATENCY_NAMES[name]}`, quantileText(row, name), "small"));
  const blocked = BLOCKERS.map(([, title], place) => {
    const glyph = element("span", { class: "glyph", "aria-hidden": "true" }, "■");
    glyph.style.color = blockerColour(place);
    return element("span", { class: "key" }, [glyph, ` ${title} `]);
  });
  const times = [
    figure("time-batch_size", "Slots in use", `mean ${text(mean(curves.batch_size.mean), 3)} of ${text(curves.slots)}`, "low"),
    figure("time-kv_blocks", "KV blocks held", kvText(row, curves), "low"),
    figure("time-queue", "Requests waiting", `mean ${text(mean(curves.queue.mean), 3)}, most ${text(Math.max(...curves.queue.most))}`, "low"),
    figure("time-blocked", "The queue's head blocked", "share of time, by", "low"),
  ];
  times.at(-1).querySelector("figcaption").append(" ", ...blocked);
  return [
    element("h3", {}, "Latencies"),
    element("p", { class: "hint" }, "Share of the requests within a time; dotted: the objective; grey: the other settings that were simulated again under equal conditions."),
    element("div", { class: "panels three" }, latencies),
    element("h3", {}, "Over time"),
    element("p", { class: "hint" }, `The run in ${curves.queue.mean.length} equal intervals. Line: mean over each; band: least and most; dotted: the capacity.`),
    element("div", { class: "panels" }, times),
  ];
}

// A run of equal iterations has one value, that of its start.
function kvText(row, curves) {
  const most = text(Math.max(...curves.kv_blocks.most));
  const capacity = curves.kv_capacity === null ? "capacity unlimited" : `capacity ${text(curves.kv_capacity)} blocks`;
  const exact = value(row, "kv_utilization");
  const used = exact === null ? "" : `; exactly, ${percent(exact)} of it is in use on average while the engine works`;
  return `drawn as held when each run of equal iterations starts, so without what decodes take during it: most ${most}; ${capacity}${used}`;
}

// The row's own metrics: the curve has only values that some request had, and p99 lies between two.
function quantileText(row, name) {
  const [middle, tail, longest] = ["p50", "p99", "max"].map((each) => text(value(row, name.replace(/_s$/, `_${each}_s`)), 3));
  return `median ${middle} s, p99 ${tail} s, longest ${longest} s`;
}
