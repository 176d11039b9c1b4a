// Horizontal bars from zero on a linear scale: their lengths compare as their numbers do.
// A row: label, parts [{value, colour, title}], words for its total, and maybe a mark and a heading above it.

function barChart(box, rows, { most, label, mark }) {
  const width = widthOf(box);
  const labels = 24 + Math.max(...rows.map((row) => 6.4 * row.label.length + (row.series ? 30 : row.under ? 14 : 0)), 60);
  const wide = width > 430 && labels < 0.5 * width;
  const left = wide ? labels : 8;
  const right = width - 20 - Math.max(...rows.filter((row) => total(row) > 0).map((row) => 6.8 * row.words.length), 40);
  const longest = most ?? Math.max(...rows.map(total), 1e-12);
  const x = (value) => left + (Math.min(value, longest) / longest) * (right - left);
  const svg = shape("svg", { viewBox: `0 0 ${width} 10`, role: "img", "aria-label": `${label}: ` +
    rows.map((row) => `${[row.heading?.label, row.label].filter(Boolean).join(", ")} ${row.words}`).join("; ") });
  let y = 6;
  for (const row of rows) {
    if (row.heading) y = drawHeading(svg, row.heading, y);
    if (!wide && row.label) {
      svg.append(shape("text", { class: "tick", x: left, y: y + 12 }, row.label));
      y += 17;
    }
    if (wide) svg.append(shape("text", { class: row.heading || row.under ? "tick" : null, x: row.under ? 14 : 2, y: y + 13 }, row.label));
    if (!wide && row.series) svg.append(shape("line", { x1: width - 30, x2: width - 6, y1: y - 8, y2: y - 8, "stroke-width": 3,
      "stroke-dasharray": row.series.dash || null, style: { stroke: ink(row.series) } }));
    if (wide && row.series) svg.append(shape("line", { x1: left - 26, x2: left - 6, y1: y + 9, y2: y + 9, "stroke-width": 3,
      "stroke-dasharray": row.series.dash || null, style: { stroke: ink(row.series) } }));
    svg.append(shape("line", { class: "gridline", x1: left, x2: left, y1: y - 2, y2: y + 20 }));
    let from = left;
    for (const part of row.parts.filter(({ value }) => value > 0)) {
      const length = Math.max(0.8, x(part.value) - left);
      svg.append(shape("rect", { class: "bar-part", "data-part": part.name, x: from, y, width: length, height: 18, rx: 1.5,
        style: { fill: part.colour } }, shape("title", {}, part.title)));
      from += length;
    }
    if (row.mark !== undefined && row.mark !== null)
      svg.append(shape("path", { class: "bar-mark", d: `M${x(row.mark)} ${y - 3}v24`, "stroke-width": 2,
        style: { stroke: "var(--ink)" } }, shape("title", {}, mark(row.mark))));
    svg.append(shape("text", { class: "bar-words", x: Math.max(from, row.mark ? x(row.mark) : 0) + 7, y: y + 13 }, row.words));
    y += wide ? 27 : 26;
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
  svg.setAttribute("height", y);
  box.replaceChildren(svg);
}

const total = (row) => row.parts.reduce((sum, part) => sum + part.value, 0);

function drawHeading(svg, series, y) {
  svg.append(shape("line", { x1: 2, x2: 26, y1: y + 9, y2: y + 9, "stroke-width": 3, "stroke-dasharray": series.dash || null,
    style: { stroke: ink(series) } }), shape("text", { x: 34, y: y + 13, style: { fontWeight: 600 } }, series.title));
  return y + 22;
}
