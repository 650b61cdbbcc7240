// Filters: which settings are looked at.

const FEW = 12; // a knob with more levels than this is filtered by a range

// By knob: a set of the levels that stay, or {low, high}.
const filters = {};

function passes(row) {
  return data.knobs.every((name) => {
    const filter = filters[name];
    const here = value(row, name);
    if (filter instanceof Set) return filter.has(here);
    return here === null || (here >= filter.low && here <= filter.high);
  });
}

function shownRows() {
  return everyRow.filter(passes);
}

function buildFilters(form, changed) {
  const fields = data.knobs.map((name) => {
    const levels = levelsOf(name);
    const few = levels.length <= FEW || !isNumeric(name);
    const field = element("fieldset", { id: `filter-${name}` }, [element("legend", {}, label(name))]);
    field.append(...(few ? checkboxes(name, levels, changed) : range(name, levels, changed)));
    return field;
  });
  const reset = element("button", { type: "button", id: "reset" }, "Show all settings");
  reset.addEventListener("click", () => {
    buildFilters(form, changed);
    changed();
    document.getElementById("reset").focus();
  });
  form.replaceChildren(reset, ...fields);
}

function checkboxes(name, levels, changed) {
  filters[name] = new Set(levels);
  return levels.map((level) => {
    const box = element("input", { type: "checkbox", checked: true });
    box.addEventListener("change", () => {
      filters[name][box.checked ? "add" : "delete"](level);
      changed();
    });
    return element("label", { class: "level" }, [box, ` ${levelText(level)}`]);
  });
}

function range(name, levels, changed) {
  const known = levels.filter((level) => level !== null);
  const ends = { low: known[0], high: known.at(-1) };
  filters[name] = { ...ends };
  return ["low", "high"].map((end) => {
    const box = element("input", { type: "number", step: "any", value: ends[end] });
    box.addEventListener("change", () => {
      filters[name][end] = box.value === "" ? ends[end] : Number(box.value);
      changed();
    });
    return element("label", { class: "range" }, [end === "low" ? "from " : "to ", box]);
  });
}

// An element with attributes and children, texts among them; never parsed as HTML.
function element(tag, attributes = {}, children = []) {
  const made = document.createElement(tag);
  for (const [name, given] of Object.entries(attributes)) {
    if (given === true) made.setAttribute(name, "");
    else if (given !== false && given !== null) made.setAttribute(name, given);
  }
  made.append(...[children].flat());
  return made;
}
