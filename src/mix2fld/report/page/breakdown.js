// Charts of bars, as data.charts describes them: how the time of a run is spent, and what each transfer carries.

function drawTime() {
  choose("share", [["seconds", "seconds"], ["share", "share of total"]], chosen.share, (value) => { remember({ share: value }); drawTime(); });
  const parts = Object.entries(data.charts.time.parts);
  $("time-key").replaceChildren(...parts.map(([part, { name }]) => element("span", {}, partMark(part), name)));
  drawBars("time", seconds, chosen.share === "share");
  exportable("time-chart", "Time breakdown", () => [["protocol", ...parts.map(([part]) => part)],
    ...seriesHere().map(({ label, seconds: spent }) => [label, ...parts.map(([part]) => spent[part])])]);
}

function drawPayload() {
  const list = seriesHere();
  $("payload").hidden = !list.some((series) => series.bars.payload.length);
  drawBars("payload", bits);
  exportable("payload-chart", "Payload size", () => [["protocol", "transfer", "bits"],
    ...list.flatMap((series) => series.bars.payload.map(({ label, parts }) => [series.label, label, parts.bits]))]);
}

function drawBars(name, words, share = false) {
  const { title, parts } = data.charts[name];
  const rows = seriesHere().flatMap((series) => series.bars[name].map((row, number) => {
    const sum = Object.values(row.parts).reduce((all, value) => all + value, 0);
    const drawn = Object.entries(row.parts).map(([part, value]) => ({ name: part, value: share ? value / (sum || 1) : value,
      colour: parts[part] ? both(parts[part]) : ink(series),
      title: parts[part] ? `${parts[part].name}: ${words(value)} (${percent(value / (sum || 1))})` : `${series.title}, ${row.label}: ${words(value)}` }));
    const place = row.label ? { label: row.label, under: true, heading: number ? null : series } : { label: series.title, series };
    return { ...place, words: words(sum), parts: drawn };
  }));
  barChart($(`${name}-chart`), rows, { label: title, most: share ? 1 : undefined });
}

function partMark(part) {
  return shape("svg", { width: 12, height: 12, "aria-hidden": "true" }, shape("rect", { width: 12, height: 12, rx: 3, style: { fill: both(data.charts.time.parts[part]) } }));
}
