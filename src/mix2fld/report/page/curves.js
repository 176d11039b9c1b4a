// Learning curves: one chart, or with several settings a panel for each; a colour is a protocol.

const AXIS_NAMES = { seconds: "seconds", air: "seconds on air", rounds: "rounds", bits: "uplink traffic" };
const UNITS = { seconds: (x) => seconds(x), air: (x) => `${seconds(x)} on air`, rounds: (x) => `round ${short(x)}`, bits: (x) => `${bits(1e6 * x)} uplink` };
const MEASURE_NAMES = { devices: "devices", reference: "reference device", server: "server model" };

function drawCurves() {
  const again = (key) => (value) => { remember({ [key]: value }); drawCurves(); };
  choose("axis", Object.keys(data.axes).map((key) => [key, AXIS_NAMES[key]]), chosen.axis, again("axis"));
  const measured = Object.keys(data.measures).filter((key) => view().series.some((s) => s.curves[key].length));
  choose("measure", measured.map((key) => [key, MEASURE_NAMES[key]]), chosen.measure, again("measure"));
  choose("yscale", [["zoomed", "zoomed"], ["whole", isShare() ? "0 to 100 %" : "from 0"]], chosen.yscale, again("yscale"));
  const auto = chosen.axis === "bits" ? "log" : "linear";
  choose("xscale", [["linear", "linear"], ["log", "logarithmic"]], chosen.xscale === "auto" ? auto : chosen.xscale, again("xscale"));
  drawSwitches();
  const hidden = hiddenSet();
  const shown = view().series.filter((series) => !hidden.has(series.title));
  const lines = shown.map((series) => lineOf(series, chosen.measure, chosen.axis)).filter(Boolean)
    .map((line) => ({ ...line, label: line.title }));
  const options = { xTitle: data.axes[chosen.axis], yTitle: data.measures[chosen.measure], yFormat: scored, together: lines,
    zoomed: chosen.yscale === "zoomed", log: (chosen.xscale === "auto" ? auto : chosen.xscale) === "log",
    where: (line, i) => (chosen.axis === "rounds" ? "" : `round ${line.rounds[i]}, ${UNITS[chosen.axis](line.x[i])}`),
    xWords: UNITS[chosen.axis],
    empty: shown.length ? "This is not measured for the selected protocols." : "No protocol selected." };
  drawPanels($("curve-chart"), lines, options);
  exportable("curve-chart", "Learning curves", () => [["protocol", "setting", "round", data.axes[chosen.axis], "mean", "lowest", "highest", "seeds"],
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
