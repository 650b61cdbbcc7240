// The frontier: every setting, light, and each group's frontier as a stepped line.

const BEYOND = 0.4; // how far the view goes beyond the frontier's ends, as a share of their distance
const LABEL = { width: 100, height: 16 }; // room for a group's name, in pixels

// The frontier of what is shown, group by group.
function frontsOf(rows, state) {
  return grouped(rows, state.by)
    .map((group) => ({ ...group, front: frontOf(group.rows, state.objectives) }))
    .filter((group) => group.rows.length);
}

function drawFrontier(groups, state) {
  const points = groups.flatMap((group) => drawable(group.rows, state));
  const front = groups.flatMap((group) => group.front);
  const styled = groups.map((group) => ({ ...group, ...groupStyle(state.by, group.level) }));
  const axes = {
    x: frontierAxis(state.x, points, front, state.whole),
    y: frontierAxis(state.y, points, front, state.whole),
  };
  const plot = document.getElementById("frontier-plot");
  const size = { width: plot.clientWidth, height: plot.clientHeight };
  const narrow = isNarrow("frontier-plot");
  const margin = { l: narrow ? 48 : 64, r: narrow ? 16 : 100, t: 36, b: 52 };
  const traces = [
    ...styled.map((group) => cloud(group, points.length, state)),
    ...styled.flatMap((group) => staircase(group, state)),
    rings(front, state),
  ];
  draw("frontier-plot", traces, {
    margin,
    xaxis: { ...axes.x, title: { text: axisTitle(state.x, narrow), font: { color: ink("ink"), size: 13 }, standoff: 8 } },
    yaxis: axes.y,
    dragmode: narrow ? false : "zoom",
    hovermode: "closest",
    annotations: [
      verticalTitle(state.y, narrow, margin),
      ...(narrow || !state.by ? [] : groupLabels(styled, state, axes, size, margin)),
    ],
  });
  legend(styled, state);
}

function drawable(rows, state) {
  return rows.filter((row) => value(row, state.x) !== null && value(row, state.y) !== null);
}

function marker(rows, style, size, more = {}) {
  const shape = SYMBOLS[style.symbol];
  return {
    symbol: rows.map((row) => (markOf(row) === "poor" ? `${shape}-open` : shape)),
    color: style.colour,
    size,
    ...more,
  };
}

function cloud(group, count, state) {
  const rows = drawable(group.rows, state);
  // Of equal settings the frontier lists the first, so it is the one to point at and to choose.
  const place = (row) => `${value(row, state.x)} ${value(row, state.y)}`;
  const listed = new Map(group.front.map((row) => [place(row), row]));
  const told = rows.map((row) => listed.get(place(row)) ?? row);
  return {
    type: scatterType(count),
    mode: "markers",
    name: "settings",
    customdata: told,
    x: rows.map((row) => value(row, state.x)),
    y: rows.map((row) => value(row, state.y)),
    text: told.map((row) => hoverText(row, state)),
    hovertemplate: "%{text}<extra></extra>",
    // The graphics card draws hollow marks by their line alone: without one they are not there.
    marker: marker(rows, group, 6, { opacity: 0.38, line: { color: group.colour, width: 1 } }),
  };
}

function staircase(group, state) {
  const rows = [...group.front].sort((a, b) => value(a, state.x) - value(b, state.x));
  const heights = rows.map((row) => value(row, state.y));
  const steps = heights.slice(1).map((height, i) => height - heights[i]);
  const monotone = steps.every((step) => step >= 0) || steps.every((step) => step <= 0);
  const base = {
    type: "scatter",
    zorder: 1,
    x: rows.map((row) => value(row, state.x)),
    y: heights,
    customdata: rows,
    text: rows.map((row) => hoverText(row, state)),
    hovertemplate: "%{text}<extra></extra>",
  };
  // Seen along two of more objectives, or filtered to nothing, it is no staircase.
  const line = {
    ...base,
    name: "line",
    mode: "lines",
    hoverinfo: "skip",
    hovertemplate: null,
    line: { color: group.colour, width: 2, shape: data.better[state.x] > 0 ? "vh" : "hv" },
  };
  const backs = { ...base, name: "backs", mode: "markers", hoverinfo: "skip", hovertemplate: null,
    marker: { symbol: SYMBOLS[group.symbol], color: ink("paper"), size: 12 } };
  const marks = { ...base, name: "frontier", mode: "markers",
    marker: marker(rows, group, 10, { line: { color: group.colour, width: 1.5 } }) };
  return [...(monotone ? [line] : []), backs, marks];
}

// A thin ring around each knee, a thick one around the chosen setting; the last trace of all.
function rings(front, state) {
  const knees = drawable(data.knees.filter((row) => front.includes(row)), state);
  const rows = [...knees, ...drawable([state.selected], state)];
  const each = (thin, thick) => rows.map((_, place) => (place < knees.length ? thin : thick));
  return {
    type: "scatter",
    zorder: 2,
    name: "rings",
    mode: "markers",
    hoverinfo: "skip",
    x: rows.map((row) => value(row, state.x)),
    y: rows.map((row) => value(row, state.y)),
    marker: {
      symbol: "circle-open",
      opacity: 1,
      size: each(17, 21),
      color: each(ink("quiet"), ink("ink")),
      line: { width: each(1, 2.5) },
    },
  };
}

