// Lines with bands over seeds, drawn for the available width, so that text stays readable on a phone.

const NAME_ROOM = 108;

function lineChart(box, lines, options) {
  const width = widthOf(box);
  const height = options.height ?? (width < 520 ? 300 : 400);
  const named = width > 640 && lines.length * 15 < height - 60 && lines.every((line) => line.title.length <= 14);
  const frame = { left: 74, right: width - (named ? NAME_ROOM : 14), top: 12, bottom: height - 46 };
  const x = xScale(options.together ?? lines, options, frame);
  const y = yScale(options.together ?? lines, options, frame, x);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: lines.length ? 0 : null,
    "aria-label": `${options.yTitle} over ${options.xTitle}. ` +
      lines.map((line) => `${line.label}: ${options.yFormat(line.mean.at(-1))} at the end`).join("; ") });
  drawAxes(svg, { x, y, frame, ...options });
  const clip = `clip-${(lineChart.count = (lineChart.count ?? 0) + 1)}`;
  svg.append(shape("clipPath", { id: clip }, shape("rect", { x: frame.left, y: frame.top,
    width: frame.right - frame.left + 6, height: frame.bottom - frame.top })));
  const inside = shape("g", { "clip-path": `url(#${clip})` });
  for (const line of lines) drawBand(inside, line, x, y);
  for (const line of lines) drawLine(inside, line, x, y);
  svg.append(inside);
  if (named) drawNames(svg, lines, x, y, frame);
  box.replaceChildren(svg);
  if (!lines.length) box.prepend(element("p", { class: "empty" }, options.empty));
  else readValues(box, svg, lines, { x, y, frame, width }, options);
}

function xScale(lines, options, { left, right }) {
  const usable = (value) => !options.log || value > 0;
  const xs = lines.flatMap((line) => line.x.filter(usable));
  const far = Math.max(...xs, options.log ? 1e-6 : 0.01);
  const near = options.near ?? (options.log ? Math.min(...xs, far) : Math.min(0, ...xs));
  return Object.assign(scaleTo(near, far, left, right, options.log), { usable });
}

function yScale(lines, options, { top, bottom }, x) {
  const settled = lines.flatMap((line) => line.low.filter((_, i) => line.x[i] >= 0.04 * x.high));
  const values = [...settled, ...lines.flatMap((line) => line.high)];
  const [low, high] = options.range?.(values) ?? scoreRange(values, options.zoomed);
  return scaleTo(low, high, bottom, top);
}

const cornersOf = (line, values, x, y) =>
  line.x.flatMap((at, i) => (x.usable(at) ? [`${x(at).toFixed(1)} ${y(values[i]).toFixed(1)}`] : []));

function drawBand(group, line, x, y) {
  if (!line.seeds) return;
  const there = cornersOf(line, line.high, x, y);
  const back = cornersOf(line, line.low, x, y).reverse();
  if (there.length > 1)
    group.append(shape("path", { class: "band", d: `M${there.join("L")}L${back.join("L")}Z`, "fill-opacity": 0.16,
      style: { fill: ink(line) } }));
}

function drawLine(group, line, x, y) {
  const corners = cornersOf(line, line.mean, x, y);
  group.append(shape("path", { class: line.ranked === false ? "line unranked" : "line", "data-series": line.label,
    d: `M${corners.join("L")}`, fill: "none", "stroke-width": 2.2, "stroke-linejoin": "round",
    "stroke-dasharray": line.dash || null, style: { stroke: ink(line) } }));
  if (corners.length < 13)
    for (const corner of corners) {
      const [cx, cy] = corner.split(" ");
      group.append(shape("circle", { class: "point", cx, cy, r: 2.8, style: { fill: ink(line) } }));
    }
  for (const [at, score] of (line.converged ?? []).filter(([at]) => x.usable(at)))
    group.append(shape("circle", { class: "converged", cx: x(at), cy: y(score), r: 5, "stroke-width": 2,
      style: { stroke: ink(line), fill: "var(--card)" } }));
}

// Names beside the ends of the lines: in the order of the lines, moved apart no more than needed, each tied to its line.
function drawNames(svg, lines, x, y, frame) {
  const ends = lines.filter((line) => x.usable(line.x.at(-1))).map((line) => ({ line, from: x(line.x.at(-1)),
    at: Math.min(frame.bottom, Math.max(frame.top, y(line.mean.at(-1)))) }));
  const places = spreadOut(ends.map(({ at }) => at), 15, frame.top + 6, frame.bottom);
  ends.forEach(({ line, from, at }, number) => {
    const place = places[number];
    const to = frame.right + 16;
    svg.append(shape("path", { class: "leader", d: `M${from + 4} ${at}L${Math.max(from + 4, to - 12)} ${at}L${to} ${place}`, fill: "none",
      style: { stroke: ink(line) } }));
    svg.append(shape("text", { class: "end-label", "data-series": line.label, x: to + 4, y: place + 4 },
      line.ranked === false ? `${line.title} *` : line.title));
  });
}

// Positions at least a gap apart, in the order of those wanted and as near to them as that allows.
function spreadOut(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const blocks = [];
  for (const i of order) {
    blocks.push({ members: [i], centre: wanted[i] });
    for (let last = blocks.at(-1), before = blocks.at(-2); before; last = blocks.at(-1), before = blocks.at(-2)) {
      const need = (gap * (last.members.length + before.members.length)) / 2;
      if (last.centre - before.centre >= need) break;
      const members = [...before.members, ...last.members];
      blocks.splice(-2, 2, { members, centre: members.reduce((sum, m) => sum + wanted[m], 0) / members.length });
    }
  }
  const places = [];
  for (const { members, centre } of blocks) {
    const half = (gap * (members.length - 1)) / 2;
    const middle = Math.min(high - half, Math.max(low + half, centre));
    members.forEach((m, n) => { places[m] = middle - half + n * gap; });
  }
  return places;
}
