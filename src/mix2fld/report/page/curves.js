// Learning curves: one chart, or with several settings a panel for each; a colour is a protocol.

const UNITS = { seconds: (x) => seconds(x), air: (x) => `${seconds(x)} on air`, rounds: (x) => `round ${short(x)}`, bits: (x) => `${bits(1e6 * x)} uplink` };

function drawCurves() {
  const again = (key) => (value) => { remember({ [key]: value }); drawCurves(); };
  const { axes, measures } = data.charts.curves;
  const named = (kinds, keys) => keys.map((key) => [key, kinds[key].name]);
  choose("axis", named(axes, Object.keys(axes)), chosen.axis, again("axis"));
  const measured = Object.keys(measures).filter((key) => view().series.some((s) => s.curves[key].length));
  choose("measure", named(measures, measured), chosen.measure, again("measure"));
  choose("yscale", [["zoomed", "zoomed"], ["whole", isShare() ? "0 to 100 %" : "from 0"]], chosen.yscale, again("yscale"));
  const auto = axes[chosen.axis].log ? "log" : "linear";
  choose("xscale", [["linear", "linear"], ["log", "logarithmic"]], chosen.xscale === "auto" ? auto : chosen.xscale, again("xscale"));
  drawSwitches();
  const hidden = hiddenSet();
  const shown = view().series.filter((series) => !hidden.has(series.title));
  const lines = shown.map((series) => lineOf(series, chosen.measure, chosen.axis)).filter(Boolean)
    .map((line) => ({ ...line, label: line.title }));
  const options = { xTitle: axes[chosen.axis].title, yTitle: measures[chosen.measure].title, yFormat: scored, together: lines,
    zoomed: chosen.yscale === "zoomed", log: (chosen.xscale === "auto" ? auto : chosen.xscale) === "log",
    where: (line, i) => (chosen.axis === "rounds" ? "" : `round ${line.rounds[i]}, ${UNITS[chosen.axis](line.x[i])}`),
    xWords: UNITS[chosen.axis],
    empty: shown.length ? "This is not measured for the selected protocols." : "No protocol selected." };
  drawPanels($("curve-chart"), lines, options);
  exportable("curve-chart", "Learning curves", () => [["protocol", "setting", "round", axes[chosen.axis].title, "mean", "lowest", "highest", "seeds"],
    ...lines.flatMap((line) => measuredPlaces(line).map((i) => [line.title, line.settings.map((n) => data.settings[n].label).join("; "),
      line.rounds[i], line.x[i], line.mean[i], line.low[i], line.high[i], line.seeds?.[i] ?? 1]))]);
}

function drawPanels(box, lines, options) {
  const facets = several() && lines.length > 0;
  box.classList.toggle("facets", facets);
  if (!facets) return lineChart(box, lines, options);
  const panels = data.settings.map(() => element("div", { class: "chart" }));
  box.replaceChildren(...data.settings.map((one, number) => element("div", { class: "facet" }, element("h3", {}, one.label), panels[number])));
  panels.forEach((panel, number) => lineChart(panel, lines.filter((line) => line.settings.includes(number)), { ...options, height: 280 }));
  return undefined;
}

function drawSwitches() {
  const box = $("switches");
  const distinct = [...new Map(view().series.map((one) => [one.title, one])).values()];
  const hidden = hiddenSet();
  const signature = JSON.stringify(distinct.map((one) => one.title));
  if (box.dataset.options !== signature) {
    box.dataset.options = signature;
    for (const old of box.querySelectorAll("label")) old.remove();
    for (const series of distinct)
      box.append(element("label", {}, element("input", { type: "checkbox", value: series.title }), swatch(series), series.title));
  }
  for (const input of box.querySelectorAll("input")) {
    input.checked = !hidden.has(input.value);
    input.onchange = () => {
      const now = hiddenSet();
      if (input.checked) now.delete(input.value);
      else now.add(input.value);
      remember({ hidden: [...now].join("|") });
      drawCurves();
    };
  }
}
