// Colours, marks and figures in the page's style, light, dark or printed.

const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"];
const GLYPHS = ["●", "■", "◆", "▲", "▼", "✚"];

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;

function isDark() {
  return darkScheme.matches && !printing;
}

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A colour and a shape for each group: of the palette for names, along the scale for numbers.
function groupStyle(by, level) {
  if (!by) return { colour: isDark() ? data.palette[4] : data.palette[0], symbol: 0 };
  const levels = levelsOf(by);
  const place = levels.indexOf(level);
  const symbol = place % SYMBOLS.length;
  if (!isNumeric(by) && levels.length <= data.palette.length) {
    return { colour: data.palette[place], symbol };
  }
  return { colour: alongScale(levels.length > 1 ? place / (levels.length - 1) : 0), symbol };
}

function alongScale(share) {
  const shades = data.scale[isDark() ? "dark" : "light"];
  const at = share * (shades.length - 1);
  const low = Math.min(Math.floor(at), shades.length - 2);
  const part = (shade, i) => parseInt(shade.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) =>
    Math.round(part(shades[low], i) + (at - low) * (part(shades[low + 1], i) - part(shades[low], i))),
  );
  return `rgb(${mixed.join(",")})`;
}

// Plotly reads a few tags in its texts; ours have none.
function plain(given) {
  return String(given).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

const MANY = 6000; // marks beyond which a drawing by the graphics card is smoother

let webgl = null; // whether there is one, once it has been asked for

function hasWebgl() {
  webgl ??= document.createElement("canvas").getContext("webgl")?.getExtension("OES_texture_float") != null;
  return webgl;
}

function scatterType(count) {
  return count > MANY && !printing && hasWebgl() ? "scattergl" : "scatter";
}

function axisStyle(more = {}) {
  return {
    gridcolor: ink("line"),
    linecolor: ink("line"),
    zeroline: false,
    tickfont: { color: ink("quiet"), size: 12 },
    title: { font: { color: ink("ink"), size: 13 } },
    automargin: false,
    fixedrange: true,
    ...more,
  };
}

// Too narrow for labels beside the marks.
function isNarrow(id) {
  return document.getElementById(id).clientWidth < 600;
}

function draw(id, traces, layout) {
  const element = document.getElementById(id);
  return Plotly.react(
    element,
    traces,
    {
      width: element.clientWidth,
      height: element.clientHeight,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, color: ink("ink") },
      showlegend: false,
      dragmode: false,
      hoverlabel: { bgcolor: ink("paper"), bordercolor: ink("quiet"), font: { color: ink("ink") } },
      ...layout,
    },
    { displayModeBar: false, doubleClick: "reset" },
  );
}

// A logarithmic axis where the values span much; they must all be above 0.
function isLog(values, all = values) {
  const known = values.filter((each) => each !== null);
  const least = Math.min(...known);
  return least > 0 && Math.max(...known) > 30 * least && all.every((each) => each === null || each > 0);
}
