// Parallel coordinates: one line a setting, across its knobs and objectives.

const MOST_AXES = 9;

function parallelAxes(groups, state) {
  const knobs = data.knobs.slice(0, MOST_AXES - state.objectives.length);
  return [...knobs, ...state.objectives].map((name) => parallelAxis(name, groups));
}

function drawParallel(groups, state) {
  const narrow = isNarrow("parallel-plot");
  const axes = parallelAxes(groups, state);
  const every = groups.flatMap((group) => group.rows);
  const front = groups.map((group) => ({ rows: group.front, ...groupStyle(state.by, group.level) }));
  const traces = [
    lines(every, axes, narrow, { color: ink("faint"), width: 1 }, every.length * axes.length),
    ...front.map((group) => lines(group.rows, axes, narrow, { color: group.colour, width: 1.6 }, 0)),
  ];
  const positions = axes.map((_, place) => place);
  const across = axisStyle({
    range: [-0.35, axes.length - 0.4],
    tickvals: [],
    showgrid: false,
    showline: false,
  });
  const along = axisStyle({ range: [-0.04, 1.04], tickvals: [], showgrid: false, showline: false });
  draw("parallel-plot", traces, {
    margin: narrow ? { l: 8, r: 8, t: 8, b: 8 } : { l: 8, r: 8, t: 52, b: 12 },
    xaxis: narrow ? along : across,
    yaxis: narrow ? { ...across, range: [axes.length - 0.4, -0.5] } : along,
    hovermode: false,
    shapes: parallelShapes(axes, narrow, state),
    annotations: positions.flatMap((at) => axisTexts(axes[at], at, narrow)),
  });
}

// The axes and the chosen setting's line: as shapes, which are cheap to draw anew.
function parallelShapes(axes, narrow, state) {
  const corners = axes.map((axis, at) => {
    const along = axis.place(value(state.selected, axis.name));
    return along === null ? null : narrow ? `${along},${at}` : `${at},${along}`;
  });
  return [
    ...axes.map((_, at) => ({
      type: "line",
      ...(narrow ? { x0: 0, x1: 1, y0: at, y1: at } : { x0: at, x1: at, y0: 0, y1: 1 }),
      line: { color: ink("quiet"), width: 1 },
    })),
    { type: "path", path: `M${corners.filter((each) => each !== null).join("L")}`, line: { color: ink("ink"), width: 3.5 } },
  ];
}

// Where each value is on an axis, 0 to 1, and the ticks.
function parallelAxis(name, groups) {
  const rows = groups.flatMap((group) => group.rows);
  const levels = levelsOf(name).filter((level) => level !== null);
  const isKnob = data.knobs.includes(name);
  if (isKnob && levels.length <= FEW) {
    const all = levelsOf(name);
    const place = new Map(all.map((level, i) => [level, all.length > 1 ? i / (all.length - 1) : 0.5]));
    return { name, place: (given) => place.get(given), ticks: all.map((level) => [level, place.get(level)]) };
  }
  const known = rows.map((row) => value(row, name)).filter((given) => given !== null);
  const more = data.better[name] > 0;
  const front = groups.flatMap((group) => group.front).map((row) => value(row, name));
  // As in the frontier's figure: no long stretch of a logarithm for what is far from good.
  const log = known.length > 0 && isLog(more && front.length ? front : known, known);
  const scale = (given) => (log ? Math.log10(given) : given);
  const low = Math.min(...known.map(scale)), high = Math.max(...known.map(scale));
  const flip = data.better[name] < 0; // so that better is always up
  const place = (given) => {
    if (given === null) return null;
    const share = high > low ? (scale(given) - low) / (high - low) : 0.5;
    return flip ? 1 - share : share;
  };
  const back = (share) => (log ? 10 ** (low + share * (high - low)) : low + share * (high - low));
  const ticks = known.length ? [0, 0.25, 0.5, 0.75, 1].map((share) => [back(share), flip ? 1 - share : share]) : [];
  return { name, place, ticks, flip };
}

function lines(rows, axes, narrow, style, count) {
  const at = [], along = [];
  for (const row of rows) {
    axes.forEach((axis, place) => {
      at.push(place);
      along.push(axis.place(value(row, axis.name)));
    });
    at.push(null);
    along.push(null);
  }
  return {
    type: scatterType(count / 4),
    mode: "lines",
    x: narrow ? along : at,
    y: narrow ? at : along,
    line: style,
    hoverinfo: "skip",
  };
}

function axisTexts(axis, at, narrow) {
  const halo = { bgcolor: ink("halo"), borderpad: 1, showarrow: false };
  const title = plain(brief(axis.name)).replace(/ \(/, "<br>(");
  const name = {
    ...halo,
    bgcolor: "rgba(0,0,0,0)",
    text: `<b>${narrow ? title.replace("<br>", " ") : wrapped(title)}</b>`,
    font: { size: printing ? 9 : 12, color: ink("ink") },
    ...(narrow
      ? { x: 0, xanchor: "left", y: at, yshift: 15, xshift: -2 }
      : { x: at, y: 1, yanchor: "bottom", yshift: 8 }),
  };
  // Level, texts need room beside each other: every other one, if they are many letters in all.
  const letters = axis.ticks.reduce((sum, [level]) => sum + (level === null ? 4 : text(level, 3).length), 0);
  const shown = narrow && letters > 24 ? axis.ticks.filter((_, i) => i % 2 === 0) : axis.ticks;
  const ticks = shown.map(([level, share]) => ({
    ...halo,
    text: plain(level === null ? "none" : text(level, 3)),
    font: { size: 11, color: ink("quiet") },
    ...(narrow
      ? { x: share, y: at, yshift: -12, xanchor: share < 0.1 ? "left" : share > 0.9 ? "right" : "center" }
      : { x: at, y: share, xanchor: "left", xshift: 3 }),
  }));
  return [name, ...ticks];
}

// A long name on two lines, broken near its middle.
function wrapped(name) {
  if (name.includes("<br>") || name.length < 13) return name;
  const words = name.split(" ");
  const half = Math.ceil(words.length / 2);
  return `${words.slice(0, half).join(" ")}<br>${words.slice(half).join(" ")}`;
}
