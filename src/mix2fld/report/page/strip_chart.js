// A row of dots for each series: the score of each device.
function stripChart(box, rows) {
  const width = widthOf(box);
  const wide = width > 560;
  const left = wide ? 130 : 10;
  const rowHeight = wide ? 40 : 52;
  const height = rows.length * rowHeight + 54;
  const values = rows.flatMap((row) => row.dots.map(({ value }) => value));
  if (!values.length) return box.replaceChildren(element("p", { class: "empty" }, "No round with this seed."));
  const spread = Math.max(...values) - Math.min(...values);
  const room = 0.05 * spread + (isShare() ? 0.005 : 0.005 * (Math.abs(values[0]) || 1));
  const [least, most] = isShare() ? [0, 1] : [-Infinity, Infinity];
  const low = Math.max(least, Math.min(...values) - room);
  const high = Math.min(most, Math.max(...values) + room);
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - 30);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label":
    rows.map(({ series, dots }) => ({ series, own: dots.map(({ value }) => value) })).map(({ series, own }) =>
      `${series.label}: devices from ${scored(Math.min(...own))} to ${scored(Math.max(...own))}`).join("; ") });
  for (const value of ticks(low, high, wide ? 8 : 4)) {
    svg.append(shape("line", { class: "gridline", x1: x(value), x2: x(value), y1: 4, y2: height - 46 }));
    svg.append(shape("text", { class: "tick", x: x(value), y: height - 28, "text-anchor": "middle" }, scored(value)));
  }
  rows.forEach((row, number) => {
    const y = number * rowHeight + rowHeight / 2 + (wide ? 0 : 8);
    const name = wide ? { x: left - 12, y: y + 4, "text-anchor": "end" } : { x: left, y: y - 14 };
    svg.append(shape("text", name, row.series.title));
    const mean = row.dots.reduce((sum, { value }) => sum + value, 0) / row.dots.length;
    row.dots.forEach(({ value, device }) => {
      const dot = shape("circle", { class: "device", cx: x(value), cy: y, r: 6, "fill-opacity": 0.55,
        style: { fill: ink(row.series), stroke: "var(--card)" } },
      shape("title", {}, `device ${device}: ${scored(value)}`));
      svg.append(dot);
    });
    svg.append(shape("line", { x1: x(mean), x2: x(mean), y1: y - 13, y2: y + 13, "stroke-width": 3,
      style: { stroke: ink(row.series) } }, shape("title", {}, `mean: ${scored(mean)}`)));
  });
  svg.append(shape("text", { class: "axis", x: (left + width) / 2, y: height - 2, "text-anchor": "middle" }, metric().name));
  return box.replaceChildren(svg);
}
