// Several settings at once: protocols against settings, and a line for each protocol where one number is varied.

const GRID = {
  score: ["accuracy", (r) => r.score, (value) => scored(value), 1],
  delivered: ["uploads delivered", share, percent, 1],
  bits_up: ["uplink traffic", (r) => r.bits_up || null, bits, -1],
  seconds: ["total time", (r) => r.communication + r.computing, seconds, -1],
};

function drawGrid() {
  $("grid").hidden = !several();
  if (!several()) return;
  choose("grid-measure", Object.entries(GRID).map(([key, [words]]) => [key, named(words)]), chosen.grid, (value) => { remember({ grid: value }); drawGrid(); });
  const [plain, value, format] = GRID[chosen.grid];
  const words = named(plain);
  const better = chosen.grid === "score" ? gain(1) : GRID[chosen.grid][3];
  const protocols = [...new Map(view().series.map((one) => [one.protocol, one]))];
  const cellOf = (protocol, number) => seriesIn(number).find((one) => one.protocol === protocol) ?? null;
  const best = data.settings.map((_, number) => {
    const known = ranked(seriesIn(number)).map((one) => value(one.summary)).filter((one) => one !== null);
    return known.length ? Math.max(...known.map((one) => better * one)) : null;
  });
  const table = element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, words),
    ...data.settings.map((one) => element("th", { scope: "col" }, one.label)))),
  element("tbody", {}, ...protocols.map(([protocol, one]) => element("tr", {}, element("th", { scope: "row" }, swatch(one), one.title,
    one.settings.length === data.settings.length ? element("small", {}, "same in every setting") : null),
  ...data.settings.map((_, number) => gridCell(cellOf(protocol, number), number, value, format, better, best[number]))))));
  $("grid-scroll").replaceChildren(table);
  markOverflow($("grid-scroll"));
  exportable("grid-scroll", `${words} by setting`, () => [["protocol", ...data.settings.map((one) => one.label)],
    ...protocols.map(([protocol, one]) => [one.title, ...data.settings.map((_, number) => {
      const found = cellOf(protocol, number);
      return found ? value(found.summary) : null;
    })])]);
  drawOverSetting(protocols, cellOf, words, value, format);
}

function gridCell(series, number, value, format, better, best) {
  const found = series && value(series.summary);
  if (found === null) return element("td", {}, "–");
  const base = chosen.grid === "score" ? baselineIn(number) : null;
  const difference = base && base !== series ? against(series, base) : null;
  return element("td", {}, element("span", { class: series.ranked && better * found === best ? "best" : null }, format(found) + (series.ranked ? "" : " *")),
    difference ? element("small", {}, `${points(difference.mean)} ${pointsUnit()}`.trim()) : null);
}

// With one number varied, it is an axis.
function drawOverSetting(protocols, cellOf, words, value, format) {
  const names = Object.keys(data.settings[0].differs);
  const only = names.length === 1 && new Set(data.settings.map((one) => one.differs[names[0]])).size === data.settings.length;
  const box = $("grid-chart");
  box.hidden = !only;
  if (!only) return;
  const lines = protocols.map(([protocol, one]) => {
    const found = data.settings.map((s, number) => ({ x: s.differs[names[0]], one: cellOf(protocol, number) }))
      .filter((p) => p.one && value(p.one.summary) !== null);
    const mean = found.map((p) => value(p.one.summary));
    return { ...one, label: one.title, x: found.map((p) => p.x), mean, low: mean, high: mean, seeds: null, converged: [] };
  }).filter((line) => line.x.length);
  const near = Math.min(...lines.flatMap((line) => line.x));
  const range = (values) => (chosen.grid === "score" ? scoreRange(values, true) : chosen.grid === "delivered" ? [0, 1] : [0, Math.max(...values) * 1.05 || 1]);
  const title = names[0].replaceAll("_", " ").replace(/ dbm$/, " in dBm").replace(/ hz$/, " in Hz").replace(/ ms$/, " in ms");
  lineChart(box, lines, { xTitle: title, yTitle: words, yFormat: format, near, range, empty: "Nothing to compare.",
    where: (line, i) => `at ${short(line.x[i])}`, xWords: (x) => `${title} ${short(x)}` });
  exportable("grid-chart", `${words} over ${title}`, () => [["protocol", title, words],
    ...lines.flatMap((line) => line.x.map((x, i) => [line.label, x, line.mean[i]]))]);
}