function moveRings(front, state) {
  const { x, y, marker } = rings(front, state);
  const last = document.getElementById("frontier-plot").data.length - 1;
  const changes = { x: [x], y: [y], "marker.size": [marker.size], "marker.color": [marker.color], "marker.line.width": [marker.line.width] };
  return Plotly.restyle("frontier-plot", changes, [last]);
}

function hoverText(row, state) {
  const names = [...new Set([state.x, state.y, ...data.shown])];
  const metrics = names.map((name) => `${plain(label(name))}: <b>${plain(text(value(row, name)))}</b>`);
  const knobs = data.knobs.map((name) => `${plain(label(name))}: ${plain(levelText(value(row, name)))}`);
  const poor = markOf(row) === "poor" ? [`<i>SLOs met by fewer than ${percent(data.poor)}</i>`] : [];
  return [`<b>point ${text(value(row, "point"))}</b>`, ...metrics, ...poor, "", ...knobs].join("<br>");
}

// An axis from the frontier's one end to the other and some way beyond, or over the whole range.
function frontierAxis(name, rows, front, whole) {
  const more = data.better[name] > 0;
  const all = rows.map((row) => value(row, name));
  // A logarithm shows small values at length: where they are the good ones, or where the frontier
  // itself has them.
  const log = all.length > 0 && isLog(more ? front.map((row) => value(row, name)) : all, all);
  const scale = (given) => (log ? Math.log10(given) : given);
  const extent = (values) => [Math.min(...values.map(scale)), Math.max(...values.map(scale))];
  let [low, high] = extent(all);
  if (!whole && front.length > 1) {
    const [from, to] = extent(front.map((row) => value(row, name)));
    [low, high] = [Math.max(low, from - BEYOND * (to - from)), Math.min(high, to + BEYOND * (to - from))];
  }
  const pad = (high - low || Math.abs(high) || 1) * 0.05;
  return axisStyle({
    type: log ? "log" : "linear",
    range: all.length ? [low - pad, high + pad] : [0, 1],
    fixedrange: false,
    tickformat: log ? ",~r" : undefined,
    dtick: log ? (high - low > 2.6 ? 1 : "D2") : undefined,
  });
}

function axisTitle(name, narrow) {
  return plain(`${narrow ? brief(name) : label(name)}, ${data.better[name] > 0 ? "more" : "less"} is better`);
}

// Above its axis and level, where it can be read.
function verticalTitle(name, narrow, margin) {
  return {
    text: axisTitle(name, narrow), font: { color: ink("ink"), size: 13 }, showarrow: false,
    xref: "paper", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "bottom", xshift: -margin.l + 4, yshift: 10,
  };
}

function outside(rows, state) {
  const { xaxis, yaxis } = document.getElementById("frontier-plot").layout;
  const inside = (axis, given) => {
    const at = axis.type === "log" ? Math.log10(given) : given;
    return at >= axis.range[0] && at <= axis.range[1];
  };
  return drawable(rows, state).filter((row) => !inside(xaxis, value(row, state.x)) || !inside(yaxis, value(row, state.y))).length;
}

// Each frontier's name at its right end; one that would cover another moves down.
function groupLabels(groups, state, axes, size, margin) {
  const place = (axis, given, length) => {
    const at = axis.type === "log" ? Math.log10(given) : given;
    return ((at - axis.range[0]) / (axis.range[1] - axis.range[0])) * length;
  };
  const spots = groups
    .filter((group) => group.front.length)
    .map((group) => {
      const end = group.front.reduce((a, b) => (value(b, state.x) > value(a, state.x) ? b : a));
      const x = place(axes.x, value(end, state.x), size.width - margin.l - margin.r);
      const y = place(axes.y, value(end, state.y), size.height - margin.t - margin.b);
      return { group, end, x, y };
    })
    .sort((a, b) => b.y - a.y);
  const placed = [];
  return spots.map(({ group, end, x, y }) => {
    const near = placed.filter((spot) => Math.abs(spot.x - x) < LABEL.width).map((spot) => spot.y);
    const at = Math.min(y, ...near.map((other) => other - LABEL.height));
    placed.push({ x, y: at });
    const value_ = (axis, name) =>
      axis.type === "log" ? Math.log10(value(end, name)) : value(end, name);
    return {
      x: value_(axes.x, state.x),
      y: value_(axes.y, state.y),
      text: `<b>${plain(groupName(state.by, group.level))}</b>`,
      font: { color: ink("ink"), size: 13 },
      bgcolor: ink("halo"),
      showarrow: false,
      xanchor: "left",
      xshift: 11,
      yshift: at - y,
    };
  });
}

function groupName(by, level) {
  return isNumeric(by) ? `${label(by)} ${levelText(level)}` : levelText(level);
}

function legend(groups, state) {
  const items = state.by
    ? groups.map((group) => {
        const glyph = element("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[group.symbol]);
        glyph.style.color = group.colour;
        return element("li", {}, [glyph, ` ${groupName(state.by, group.level)}`]);
      })
    : [];
  const hollow = groups.some((group) => group.rows.some((row) => markOf(row) === "poor"));
  if (hollow) items.push(element("li", {}, `hollow: SLOs met by fewer than ${percent(data.poor)} of requests`));
  document.getElementById("legend").replaceChildren(...items);
}
