// The table of settings: sortable, and every row can be chosen with the keyboard.

const PAGE = 100; // rows at first, and more with each press of the button

const sorting = { column: null, down: true, rows: "front", limit: PAGE };

function tableColumns(state) {
  const metrics = [...new Set([...state.objectives, ...data.shown])];
  const surety = Object.keys(data.surety).length ? ["surety"] : [];
  const knobs = data.knobs.filter((name) => name !== state.by);
  return [...(state.by ? [state.by] : []), ...metrics, ...surety, ...knobs];
}

function cell(row, name) {
  return name === "surety" ? (data.surety[row] ?? null) : value(row, name);
}

function drawTable(groups, state) {
  const front = new Set(groups.flatMap((group) => group.front));
  const rows = sorting.rows === "front" ? [...front] : groups.flatMap((group) => group.rows);
  const columns = tableColumns(state);
  if (columns.includes(sorting.column)) rows.sort(comparison);
  const shown = rows.slice(0, sorting.limit);
  const table = document.getElementById("settings-table");
  const focused = table.contains(document.activeElement) ? document.activeElement.id : null;
  table.replaceChildren(
    element("caption", {}, element("span", {}, caption(shown, rows, front, state))),
    element("thead", {}, element("tr", {}, [head("point", state), ...columns.map((name) => head(name, state))])),
    element("tbody", {}, shown.map((row) => tableRow(row, columns, front, state))),
  );
  if (focused) document.getElementById(focused)?.focus();
  const more = document.getElementById("more");
  more.hidden = shown.length === rows.length;
  more.textContent = `Show ${text(Math.min(PAGE, rows.length - shown.length))} more`;
}

function caption(shown, rows, front, state) {
  const many = shown.length < rows.length ? `${text(shown.length)} of ${counted(rows.length, "setting")}` : counted(rows.length, "setting");
  const which = sorting.rows === "front" ? "on the frontier" : `after filters; ${text(front.size)} on the frontier are marked`;
  return `${many} ${which}. ○ SLOs met by fewer than ${percent(data.poor)} of requests. Press a point's number to look at it.`;
}

function comparison(a, b) {
  const [one, other] = [cell(a, sorting.column), cell(b, sorting.column)];
  if (one === other) return 0;
  if (one === null || other === null) return one === null ? 1 : -1;
  return (one < other ? -1 : 1) * (sorting.down ? -1 : 1);
}

function head(name, state) {
  const isNumber = name === "point" || name === "surety" || isNumeric(name);
  const kind = isNumber ? "number" : null;
  if (name === "point") return element("th", { scope: "col", class: kind }, "point");
  const sorted = sorting.column === name ? (sorting.down ? "descending" : "ascending") : "none";
  const arrow = element("span", { "aria-hidden": "true" }, { none: "↕", descending: "↓", ascending: "↑" }[sorted]);
  const title = name === "surety" ? "chance to be on it" : brief(name);
  const button = element("button", { type: "button", id: `sort-${name}`, class: "sort" }, [`${title} `, arrow]);
  button.addEventListener("click", () => {
    sorting.down = sorting.column === name ? !sorting.down : data.better[name] > 0 || name === "surety";
    sorting.column = name;
    drawTable(current, state);
  });
  return element("th", { scope: "col", class: kind, "aria-sort": sorted }, button);
}

function tableRow(row, columns, front, state) {
  const point = text(value(row, "point"));
  const button = element("button", { type: "button", id: `point-${row}`, class: "choose", "aria-pressed": String(row === state.selected), "aria-label": `Look at point ${point}` }, point);
  const poor = markOf(row) === "poor";
  const cells = columns.map((name) => {
    const here = cell(row, name);
    const isShare = name === "surety" || name.startsWith("slo_attainment");
    const shown = isShare && here !== null ? percent(here) : data.knobs.includes(name) ? levelText(here) : text(here);
    const mark = name === "slo_attainment" && poor ? "○ " : "";
    return element("td", { class: name === "surety" || isNumeric(name) ? "number" : null }, `${mark}${shown}`);
  });
  const classes = [row === state.selected ? "selected" : "", front.has(row) && sorting.rows === "all" ? "on-front" : ""];
  const line = element("tr", { class: classes.join(" ").trim() || null }, [element("td", { class: "number" }, button), ...cells]);
  line.addEventListener("click", () => select(row));
  return line;
}
