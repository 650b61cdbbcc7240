// Which knob decides: shares of the spread, and medians by level, as bars with their numbers.

function bar(share, digits, kind = "") {
  const fill = element("span", { class: `fill ${kind}`, "aria-hidden": "true" });
  fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  return [element("td", { class: "number" }, digits), element("td", { class: "bar", "aria-hidden": "true" }, fill)];
}

function drawShares() {
  const most = Math.max(...data.effects.map((each) => each.share ?? 0));
  const cards = data.shown.map((metric) => {
    const effects = data.effects.filter((each) => each.objective === metric && each.share !== null);
    const rows = effects.map((each) =>
      element("tr", {}, [
        element("th", { scope: "row" }, each.levels ? label(each.knob) : "combinations"),
        ...bar(each.share / most, percent(each.share), each.levels ? "" : "rest"),
      ]),
    );
    return card(brief(metric), rows.length ? rows : [element("tr", {}, element("td", {}, "nothing varies"))]);
  });
  document.getElementById("shares").replaceChildren(...cards);
}

function card(title, rows) {
  return element("table", { class: "card bars" }, [element("caption", {}, title), element("tbody", {}, rows)]);
}

function drawLevels(rows, metric) {
  const known = rows.filter((row) => value(row, metric) !== null);
  const knobs = data.knobs.map((name) => [name, levelGroups(name, known)]);
  // Of medians, for a few settings that fell off a cliff would be all that a mean shows.
  const middle = (group) => median(group.rows.map((row) => value(row, metric)));
  const most = Math.max(...knobs.flatMap(([, groups]) => groups.map((group) => Math.abs(middle(group)))));
  const cards = knobs.map(([name, groups]) =>
    card(
      label(name),
      groups.map((group) => {
        const here = middle(group);
        return element("tr", { title: counted(group.rows.length, "setting") }, [
          element("th", { scope: "row" }, group.name),
          ...bar(most > 0 ? Math.abs(here) / most : 0, text(here, 3)),
        ]);
      }),
    ),
  );
  document.getElementById("levels").replaceChildren(...cards);
  const mixed = data.by && new Set(known.map((row) => value(row, data.by))).size > 1;
  document.getElementById("levels-note").textContent =
    "over the settings that the filters leave" +
    (mixed ? `, of every ${label(data.by)} together: leave one ${label(data.by)} to compare at equal ${label(data.by)}` : "");
}

// Rows by level of a knob; a knob of many numbers is cut into eight classes of as many rows.
function levelGroups(name, rows) {
  const levels = levelsOf(name);
  if (levels.length <= FEW || !isNumeric(name)) {
    return levels
      .map((level) => ({ name: levelText(level), rows: rows.filter((row) => value(row, name) === level) }))
      .filter((group) => group.rows.length);
  }
  const order = rows.filter((row) => value(row, name) !== null).sort((a, b) => value(a, name) - value(b, name));
  const size = Math.max(1, Math.ceil(order.length / 8));
  const groups = [];
  for (let start = 0; start < order.length; start += size) {
    const part = order.slice(start, start + size);
    groups.push({ name: `${text(value(part[0], name))} to ${text(value(part.at(-1), name))}`, rows: part });
  }
  return groups;
}
